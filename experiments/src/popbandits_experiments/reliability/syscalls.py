"""Kill a process at its k-th file-system call, as the kernel sees it: SQLite's writes count like Python's.

The process and its threads are traced (Linux, `ptrace`), not its children. It is killed just before the call.
"""

import ctypes
import errno
import os
import platform
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

CALLS: dict[str, dict[str, int]] = {
    "x86_64": {
        "write": 1,
        "open": 2,
        "pwrite64": 18,
        "writev": 20,
        "fsync": 74,
        "fdatasync": 75,
        "truncate": 76,
        "ftruncate": 77,
        "rename": 82,
        "mkdir": 83,
        "rmdir": 84,
        "unlink": 87,
        "openat": 257,
        "mkdirat": 258,
        "unlinkat": 263,
        "renameat": 264,
        "fallocate": 285,
        "renameat2": 316,
    },
    "aarch64": {
        "mkdirat": 34,
        "unlinkat": 35,
        "renameat": 38,
        "truncate": 45,
        "ftruncate": 46,
        "fallocate": 47,
        "openat": 56,
        "write": 64,
        "writev": 66,
        "pwrite64": 68,
        "fsync": 82,
        "fdatasync": 83,
        "renameat2": 276,
    },
}
"""Calls that change a file system, by machine; calls that open a file count if they may create it."""

TRACEME, SYSCALL, SETOPTIONS, GET_SYSCALL_INFO = 0, 24, 0x4200, 0x420E
TRACESYSGOOD, TRACECLONE, EXITKILL = 0x1, 0x8, 0x100000
ALL = 0x40000000  # waitpid: threads too
ENTRY = 1
AT_CALL = signal.SIGTRAP | 0x80


class SyscallInfo(ctypes.Structure):
    """The kernel's `struct ptrace_syscall_info`, at the entry of a call."""

    _fields_ = [
        ("op", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("instruction_pointer", ctypes.c_uint64),
        ("stack_pointer", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
        ("rest", ctypes.c_uint64 * 4),
    ]


def can_trace() -> bool:
    """Return whether calls can be counted on this machine."""
    return sys.platform == "linux" and platform.machine() in CALLS


def in_a_child(work: Callable[[], Any], first: Callable[[], Any] = lambda: None) -> int:
    """Start work in a forked process, with everything imported, and return its id.

    It ends with status 0, or 1 after an exception, which is printed.
    """
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking with threads: the child uses none of them
        pid = os.fork()
    if pid:
        return pid
    status = 1
    try:  # The child never returns to its caller.
        first()
        work()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        try:
            sys.stderr.flush()  # The work may have left none.
        finally:
            os._exit(status)


def killed_at(number: int | None, work: Callable[[], Any]) -> tuple[bool, int]:
    """Do work in a forked process that is killed before its file-system call of this number.

    Returns:
        whether it was killed, and the number of its calls; it is not killed if it ends before, or `number` is None.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long

    def ptrace(request: int, pid: int, address: int = 0, data: Any = 0) -> None:
        if libc.ptrace(request, pid, address, data) < 0 and ctypes.get_errno() != errno.ESRCH:  # it may just have died
            raise OSError(ctypes.get_errno(), f"ptrace: {os.strerror(ctypes.get_errno())}")

    def begin() -> None:
        os.setpgid(0, 0)  # The tracer waits for this group: the process and its threads.
        ptrace(TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)

    table = CALLS[platform.machine()]
    opening = {table.get("open"): 1, table["openat"]: 2}  # index of the argument with the flags
    counted, seen, known, was_killed = set(table.values()), 0, set(), False
    pid = in_a_child(work, begin)
    os.waitpid(pid, 0)
    ptrace(SETOPTIONS, pid, 0, TRACESYSGOOD | TRACECLONE | EXITKILL)
    ptrace(SYSCALL, pid)
    known.add(pid)
    while True:
        try:
            task, status = os.waitpid(-pid, ALL)
        except ChildProcessError:
            return was_killed, seen
        if not os.WIFSTOPPED(status):
            continue
        reason = os.WSTOPSIG(status)
        deliver = 0
        if reason == AT_CALL:
            info = SyscallInfo()
            ptrace(GET_SYSCALL_INFO, task, ctypes.sizeof(info), ctypes.byref(info))
            if info.op == ENTRY and info.number in counted:
                flags = opening.get(info.number)
                if flags is None or info.arguments[flags] & os.O_CREAT:
                    seen += 1
                    if seen == number:
                        os.kill(pid, signal.SIGKILL)
                        was_killed = True
        elif task not in known:
            known.add(task)  # A new thread starts with a stop.
        elif reason != signal.SIGTRAP:
            deliver = reason
        ptrace(SYSCALL, task, 0, deliver)
