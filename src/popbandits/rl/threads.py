"""Settings of PyTorch on the CPU: its threads, and the library that multiplies."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def use_one_thread() -> None:
    """Make PyTorch compute with one thread: sums are the same on any number of cores, and members share the cores.

    PyTorch stores the number per thread, so an engine with several threads must call this in each.
    """
    torch.set_num_threads(1)


@contextmanager
def without_onednn() -> Iterator[None]:
    """Multiply with the BLAS alone: on ARM, oneDNN prepares a small product for longer than the BLAS computes it."""
    before, *_ = torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(before)  # type: ignore[no-untyped-call]
