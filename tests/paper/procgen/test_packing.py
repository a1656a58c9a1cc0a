import numpy as np
import pytest
import torch
from torch import Tensor

from popbandits.paper.procgen.network import HEAD_TENSORS, TRUNK_SIZE, initial_parameters, split
from popbandits.paper.procgen.packing import Packing


@pytest.fixture
def packing() -> Packing:
    return Packing(torch.device("cpu"))


@pytest.fixture
def flat() -> Tensor:
    return initial_parameters(0) + torch.arange(626_256) * 1e-7  # Every number another.


def test_filters_are_packed_for_both_ways(packing: Packing, flat: Tensor) -> None:
    packed = packing.pack(flat[:TRUNK_SIZE], torch.float32)
    weights = split(flat)[:-HEAD_TENSORS:2]
    assert len(packing.convolutions) == len(weights) == 15
    for place, (at, weight) in enumerate(zip(packing.convolutions, weights, strict=True)):
        shape = (3, 4, at.inputs, at.outputs)
        filters = packed[at.filters :][: np.prod(shape)].view(shape)
        inputs = weight.shape[1]
        scale = 1 / 255 if place == 0 else 1
        assert torch.allclose(filters[:, :3, :inputs].permute(3, 2, 0, 1), weight * scale)
        assert not filters[:, 3].any()
        assert not filters[:, :, inputs:].any()
        flipped = packed[at.flipped :][: np.prod(shape)].view(3, 4, at.outputs, at.inputs)
        assert torch.allclose(flipped[:, :3, :, :inputs].permute(2, 3, 0, 1).flip(2, 3), weight * scale)
        assert not flipped[:, 3].any()


def test_every_parameter_gets_one_gradient_of_its_own(packing: Packing) -> None:
    shares = torch.arange(2 * packing.gradient_size, dtype=torch.float64).view(2, -1)
    gradient = packing.unpack_gradient(shares)
    first = 432  # Weights that act on pixels from 0 to 255 as if these were from 0 to 1.
    gradient[:first] *= 255
    places = (gradient - packing.gradient_size) / 2
    assert len(places) == TRUNK_SIZE
    assert len(set(places.round().long().tolist())) == TRUNK_SIZE
    assert torch.allclose(places, places.round(), atol=0.01)


def test_biases_follow_their_filters(packing: Packing, flat: Tensor) -> None:
    biases = split(flat)[1:-HEAD_TENSORS:2]
    for at, bias in zip(packing.convolutions, biases, strict=True):
        assert torch.equal(flat[at.bias : at.bias + at.outputs], bias)
