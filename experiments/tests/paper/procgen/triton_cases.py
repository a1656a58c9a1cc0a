"""What each Triton kernel must compute, for Triton's interpreter on the CPU and for GPUs alike.

On the CPU, set TRITON_INTERPRET=1 before anything imports Triton.
"""

from typing import Any, cast

import torch
from torch import Generator, Tensor

from experiments.tests.paper.procgen.interpreted_network import BATCH, Case, coefficients, difference
from popbandits_experiments.paper.procgen import fused_adam
from popbandits_experiments.paper.procgen.augmentations import AUGMENTATIONS
from popbandits_experiments.paper.procgen.fused import FusedTrunk
from popbandits_experiments.paper.procgen.kernel_table import Launcher
from popbandits_experiments.paper.procgen.optimizer import TorchAdam

FRAMES = 3
MOST_ERROR = 1e-4
MOST_ERROR_OF_BFLOAT16 = 0.005
MOST_ERROR_OF_ADAM = 1e-6
PARAMETERS = 2 * fused_adam.BLOCK + 500  # The last block is not full.


def convolve_frames(device: torch.device) -> None:
    """Frames are convolved as by the plain augmentation."""
    draws = AUGMENTATIONS["random-convolution"].draw(FRAMES, Generator().manual_seed(4))
    # Others are before and after them, so that no mistake reads what is not there.
    frames = torch.randint(256, (FRAMES + 2, 3, 64, 64), generator=Generator().manual_seed(2), dtype=torch.uint8)
    rows = torch.tensor([2, 1, 3])
    trunk = FusedTrunk(device, cast(Launcher, None))  # It launches nothing.
    buffer = trunk.buffer(FRAMES)
    buffer = buffer if device.type == "cuda" else buffer.float()  # The interpreter has no bfloat16.
    on_device = tuple(each.to(device) for each in draws)
    trunk.put_augmented(buffer, frames.to(device), rows.to(device), "random-convolution", on_device)
    found = buffer[:, 1:65, 1:65, :3].permute(0, 3, 1, 2)
    expected = 255 * AUGMENTATIONS["random-convolution"].apply(frames[rows].double() / 255, *draws)
    assert difference(found.cpu().double(), expected) < (MOST_ERROR_OF_BFLOAT16 if device.type == "cuda" else 1e-5)


def loss_gradient(device: torch.device) -> None:
    """The gradient of every parameter after the trunk, and of the features, is the loss's."""
    for rows, used in ((BATCH, (0.1, 0.2, 0.5)), (2 * BATCH, (0.1, 0.2, 0.5)), (2 * BATCH, (0.1, 0.0, 100.0))):
        errors = Case(rows, device=device).errors(coefficients(*used))
        assert max(errors) < MOST_ERROR, errors


def sum_squares(device: torch.device) -> None:
    """Steps are counted, and all squares are in the sums."""
    optimizer, gradient, _ = _adam(fused_adam.FusedAdam, torch.float32, device)
    for count in (1, 2):
        gradient.copy_(_gradients()[count])
        optimizer.step()
        assert optimizer.state()["step"] == count
        expected = _gradients()[count].double().square().sum()
        assert abs(float(optimizer._sums.sum(dtype=torch.float64)) / float(expected) - 1) < MOST_ERROR_OF_ADAM


def adam(device: torch.device) -> None:
    """Parameters and moments are those of PyTorch's Adam in float64, also by gradients that are shortened."""
    optimizer, gradient, flat = _adam(fused_adam.FusedAdam, torch.float32, device)
    exact, exact_gradient, exact_flat = _adam(TorchAdam, torch.float64, torch.device("cpu"))
    for each in _gradients():
        before = exact_flat.clone()
        gradient.copy_(each)
        exact_gradient.copy_(each)
        optimizer.step()
        exact.step()
        moved, error = exact_flat - before, flat.cpu().double() - exact_flat
        assert error.norm() < 1e-3 * moved.norm(), float(error.norm() / moved.norm())  # Parameters are rounded, too.
        for name, expected in exact.state().items():
            assert difference(optimizer.state()[name].cpu().double(), expected.double()) < MOST_ERROR_OF_ADAM, name
    gradient[3] = torch.nan
    optimizer.step()
    assert bool(flat.isnan().all())


CASES = {check.__name__: check for check in (convolve_frames, loss_gradient, sum_squares, adam)}


def _adam(make: Any, dtype: torch.dtype, device: torch.device) -> tuple[Any, Tensor, Tensor]:
    """Make an optimizer; return it with its gradient and parameters."""
    start = torch.randn(PARAMETERS, generator=Generator().manual_seed(5)).to(device, dtype)
    flat, gradient = torch.nn.Parameter(start), torch.zeros_like(start)
    return make(flat, gradient, torch.tensor(1e-3, dtype=dtype, device=device)), gradient, flat.detach()


def _gradients() -> list[Tensor]:
    """Gradients of numbers of many sizes, shorter than the longest that is allowed, and longer."""
    generator = Generator().manual_seed(6)
    sizes = 10 ** torch.empty(PARAMETERS).uniform_(-6, 0, generator=generator)
    sizes[::7] = 0
    drawn = [sizes * torch.randn(PARAMETERS, generator=generator) for _ in range(4)]
    return [norm / each.norm() * each for norm, each in zip((0.3, 7.0, 0.49, 0.51), drawn, strict=True)]
