"""The lock that allows one run at a time in a folder."""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from popbandits.errors import RunError
from popbandits.storage.disk import required, resume_command
from popbandits.storage.schema import is_plain

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK_FILE = "run.lock"
TIMEOUT_SECONDS = 1.0
"""Seconds to wait for a lock: whoever asks whether a run is running holds it for an instant."""
FIRST_BYTE, BYTE_COUNT = 0x40000002, 510
"""Bytes that earlier versions lock, whose lock is SQLite's; the file itself is empty, and never read or written."""
_HELD: "WeakSet[Lock]" = WeakSet()


class Lock:
    """A lock on a run's folder, held until it is released or its process ends.

    It is the operating system's lock on a file. A link in the place of the file is refused, never followed.
    """

    def __init__(self, directory: Path):
        path = directory / LOCK_FILE
        if os.path.lexists(path) and not is_plain(path):
            raise RunError(f"{path} must be a regular file, as runs make it, got a link, a folder or a pipe; remove it")
        with required("lock", path):
            self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
            _HELD.add(self)
            try:
                self._wait(self._handle, directory)
            except BaseException:
                self.close()
                raise

    def _wait(self, handle: int, directory: Path) -> None:
        end = time.monotonic() + TIMEOUT_SECONDS
        while not _take(handle, alone=True):
            if time.monotonic() > end:
                raise RunError(
                    f"a folder holds one run at a time, and another process is running {directory}; give another "
                    f"directory, or wait for it or stop it, then resume with: {resume_command(directory)}"
                )
            time.sleep(0.02)

    def close(self) -> None:
        """Release the folder."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def is_running(directory: str | Path) -> bool:
    """Tell whether a process is running the run in this folder."""
    path = Path(directory) / LOCK_FILE
    if not is_plain(path):  # Missing, or not made by a run: opening a pipe would block.
        return False
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        try:
            return not _take(handle, alone=False)
        finally:
            os.close(handle)
    return False


def _take(handle: int, alone: bool) -> bool:
    """Lock a file until it is closed; return False if another process holds it, also one of an earlier version."""
    if sys.platform == "win32":
        os.lseek(handle, FIRST_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, BYTE_COUNT)
        except PermissionError:
            return False
        return True
    try:
        fcntl.lockf(handle, fcntl.LOCK_SH | fcntl.LOCK_NB, BYTE_COUNT, FIRST_BYTE)
        fcntl.lockf(handle, fcntl.LOCK_UN, BYTE_COUNT, FIRST_BYTE)
        # This one belongs to the open file: it stays if the same process opens and closes the file elsewhere.
        fcntl.flock(handle, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _release_in_child() -> None:
    """Close the files that a forked process inherited: it may outlive the run, and would keep its folder locked."""
    for lock in list(_HELD):
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
