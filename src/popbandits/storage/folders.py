"""The folders of runs, found by their files, and the times of their last changes."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from popbandits.storage.schema import RUN_FILE

Stamp = tuple[int, ...]

MAX_DEPTH = 5
"""Maximum depth of folders searched for runs."""


def runs_below(root: Path) -> Iterator[Path]:
    """Yield the folder of every run at or below `root`; links and hidden folders are not followed."""
    for name, below, files in os.walk(root):
        folder = Path(name)
        if RUN_FILE in files:
            yield folder
            below.clear()  # Folders in a run's folder are not searched.
        elif len(folder.relative_to(root).parts) >= MAX_DEPTH:
            below.clear()
        below[:] = sorted(name for name in below if not name.startswith("."))


def run_folders(given: Iterable[str | Path]) -> list[Path]:
    """List the folders of all runs at or below the given ones, each once.

    A folder without runs is listed itself: opening it gives the error.
    """
    found: dict[Path, None] = {}
    for path in map(Path, given):
        found.update(dict.fromkeys([*runs_below(path)] or [path]))
    return list(found)


def file_stamp(directory: Path) -> Stamp:
    """Return numbers that change when a run's file is written to or replaced; empty if there is no file."""
    return tuple(number for of in _written(directory) for number in (of.st_ino, of.st_mtime_ns, of.st_size))


def last_write(directory: Path) -> float:
    """Return the time of the last write to a run's file, in seconds since 1970; 0 if it was removed meanwhile."""
    return max((of.st_mtime for of in _written(directory)), default=0.0)


def _written(directory: Path) -> Iterator[os.stat_result]:
    """Yield the status of a run's file and of its write-ahead log; readers create an empty log, which is skipped."""
    for path in (directory / RUN_FILE, directory / f"{RUN_FILE}-wal"):
        with suppress(OSError):
            if (of := path.stat()).st_size:
                yield of
