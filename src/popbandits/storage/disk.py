"""Paths of a run, and how to tell a disk's failure from an agent's."""

import errno
import os
import re
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from popbandits.basics.rules import PATH
from popbandits.basics.wording import error_text
from popbandits.errors import DiskError, HistoryError, ReadError

DISK_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.ESTALE}
"""Errors that only a disk causes, whatever code wrote to it."""

RESOURCE_ERRNOS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Errors of a process that uses too many resources: the agent's fault, even if our own call raises them."""

# Libraries that write files themselves use the system's messages, or their own: the last three are PyTorch's.
_TEXTS = re.compile(
    "|".join(re.escape(os.strerror(number)) for number in sorted(DISK_ERRNOS))
    + r"|database or disk is full|PytorchStreamWriter failed|inline_container\.cc.* unexpected pos|iostream error"
)

_REFUSED = (*map(os.strerror, (errno.EACCES, errno.EPERM, errno.EROFS)), "readonly database", "unable to open database")
_FULL = (*map(os.strerror, (errno.ENOSPC, errno.EDQUOT)), "disk is full")
_NO_PATH = tuple(map(os.strerror, (errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)))
"""Texts of the system and of SQLite about a disk that this user may not use, a full one, and a path that cannot be."""

RECORD_ERRORS = (sqlite3.Error,)
"""Errors of a run's file; in the same code, others may be an agent's."""

_SQLITE_REFUSALS = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN}
"""SQLite's codes for a disk that does not work, or may not be used."""

PROBE_BYTES = 1 << 20
"""Bytes written to test a disk."""


def absolute_path(path: str | Path, name: str = "directory") -> Path:
    """Return an absolute path, so that the working directory may change; `name` is the argument's name in errors."""
    PATH.check(name, path)
    with required("find", Path(path)):  # The working directory may have been removed.
        return Path(path).absolute()


def resume_command(directory: str | Path) -> str:
    """Return the command that resumes a run, with a relative path where possible.

    >>> resume_command(Path("runs/first").absolute()), resume_command("/elsewhere/two words")
    ('popbandits resume runs/first', "popbandits resume '/elsewhere/two words'")
    """
    path = absolute_path(directory)
    with suppress(OSError, ValueError):  # The path may be outside the working directory, which may have been removed.
        path = path.relative_to(Path.cwd())
    return f"popbandits resume {shlex.quote(str(path))}"


@contextmanager
def required(what: str, path: Path, kinds: tuple[type[Exception], ...] = (OSError, *RECORD_ERRORS)) -> Iterator[None]:
    """Turn the failure of a disk into a DiskError: "could not write to runs/x: No space left on device".

    Args:
        what: Verb for what is done with the path, such as "write to".
        path: Path used.
        kinds: Exceptions that only a disk can cause here.
    """
    try:
        yield
    except kinds as error:
        raise DiskError(f"could not {what} {path}: {reason(error)}") from error


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn the failure of a disk while a record is read into a ReadError, so that the record is not called damaged."""
    try:
        yield
    except (OSError, sqlite3.Error, HistoryError) as error:
        cause = error.__cause__ if isinstance(error, HistoryError) else error
        if isinstance(error, ReadError) or not isinstance(cause, Exception) or not _refuses(cause, path):
            raise
        raise ReadError(
            f"could not read {path}: {reason(cause)}; nothing was changed: {remedy(cause)}, then try again, or copy "
            "its folder to one that you own"
        ) from cause


def _refuses(error: Exception, path: Path) -> bool:
    """Tell whether a record could not be read because of the disk."""
    if isinstance(error, OSError):
        return error.errno in DISK_ERRNOS
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    if code != sqlite3.SQLITE_CORRUPT:
        return code in _SQLITE_REFUSALS
    try:  # SQLite calls a file malformed if it cannot read it.
        with path.open("rb") as file:
            while file.read(PROBE_BYTES):
                pass
    except OSError:
        return True
    return False


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; a file that had its name stays until then."""
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise DiskError(f"could not write {path}: {reason(error)}; {remedy(error)}, or give another path") from error


def reason(error: Exception) -> str:
    """Return why the disk refused, without the path.

    >>> reason(PermissionError(13, "Permission denied", "runs/x"))
    'Permission denied'
    """
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def remedy(error: Exception) -> str:
    """Return what helps against an error of a disk, by its text: its number may be lost, as in another process.

    >>> remedy(PermissionError(13, "Permission denied")), remedy(OSError(28, "No space left on device"))
    ('allow this user to read and write there', 'free space there')
    """
    text = error_text(error)
    remedies = {
        "allow this user to read and write there": _REFUSED,
        "free space there": _FULL,
        "correct the path": _NO_PATH,
    }
    return next((each for each, texts in remedies.items() if any(one in text for one in texts)), "fix the disk")


def fault(error: BaseException, folder: Path) -> str | None:
    """Return the disk's failure if it made an agent fail, else None.

    Args:
        error: Exception of the agent; its causes are examined too, and their texts.
        folder: Folder that the agent was to write to. Without other evidence, a file is written there as a test.
    """
    causes = list(_behind(error))
    for cause in causes:
        if isinstance(cause, DiskError):
            return None if getattr(cause.__cause__, "errno", None) in RESOURCE_ERRNOS else str(cause)
        if isinstance(cause, OSError) and cause.errno in DISK_ERRNOS:
            return f"could not use {cause.filename or folder}: {reason(cause)}"
    if (refused := _probe(folder)) is not None:
        return refused
    # There may be space again: another member's checkpoint may have been removed since.
    texts = (found[0] for cause in causes if (found := _TEXTS.search(error_text(cause))))
    return next((f"could not write to {folder}: {text}" for text in texts), None)


def _behind(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and all its causes, each once."""
    waiting, seen = [error], set()
    while waiting:
        if id(cause := waiting.pop()) in seen:
            continue
        seen.add(id(cause))
        yield cause
        parts = cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
        waiting += [other for other in (*parts, cause.__context__, cause.__cause__) if other is not None]


def _probe(folder: Path) -> str | None:
    """Write a test file and remove it; return the disk's failure, or None."""
    path, existed = folder / "popbandits.probe", folder.is_dir()
    try:
        folder.mkdir(exist_ok=True)
        try:
            with path.open("wb") as file:
                file.write(bytes(PROBE_BYTES))
                file.flush()
                os.fsync(file)
        finally:
            path.unlink(missing_ok=True)
            if not existed:
                folder.rmdir()
    except OSError as error:
        return None if error.errno in RESOURCE_ERRNOS else f"could not write to {folder}: {reason(error)}"
    return None
