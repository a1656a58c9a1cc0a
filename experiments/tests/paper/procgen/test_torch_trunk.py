import pytest
import torch

from popbandits_experiments.paper.procgen import network
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
