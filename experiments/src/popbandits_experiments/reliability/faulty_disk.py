"""Let the C library's calls on files fail or kill, and its wall clock jump, below Python, SQLite and PyTorch.

A library in C (faulty_disk.c) is compiled and loaded before the C library, so it works on Linux with a C compiler. What
is set holds for this process and those that it forks.
"""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

SOURCE = Path(__file__).with_suffix(".c")
WRITES, READS = 1, 2


@dataclass(frozen=True)
class Fault:
    """A way in which a disk fails, from its k-th call on or at that call alone."""

    name: str
    error: int
    """Error of the call; 0 if its process is killed instead."""
    kinds: int = WRITES
    lasting: bool = True
    halves: bool = False
    """The first write that fails takes half of its bytes, as on a disk that becomes full."""


KILL = Fault("killed", 0)
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
    """Return whether this process was started by `preload`."""
    return hasattr(ctypes.CDLL(None), "faulty_disk")


def preload(arguments: list[str], folder: Path) -> NoReturn:
    """Compile the library into a folder, and start Python anew on top of it, with these arguments."""
    library = folder / "faulty_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", library, SOURCE, "-ldl"], check=True)
    preloaded = f"{library} {os.environ.get('LD_PRELOAD', '')}".strip()
    os.execve(sys.executable, [sys.executable, *arguments], os.environ | {"LD_PRELOAD": preloaded})


def fail_from(number: int, fault: Fault, folder: Path) -> None:
    """Let the call of this number on files below a folder fail, from 1; 0 for none: they are only counted."""
    ctypes.CDLL(None).faulty_disk(
        os.fsencode(folder), fault.kinds, ctypes.c_long(number), fault.error, fault.lasting, fault.halves
    )


def calls() -> int:
    """Return how many calls were counted."""
    return int(ctypes.CDLL(None).faulty_disk_seen())


def jump(every: int, reach: int) -> None:
    """Let the wall clock jump after so many reads, by at most so many seconds back or forth; never for 0."""
    ctypes.CDLL(None).jumping_clock(ctypes.c_long(every), ctypes.c_long(reach))
