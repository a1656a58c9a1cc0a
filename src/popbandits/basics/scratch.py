"""Temporary folders, which are removed even after a kill."""

import os
import shutil
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

PREFIX = "popbandits-scratch-"
YOUNG = 60.0
"""Seconds during which a new folder may not be locked yet."""


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a temporary folder for the block, and remove this user's folders whose process was killed."""
    for left in Path(gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            _remove_if_left(left)
    with TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        handle = _lock(Path(name))
        try:
            yield Path(name)
        finally:
            if handle is not None:
                os.close(handle)


def own_folder(owner: object) -> tuple[Path, Callable[[], object]]:
    """Make a temporary folder that is removed with its owner; return it, and a function that removes it earlier."""
    stack = ExitStack()
    return stack.enter_context(scratch()), weakref.finalize(owner, stack.close)


def _lock(folder: Path) -> int | None:
    """Lock a folder until the handle is closed, at the latest at the end of the process; raise OSError if it is locked.

    Return None on Windows, which has no such locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def _remove_if_left(folder: Path) -> None:
    about = folder.lstat()
    if sys.platform == "win32" or about.st_uid != os.geteuid() or time.time() - about.st_mtime < YOUNG:
        return
    handle = _lock(folder)
    if handle is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)
