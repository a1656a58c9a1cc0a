"""The trunk on a GPU by PyTorch's own convolutions, and augmentations compiled by PyTorch."""

from collections.abc import Callable
from functools import cache
from types import FunctionType

import torch
from torch import Tensor

from popbandits.paper.procgen import network
from popbandits.paper.procgen.augmentations import AUGMENTATIONS, Draws
from popbandits.paper.procgen.environments import FRAME
from popbandits.paper.procgen.learner import Differentiable
from popbandits.paper.procgen.network import PIXEL_SCALE
from popbandits.rl.cuda_graphs import first_use


class TorchTrunk(Differentiable):
    """The network's trunk in float32, or in bfloat16 where our own kernels cannot be compiled.

    Channels come last in memory, which the libraries' convolutions are fastest with.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self._device, self._dtype = device, dtype

    def buffer(self, frames: int) -> Tensor:
        """Make an input buffer for this number of frames."""
        shape = (frames, *FRAME)
        return torch.zeros(shape, dtype=self._dtype, device=self._device).to(memory_format=torch.channels_last)

    def put(self, buffer: Tensor, frames: Tensor) -> None:
        """Write frames (n, 3, 64, 64), pixels from 0 to 255, to a buffer of the same size; bfloat16 is exact."""
        buffer.copy_(frames)

    def put_augmented(self, buffer: Tensor, frames: Tensor, augmentation: str, draws: Draws) -> None:
        """Augment frames and write them like `put`."""
        self.put(buffer, augment(augmentation, self._dtype, frames, draws))

    def __call__(self, buffer: Tensor, flat: Tensor) -> Tensor:
        """Compute the features of the frames in a buffer."""
        return network.trunk(buffer, flat.to(self._dtype))


def augment(name: str, dtype: torch.dtype, frames: Tensor, draws: Draws) -> Tensor:
    """Augment frames, pixels from 0 to 255, by compiled code."""
    with first_use(name, dtype, frames.shape, frames.device):
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
