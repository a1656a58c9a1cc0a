"""Procedures on tensors with fixed addresses, replayed as CUDA graphs."""

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import RLock

import torch

PREPARING = RLock()
"""Lock to hold while a graph is captured, and while code is compiled or loaded for a GPU.

Compilers time their kernels and wait for the whole device, which fails during a capture by any thread, and the capture
with it. Captures by several agents at once would collide in autograd's single thread for the device.
"""

_USED: set[Hashable] = set()


@contextmanager
def first_use(*key: Hashable) -> Iterator[None]:
    """Hold `PREPARING` if the code with this key, compiled or loaded by its first use, has not been used yet."""
    if key in _USED:
        yield
        return
    with PREPARING:
        yield
        _USED.add(key)  # Only now: who fails tries again.


class Replayed:
    """A procedure without arguments. On a GPU the second call captures a graph, and later calls replay it.

    The first call runs normally, so that kernels are compiled and libraries set up outside of the graph. Every call
    takes effect exactly once. On a CPU, all calls run normally.
    """

    def __init__(self, procedure: Callable[[], None], stream: "torch.cuda.Stream | None") -> None:
        self._procedure = procedure
        self._stream = stream
        self._ran = False
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Run the procedure once; on a GPU, in stream order."""
        if self._stream is None:
            self._procedure()
        elif self._graph is not None:
            self._graph.replay()
        else:
            with PREPARING:
                if not self._ran:
                    self._procedure()
                    self._ran = True
                else:
                    graph = torch.cuda.CUDAGraph()
                    capture = torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local")
                    with _keeping_garbage(), capture:
                        self._procedure()
                    self._graph = graph  # Only now: a failed capture leaves nothing to replay.
                    graph.replay()

    def close(self) -> None:
        """Forget the procedure and its graph."""
        # A procedure is often a method of the object that holds this: both would live until garbage is collected.
        self._procedure, self._graph = _closed, None


def _closed() -> None:
    raise RuntimeError("a procedure was called after its end")


@contextmanager
def _keeping_garbage() -> Iterator[None]:
    """Leave garbage where it is: releasing an old graph, or pinned memory, would make a capture fail."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def stream_on(device: torch.device) -> "torch.cuda.Stream | None":
    """Make a stream for captures on a GPU; return None on other devices, which capture nothing."""
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
