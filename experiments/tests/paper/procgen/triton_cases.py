"""What each Triton kernel must compute, for Triton's interpreter on the CPU and for GPUs alike.

On the CPU, set TRITON_INTERPRET=1 before anything imports Triton.
"""

from typing import cast

import torch
from torch import Generator, Tensor

from experiments.tests.paper.procgen.interpreted_network import BATCH, Case, coefficients, difference
from popbandits_experiments.paper.procgen.augmentations import AUGMENTATIONS
from popbandits_experiments.paper.procgen.fused import FusedTrunk
from popbandits_experiments.paper.procgen.kernel_table import Launcher

FRAMES = 3
MOST_ERROR = 1e-4
MOST_ERROR_OF_BFLOAT16 = 0.005


def put(device: torch.device) -> None:
    """Frames are copied exactly, to the inside of a border of zeros."""
    buffer = _put(device, None)
    inside = buffer[:, 1:65, 1:65, :3]
    assert torch.equal(inside.permute(0, 3, 1, 2).to(torch.uint8), _frames(device))
    assert float(buffer.sum(dtype=torch.float64)) == float(inside.sum(dtype=torch.float64))


def convolve_frames(device: torch.device) -> None:
    """Frames are convolved as by the plain augmentation."""
    draws = AUGMENTATIONS["random-convolution"].draw(FRAMES, Generator().manual_seed(4))
    found = _put(device, tuple(each.to(device) for each in draws))[:, 1:65, 1:65, :3].permute(0, 3, 1, 2)
    expected = 255 * AUGMENTATIONS["random-convolution"].apply(_frames(torch.device("cpu")).double() / 255, *draws)
    assert difference(found.cpu().double(), expected) < (MOST_ERROR_OF_BFLOAT16 if device.type == "cuda" else 1e-5)


def loss_gradient(device: torch.device) -> None:
    """The gradient of every parameter after the trunk, and of the features, is the loss's."""
    for rows, used in ((BATCH, (0.1, 0.2, 0.5)), (2 * BATCH, (0.1, 0.2, 0.5)), (2 * BATCH, (0.1, 0.0, 100.0))):
        errors = Case(rows, device=device).errors(coefficients(*used))
        assert max(errors) < MOST_ERROR, errors


CASES = {check.__name__: check for check in (put, convolve_frames, loss_gradient)}


def _frames(device: torch.device) -> Tensor:
    """Frames with others before and after them, so that no mistake reads what is not there."""
    shape = (FRAMES + 2, 3, 64, 64)
    return torch.randint(256, shape, generator=Generator().manual_seed(2), dtype=torch.uint8).to(device)[1:-1]


def _put(device: torch.device, draws: tuple[Tensor, ...] | None) -> Tensor:
    trunk = FusedTrunk(device, cast(Launcher, None))  # It launches nothing.
    buffer = trunk.buffer(FRAMES)
    buffer = buffer if device.type == "cuda" else buffer.float()  # The interpreter has no bfloat16.
    if draws is None:
        trunk.put(buffer, _frames(device))
    else:
        trunk.put_augmented(buffer, _frames(device), "random-convolution", draws)
    return buffer
