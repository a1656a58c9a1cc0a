"""Capture of what agents, libraries and worker processes print while a view is on the screen, to show it above."""

import os
import sys
import tempfile
from contextlib import suppress
from io import TextIOWrapper

MAX_BUFFER_BYTES = 1 << 16
"""Maximum bytes buffered; older output is dropped."""

MAX_FILE_BYTES = 1 << 24
"""Size in bytes at which the file is truncated, even if output may be lost."""


class OutputCapture:
    """The captured standard output and error of this process and its children, where these are the terminal.

    They go to a file: a full pipe would block the printing thread, and a library may print while it holds the
    interpreter's lock, so that no thread can read.
    """

    def __init__(self) -> None:
        handle, self._path = tempfile.mkstemp(prefix="popbandits-", suffix=".txt")
        self._from = open(handle, "rb", buffering=0)  # noqa: SIM115 closed by `close`
        self._into = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        self._unlink()  # While it is open, so that a killed process leaves no file behind.
        self._rest = b""
        _flush()
        self._kept = {number: os.dup(number) for number in (1, 2) if os.isatty(number)}
        self.terminal: TextIOWrapper = os.fdopen(
            os.dup(self._kept[2]), "w", encoding=sys.stderr.encoding, errors="replace"
        )
        """The terminal, on which the view is drawn."""
        for number in self._kept:
            os.dup2(self._into, number)

    def read(self) -> str:
        """Return the complete lines that were printed since the last call."""
        new = os.fstat(self._into).st_size - self._from.tell()
        if new > MAX_BUFFER_BYTES:
            self._from.seek(new - MAX_BUFFER_BYTES, os.SEEK_CUR)
            self._rest = b"[...]\n"
        found = (self._rest + self._from.read(MAX_BUFFER_BYTES)).replace(b"\r\n", b"\n")
        whole, newline, rest = found.rpartition(b"\n")
        self._rest = rest[rest.rfind(b"\r", 0, -1) + 1 :]  # the last state of a progress bar
        if self._from.tell() == (size := os.fstat(self._into).st_size) or size > MAX_FILE_BYTES:
            os.ftruncate(self._into, 0)
            self._from.seek(0)
        return (whole + newline).decode(errors="replace")

    def close(self) -> str:
        """Direct output to the terminal again, and return what was printed last."""
        _flush()
        for number, kept in self._kept.items():
            os.dup2(kept, number)
            os.close(kept)
        last = self.read() + self._rest.decode(errors="replace")
        os.close(self._into)
        self._from.close()
        self._unlink()
        return last

    def _unlink(self) -> None:
        with suppress(OSError):  # It is gone already, or Windows keeps the name of an open file.
            os.unlink(self._path)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # The stream may be None, or closed.
            stream.flush()
