from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from time import sleep
from typing import Any

import pytest
import torch
from torch import Tensor

from popbandits_experiments.paper.procgen import network, torch_trunk
from popbandits_experiments.paper.procgen.torch_trunk import TorchTrunk

CPU = torch.device("cpu")


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.02)])
def test_features_are_those_of_the_plain_trunk(dtype: torch.dtype, tolerance: float) -> None:
    flat = network.initial_parameters(0)
    frames = torch.randint(256, (2, 3, 64, 64), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    trunk = TorchTrunk(CPU, dtype)
    buffer = trunk.buffer(2)
    trunk.put(buffer, frames, torch.arange(2))
    assert buffer.is_contiguous(memory_format=torch.channels_last)
    features, expected = trunk(buffer, flat), network.trunk(frames.double(), flat.double())
    assert features.dtype == dtype
    assert (features - expected).norm() < tolerance * expected.norm()


def test_no_member_calls_compiled_code_while_another_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch would refuse it; which call compiles is known to PyTorch alone."""
    inside, crowded, one = 0, False, Lock()

    def compiled(name: str, dtype: torch.dtype, frames: Tensor, *draws: Tensor) -> Tensor:
        nonlocal inside, crowded
        with one:
            inside += 1
            crowded |= inside > 1
        sleep(0.01)
        with one:
            inside -= 1
        return frames

    def augment(name: str) -> Any:
        return torch_trunk.augment(name, torch.float32, torch.zeros(1, 3, 64, 64), ())

    monkeypatch.setattr(torch_trunk, "_compile", lambda name: compiled)
    with ThreadPoolExecutor(4) as members:
        list(members.map(augment, 8 * ["grayscale", "flip"]))
    assert not crowded
