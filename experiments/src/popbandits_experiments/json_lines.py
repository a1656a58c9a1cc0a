"""Store results as JSON lines, one for each run; a killed program loses only the line in progress."""

import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DIGITS = 6
"""Significant digits in the files: more precise than any score, and the files stay small."""


def append_lines(path: Path, rows: Iterable[Any]) -> None:
    """Append rows to a file, numbers rounded. An incomplete last line of a killed run is dropped."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # What looks incomplete may be what another process is writing.
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(b"".join(json.dumps(_rounded(row)).encode() + b"\n" for row in rows))
        file.flush()
        os.fsync(file.fileno())


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value
