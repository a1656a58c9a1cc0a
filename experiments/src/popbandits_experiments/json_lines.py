"""Store results as JSON lines, one for each run; a killed program loses only the line in progress."""

import json
import os
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from popbandits.errors import HistoryError

DIGITS = 6
"""Significant digits in the files: more precise than any score, and the files stay small."""


class Keyed(Protocol):
    """A result that knows what it is of."""

    @property
    def key(self) -> Hashable:
        """Identity of the result."""


R = TypeVar("R", bound=Keyed)


def append_lines(path: Path, rows: Iterable[Any]) -> None:
    """Append rows to a file, numbers rounded. An incomplete last line of a killed run is dropped."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(b"".join(json.dumps(_rounded(row)).encode() + b"\n" for row in rows))
        file.flush()
        os.fsync(file.fileno())


def read_lines(folder: Path, make: Callable[..., R], what: str, name: str = "*") -> dict[Any, R]:
    """Return the results of a folder by key; none if there is no folder. Incomplete last lines are left out.

    Args:
        folder: Folder of the files.
        make: Class of the results, made from the values of a line.
        what: What a line is of, for errors.
        name: Name of the file to read, without its suffix; all if left out.
    """
    found: dict[Any, R] = {}
    for path in sorted(folder.glob(f"{name}.jsonl")):
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
            try:
                result = make(**json.loads(line))
            except (ValueError, TypeError) as error:
                raise HistoryError(f"{path}:{number}: damaged line: {error}") from error
            if result.key in found:
                raise HistoryError(f"{path}:{number}: a {what} must be stored once, got {result.key} twice")
            found[result.key] = result
    return found


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value
