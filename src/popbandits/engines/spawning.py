"""Processes that end, or report it, when their owner ends, even if it is killed."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_with(line: Connection) -> None:
    """End this process and its group when the other end of the pipe is closed, which also happens if its owner is
    killed."""
    leads = hasattr(os, "getpgid") and os.getpgid(0) == os.getpid()

    def wait() -> None:
        line.poll(None)
        if leads:
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    with suppress(OSError):  # Not every kernel can.
        _kill_on_close(line.fileno(), -os.getpid() if leads else os.getpid())
    threading.Thread(target=wait, daemon=True).start()


def _kill_on_close(handle: int, victim: int) -> None:
    """Let the kernel kill a process, or a group by its negative number, when the other end of a pipe is closed.

    A thread that waits for that cannot run while an agent's C code holds the interpreter's lock.
    """
    if sys.platform == "linux":
        import fcntl

        fcntl.fcntl(handle, fcntl.F_SETOWN, victim)
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) | os.O_ASYNC)


@contextmanager
def spawning(
    environment: Mapping[str, str | None], blocked: Collection[signal.Signals] = (signal.SIGINT,)
) -> Iterator[None]:
    """Set what processes started in the block inherit: environment variables (None removes one), blocked signals."""
    masks = hasattr(signal, "pthread_sigmask")  # Windows has none, nor the tracker below.
    if masks:  # The first spawned process would start the tracker too, which unblocks Ctrl-C for itself and for us.
        resource_tracker.ensure_running()
    before = {name: os.environ.get(name) for name in environment}
    _set_variables(environment)
    # Blocked, not ignored: a Ctrl-C during the block is delivered afterwards.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, blocked) if masks else None
    try:
        yield
    finally:
        _set_variables(before)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _set_variables(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


PROGRAM = "import sys\nif not sys.stdin.buffer.read(1):\n    print(sys.argv[1], file=sys.stderr)"
"""Wait for a byte; print the text if there is none, because the process that would send it has ended."""


class Watchdog:
    """A process that prints a text if this process ends before `dismiss` is called, even if it is killed.

    Args:
        text: What to print to the standard error.
    """

    def __init__(self, text: str):
        command = [sys.executable, "-I", "-S", "-c", PROGRAM, text]
        # In a session of its own: Ctrl-C is for the process that it watches.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def dismiss(self) -> None:
        """End it without a word."""
        with suppress(OSError, ValueError):  # It was dismissed before, or killed.
            self._process.communicate(b"!")
