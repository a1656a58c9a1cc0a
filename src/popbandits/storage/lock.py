"""The lock that allows one run at a time in a folder."""

import sqlite3
from contextlib import closing
from pathlib import Path

from popbandits.errors import RunError
from popbandits.storage.disk import required, resume_command
from popbandits.storage.schema import is_plain

FILE = "run.lock"


class Lock:
    """A lock on a run's folder, held until it is released or its process ends.

    It is SQLite's lock on a separate file: it works wherever the record does, and the operating system releases it when
    a process is killed.
    """

    def __init__(self, directory: Path):
        path = directory / FILE
        with required("lock", path):
            self._connection = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
            try:
                self._connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.DatabaseError as error:
                self._connection.close()
                if "locked" not in str(error):
                    raise
                raise RunError(
                    f"a folder holds one run at a time, and another process is running {directory}; give another "
                    f"directory, or wait for it or stop it, then resume with: {resume_command(directory)}"
                ) from None

    def release(self) -> None:
        """Release the folder."""
        self._connection.close()


def running(directory: str | Path) -> bool:
    """Tell whether a process is running the run in this folder."""
    path = Path(directory) / FILE
    if not is_plain(path):  # Missing, or not made by a run: reading a pipe would block.
        return False
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", timeout=0, uri=True)) as connection:
            connection.execute("SELECT 1 FROM sqlite_master")
    except sqlite3.Error as error:
        return "locked" in str(error)
    return False
