"""The folders of runs, found by their files, and when these were written to."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from popbandits.storage.schema import FILE

Stamp = tuple[int, ...]

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


def stamp(directory: Path) -> Stamp:
    """Return what differs after a write to a run's file, or when another took its place; empty where there is none."""
    return tuple(number for of in _written(directory) for number in (of.st_ino, of.st_mtime_ns, of.st_size))


def changed(directory: Path) -> float:
    """Return when a run's file was last written to, in seconds since 1970."""
    return max(of.st_mtime for of in _written(directory))


def _written(directory: Path) -> Iterator[os.stat_result]:
    """The state of a run's file, and of the log of what is not in it yet; who reads makes an empty log."""
    for path in (directory / FILE, directory / f"{FILE}-wal"):
        with suppress(OSError):
            if (of := path.stat()).st_size:
                yield of
