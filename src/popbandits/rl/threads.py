"""How many threads PyTorch computes with."""

import torch


def use_one_thread() -> None:
    """Sums come out the same on any number of cores, of which every member that trains beside others has one.

    PyTorch keeps the number for each thread, so an engine that uses several has to come by here in each.
    """
    torch.set_num_threads(1)
