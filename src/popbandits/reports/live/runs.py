"""The runs in a folder, found by their files and named by their paths."""

import os
import threading
import time
from pathlib import Path

from popbandits.errors import ArgumentError, HistoryError
from popbandits.reports.live.news import News
from popbandits.reports.status import Status, status
from popbandits.storage.folders import Stamp, file_stamp, runs_below
from popbandits.storage.lock import is_running
from popbandits.storage.schema import RUN_FILE

SCAN_SECONDS = 1.0
"""Seconds after which runs are looked for again."""
ROOT_NAME = "."
"""Name of a run in the folder itself."""


class Runs:
    """Every run below a folder, and nothing outside it, wherever links point. Thread-safe."""

    def __init__(self, root: Path):
        if not root.is_dir():
            raise ArgumentError(f"watch needs a folder that holds runs, or will, got {root}; make it, or give another")
        self.root = root.resolve()
        self._lock = threading.Lock()
        self._found: dict[str, Path] = {}
        self._looked = -SCAN_SECONDS
        self._news: dict[str, News] = {}
        self._statuses: dict[str, tuple[tuple[Stamp, bool], Status | str]] = {}

    def find(self) -> dict[str, Path]:
        """Return the folder of every run, by its path from the root."""
        with self._lock:
            if time.monotonic() - self._looked >= SCAN_SECONDS:
                below = (folder for folder in runs_below(self.root) if self._inside(folder / RUN_FILE))
                self._found = dict(sorted((_name(folder.relative_to(self.root)), folder) for folder in below))
                self._looked = time.monotonic()
                for known in (self._news, self._statuses):
                    for gone in known.keys() - self._found.keys():
                        known.pop(gone)
            return self._found

    def _inside(self, path: Path) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self.root)  # Path.resolve fails where a link is a circle.

    def news(self, name: str) -> News | None:
        """Return the news of a run; None if there is no such run."""
        directory = self.find().get(name)
        if directory is None:
            return None
        with self._lock:
            return self._news.setdefault(name, News(directory))

    def statuses(self) -> dict[str, Status | str]:
        """Return the state of every run, or the error that reading it gave."""
        return {name: self._status(name, directory) for name, directory in self.find().items()}

    def _status(self, name: str, directory: Path) -> Status | str:
        now = file_stamp(directory), is_running(directory)
        known = self._statuses.get(name)
        if known is None or known[0] != now:
            try:
                how: Status | str = status(directory)
            except (HistoryError, OSError) as error:
                how = str(error)
            known = self._statuses[name] = now, how
        return known[1]


def _name(folder: Path) -> str:
    """Return the path as text that a page can send back, even if its bytes are not valid text."""
    return os.fsencode(folder.as_posix()).decode("utf-8", "backslashreplace")
