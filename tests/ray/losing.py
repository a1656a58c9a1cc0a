"""Nodes that are lost at a moment that a test chooses, and a limit on how long the rest may take."""

import faulthandler
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray

LIMIT = 300.0
"""Seconds, many times what is needed, since other tests may have the processors."""


def this_node() -> str:
    return str(ray.get_runtime_context().get_node_id())


def wait_for(path: Path, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} is not there after {seconds} seconds"
        time.sleep(0.05)


def stop_for_ever(reached: Path) -> None:
    """Say so, and never go on."""
    reached.touch()
    threading.Event().wait()


@contextmanager
def loses(cluster: Any, folder: Path) -> Iterator[None]:
    """A second node that is killed once a folder has a file `reached`; when Ray has noticed, it has a file `lost`."""
    added = cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    over = threading.Event()

    def lose_it() -> None:
        while not (folder / "reached").exists() and not over.is_set():
            time.sleep(0.05)
        cluster.remove_node(added, allow_graceful=False)
        while any(each["Alive"] for each in ray.nodes() if each["NodeID"] == added.node_id):
            time.sleep(0.05)
        (folder / "lost").touch()

    watcher = threading.Thread(target=lose_it)
    watcher.start()
    try:
        with watchdog():
            yield
        assert (folder / "lost").exists()
    finally:
        over.set()
        watcher.join()


@contextmanager
def watchdog() -> Iterator[None]:
    """Fail with every thread's stack if what is inside takes too long."""

    def bark(*_: Any) -> None:
        import pytest  # not in the processes of trials

        stacks = [f"thread {ident}\n{''.join(traceback.format_stack(f))}" for ident, f in sys._current_frames().items()]
        pytest.fail(f"it hangs: {LIMIT:g} seconds have passed\n" + "\n".join(stacks))

    before = signal.signal(signal.SIGALRM, bark)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    faulthandler.dump_traceback_later(1.5 * LIMIT, exit=True)  # for what does not even listen to signals
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()
