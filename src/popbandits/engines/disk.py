"""Files of a run: where they are, and what to say when the disk does not do what it must."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from popbandits.errors import ArgumentError, RunError


def anchored(path: str | Path) -> Path:
    """Return a path that stays the same when the working directory changes."""
    if "\0" in str(path):
        raise ArgumentError(f"a path must not contain a null character, got {str(path)!r}")
    with required("find", Path(path)):  # The working directory may have been removed.
        return Path(path).absolute()


@contextmanager
def required(what: str, path: Path, kinds: tuple[type[Exception], ...] = (OSError, sqlite3.Error)) -> Iterator[None]:
    """Turn the failure of a disk into a RunError: "could not write to runs/x: No space left on device".

    Args:
        what: is done with the path, as a verb.
        kinds: of exceptions that only a disk can cause here.
    """
    try:
        yield
    except kinds as error:
        raise RunError(f"could not {what} {path}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Return why the disk refused, without the path.

    >>> reason(PermissionError(13, "Permission denied", "runs/x"))
    'Permission denied'
    """
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
