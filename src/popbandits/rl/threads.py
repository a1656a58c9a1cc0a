"""Number of threads PyTorch computes with."""

import torch


def use_one_thread() -> None:
    """Make PyTorch compute with one thread: sums are the same on any number of cores, and members share the cores.

    PyTorch stores the number per thread, so an engine with several threads must call this in each.
    """
    torch.set_num_threads(1)
