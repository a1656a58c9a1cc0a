"""Files of a run: where they are, and how to tell what the disk did from what an agent did."""

import errno
import os
import re
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from popbandits.errors import DiskError
from popbandits.rules import PATH
from popbandits.wording import error_text

REFUSALS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.ESTALE}
"""Errors that only a disk makes, whoever wrote to it."""

LIMITS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Errors of a process that has too much open: an agent's doing, also where our own call meets them."""

# Libraries that write files themselves pass on the system's words, or their own: the last three are PyTorch's.
_TEXTS = re.compile(
    "|".join(re.escape(os.strerror(number)) for number in sorted(REFUSALS))
    + r"|database or disk is full|PytorchStreamWriter failed|inline_container\.cc.* unexpected pos|iostream error"
)

RECORD_ERRORS = (sqlite3.Error,)
"""Errors of a run's file, where others may be an agent's."""

PROBE = 1 << 20
"""Bytes that a healthy disk takes."""


def anchored(path: str | Path, name: str = "directory") -> Path:
    """Return a path that stays the same when the working directory changes; `name` is the argument that gave it."""
    PATH.check(name, path)
    with required("find", Path(path)):  # The working directory may have been removed.
        return Path(path).absolute()


def resume_command(directory: str | Path) -> str:
    """Return the command that goes on with a run, with a path as short as can be.

    >>> resume_command(Path("runs/first").absolute()), resume_command("/elsewhere/two words")
    ('popbandits resume runs/first', "popbandits resume '/elsewhere/two words'")
    """
    path = anchored(directory)
    with suppress(OSError, ValueError):  # It may be elsewhere, and the working directory may have been removed.
        path = path.relative_to(Path.cwd())
    return f"popbandits resume {shlex.quote(str(path))}"


@contextmanager
def required(what: str, path: Path, kinds: tuple[type[Exception], ...] = (OSError, *RECORD_ERRORS)) -> Iterator[None]:
    """Turn the failure of a disk into a DiskError: "could not write to runs/x: No space left on device".

    Args:
        what: is done with the path, as a verb.
        kinds: of exceptions that only a disk can cause here.
    """
    try:
        yield
    except kinds as error:
        raise DiskError(f"could not {what} {path}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Return why the disk refused, without the path.

    >>> reason(PermissionError(13, "Permission denied", "runs/x"))
    'Permission denied'
    """
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def fault(error: BaseException, folder: Path) -> str | None:
    """Return what is wrong with the disk if that is why an agent failed, else None.

    Args:
        error: what the agent raised; the exceptions behind it are looked at too, and their texts.
        folder: where it was to write; if nothing else tells, something is written there to see whether that works.
    """
    causes = list(_behind(error))
    for cause in causes:
        if isinstance(cause, DiskError):
            return None if getattr(cause.__cause__, "errno", None) in LIMITS else str(cause)
        if isinstance(cause, OSError) and cause.errno in REFUSALS:
            return f"could not use {cause.filename or folder}: {reason(cause)}"
    if (refused := _probe(folder)) is not None:
        return refused
    # There may be room again: another member's checkpoint was removed meanwhile.
    texts = (found[0] for cause in causes if (found := _TEXTS.search(error_text(cause))))
    return next((f"could not write to {folder}: {text}" for text in texts), None)


def _behind(error: BaseException) -> Iterator[BaseException]:
    """An exception and all that led to it, each once."""
    waiting, seen = [error], set()
    while waiting:
        if id(cause := waiting.pop()) in seen:
            continue
        seen.add(id(cause))
        yield cause
        parts = cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
        waiting += [other for other in (*parts, cause.__context__, cause.__cause__) if other is not None]


def _probe(folder: Path) -> str | None:
    """Write to a folder and remove it; what the disk says against it."""
    path, existed = folder / "popbandits.probe", folder.is_dir()
    try:
        folder.mkdir(exist_ok=True)
        try:
            with path.open("wb") as file:
                file.write(bytes(PROBE))
                file.flush()
                os.fsync(file)
        finally:
            path.unlink(missing_ok=True)
            if not existed:
                folder.rmdir()
    except OSError as error:
        return None if error.errno in LIMITS else f"could not write to {folder}: {reason(error)}"
    return None
