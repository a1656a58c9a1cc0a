"""The folders of runs, found by their files."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from popbandits.storage.schema import FILE

DEPTH = 5
"""Folders below a given one in which runs are looked for."""


def runs_below(root: Path) -> Iterator[Path]:
    """The folder of every run in this one, itself or below; not through links, nor in hidden folders."""
    for folder, below, files in os.walk(root):
        place = Path(folder)
        if FILE in files:
            yield place
            below.clear()  # What a run keeps there is its own.
        elif len(place.relative_to(root).parts) >= DEPTH:
            below.clear()
        below[:] = sorted(name for name in below if not name.startswith("."))


def run_folders(given: Iterable[str | Path]) -> list[Path]:
    """The folders of the runs that are meant, each once: a run's own, or one that holds runs.

    One without any stays as it is, for whoever opens it to say so.
    """
    found: dict[Path, None] = {}
    for path in map(Path, given):
        found.update(dict.fromkeys([*runs_below(path)] or [path]))
    return list(found)
