"""Procedures on tensors with fixed addresses, replayed as CUDA graphs."""

from collections.abc import Callable
from threading import RLock

import torch

# Captures of several agents at once would meet in autograd's one thread for the device.
_CAPTURING = RLock()


class Replayed:
    """A procedure without arguments: on a GPU its second call captures a graph, which all later ones replay.

    The first call runs plainly, so that kernels are compiled and libraries set up outside of the graph, and every call
    has its effect exactly once. On a CPU, all calls are plain.
    """

    def __init__(self, procedure: Callable[[], None], stream: "torch.cuda.Stream | None") -> None:
        self._procedure = procedure
        self._stream = stream
        self._ran = False
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Do it once; on a GPU, in the order of the stream."""
        if self._stream is None:
            self._procedure()
        elif self._graph is not None:
            self._graph.replay()
        else:
            with _CAPTURING:
                if not self._ran:
                    self._procedure()
                    self._ran = True
                else:
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                        self._procedure()
                    self._graph = graph  # Only now: after a capture that failed there is nothing to replay.
                    graph.replay()


def stream_on(device: torch.device) -> "torch.cuda.Stream | None":
    """Make a stream for captures on a GPU; None on other devices, where procedures run plainly."""
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
