"""The start of a run, where a user may give the folder of a past one."""

import os
from pathlib import Path

from popbandits.errors import ArgumentError
from popbandits.history import History
from popbandits.population.start import FORMS, WORDS, PastRun, Start
from popbandits.storage.schema import RUN_FILE, holds_run


def read_start(start: Start) -> Start:
    """Read the past run in a folder; return any other start unchanged."""
    if not isinstance(start, str | os.PathLike) or start in WORDS:
        return start
    folder = os.fspath(start)
    if not holds_run(Path(folder) / RUN_FILE):
        raise ArgumentError(f"{FORMS}, got {folder!r}, which holds no run")
    return PastRun(History.load(folder), folder)
