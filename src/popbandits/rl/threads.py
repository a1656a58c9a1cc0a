"""How PyTorch computes on the CPU."""

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
    """Multiply by the plain BLAS: on ARM oneDNN takes 0.7 ms for 32 x 64 by 64 x 64, the BLAS 0.05 ms."""
    before, *_ = torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(before)  # type: ignore[no-untyped-call]
