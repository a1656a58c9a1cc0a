"""Let the C library's calls on files fail, and its wall clock jump, below Python, SQLite and PyTorch.

A library in C (faulty_disk.c) is compiled and loaded before the C library, so it works on Linux with a C compiler.
"""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
WRITES, READS = 1, 2


@dataclass(frozen=True)
class Fault:
    """A way in which a disk fails, from its k-th call on or at that call alone."""

    name: str
    error: int
    kinds: int = WRITES
    lasting: bool = True
    halves: bool = False
    """The first write that fails takes half of its bytes, as on a disk that becomes full."""


FAULTS = (
    Fault("full", errno.ENOSPC, halves=True),
    Fault("read-only", errno.EROFS),
    Fault("broken", errno.EIO, WRITES | READS),
    Fault("one error", errno.EIO, WRITES | READS, lasting=False),
    Fault("one short write", errno.ENOSPC, lasting=False, halves=True),
)


def can_fail() -> bool:
    """Return whether calls can be made to fail on this machine."""
    return sys.platform == "linux" and shutil.which("cc") is not None


def is_loaded() -> bool:
    """Return whether this process was started by `preloaded`."""
    return hasattr(ctypes.CDLL(None), "faulty_disk")


def preloaded(command: list[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Compile the library into a folder, and run a command on top of it."""
    library = folder / "faulty_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", library, SOURCE, "-ldl"], check=True)
    before = os.environ.get("LD_PRELOAD", "")
    return subprocess.run(command, env=os.environ | {"LD_PRELOAD": f"{library} {before}".strip()}, check=False)


def fail_from(number: int, fault: Fault, folder: Path) -> None:
    """Let the call of this number on files below a folder fail, from 1; 0 for none: they are only counted."""
    ctypes.CDLL(None).faulty_disk(
        os.fsencode(folder), fault.kinds, ctypes.c_long(number), fault.error, fault.lasting, fault.halves
    )


def mend() -> None:
    """Let every call succeed again."""
    fail_from(0, FAULTS[0], Path())


def calls() -> tuple[int, int]:
    """Return how many calls were counted, and how many failed."""
    library = ctypes.CDLL(None)
    return library.faulty_disk_seen(), library.faulty_disk_failed()


@contextmanager
def jumping_clock(every: int, reach: int) -> Iterator[None]:
    """Let the wall clock jump after so many reads, by at most so many seconds back or forth."""
    library = ctypes.CDLL(None)
    library.jumping_clock(ctypes.c_long(every), ctypes.c_long(reach))
    try:
        yield
    finally:
        library.jumping_clock(ctypes.c_long(0), ctypes.c_long(0))
