"""How PyTorch computes on the CPU."""

import torch


def use_one_thread() -> None:
    """Make PyTorch compute with one thread: sums are the same on any number of cores, and members share the cores.

    PyTorch stores the number per thread, so an engine with several threads must call this in each.
    """
    torch.set_num_threads(1)


def compute_small_matrices() -> None:
    """Keep oneDNN out of products: on ARM it takes 0.7 ms to multiply 32 x 64 by 64 x 64, the BLAS 0.05 ms."""
    torch.backends.mkldnn.set_flags(False)
