"""The trunk on a GPU by PyTorch's own convolutions, and augmentations compiled by PyTorch."""

from collections.abc import Callable
from functools import cache
from threading import Lock
from types import FunctionType

import torch
from torch import Tensor

from popbandits_experiments.cuda_graphs import first_use
from popbandits_experiments.paper.procgen.augmentations import AUGMENTATIONS, Draws
from popbandits_experiments.paper.procgen.lanes import join_lane
from popbandits_experiments.paper.procgen.learner import PlainTrunk
from popbandits_experiments.paper.procgen.network import PIXEL_SCALE

_CALLS = Lock()
"""Lock to hold while compiled code is called, which may compile it.

While one thread compiles, PyTorch may refuse to call compiled code in another: seen with 2.11 in one interval of some
300 (pytorch/pytorch#126024). A call only launches kernels, so taking turns costs little.
"""


class TorchTrunk(PlainTrunk):
    """The plain trunk with compiled augmentations: in float32, or in bfloat16 where our kernels cannot be compiled."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(device, dtype)
        self.turn = join_lane(self, device).turn

    def put_augmented(self, buffer: Tensor, frames: Tensor, rows: Tensor, augmentation: str, draws: Draws) -> None:
        """Augment the frames at these indices and write them like `put`."""
        buffer.copy_(augment(augmentation, self._dtype, frames.index_select(0, rows), draws))


def augment(name: str, dtype: torch.dtype, frames: Tensor, draws: Draws) -> Tensor:
    """Augment frames, pixels from 0 to 255, by compiled code."""
    with _CALLS, first_use(name, dtype, frames.shape, frames.device):
        return _compile(name)(name, dtype, frames, *draws)


def _augment(name: str, dtype: torch.dtype, frames: Tensor, *draws: Tensor) -> Tensor:
    # Multiplied, not divided: compiled code repeats this for every pixel that another one depends on.
    images = frames * (1 / PIXEL_SCALE)
    return (AUGMENTATIONS[name].apply(images, *draws) * PIXEL_SCALE).to(dtype)


@cache
def _compile(name: str) -> Callable[..., Tensor]:
    """Compile an augmentation; each has its own code object, since PyTorch limits the versions of a code object."""
    code = _augment.__code__.replace(co_name=f"augment_{name}")
    return torch.compile(FunctionType(code, globals()), dynamic=False)
