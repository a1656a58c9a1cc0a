"""Processes that end with their owner, whatever ends it."""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_with(line: Connection) -> None:
    """Let this process, and all that it started in its group, end when the other end of the line is closed: as it also
    is if its owner is killed."""

    def wait() -> None:
        line.poll(None)
        if hasattr(os, "killpg") and os.getpgid(0) == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def spawning(environment: Mapping[str, str]) -> Iterator[None]:
    """What processes inherit that are started meanwhile: variables, and a deaf ear for Ctrl-C."""
    # The first process to be spawned would start this one too, which unblocks Ctrl-C for itself and for us.
    resource_tracker.ensure_running()
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    masks = hasattr(signal, "pthread_sigmask")  # Windows has none
    # Blocked, not ignored: a Ctrl-C meanwhile is delivered afterwards.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if masks else None
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
