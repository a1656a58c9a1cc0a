"""Layouts against loops over their definition: which parameter is at which index."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from popbandits_experiments.paper.procgen.network import HEAD_TENSORS, TRUNK_SIZE, initial_parameters, split
from popbandits_experiments.paper.procgen.packing import Packing, in_kernel_order

WEIGHTS = range(0, 30, 2)  # Indices of the convolutions' filters among the tensors of the network.


@pytest.fixture(scope="module")
def packing() -> Packing:
    return Packing(torch.device("cpu"))


@pytest.fixture(scope="module")
def flat() -> Tensor:
    parameters = initial_parameters(0)
    return parameters + torch.rand(parameters.shape, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def packed(packing: Packing, flat: Tensor) -> Tensor:
    out = packing.empty().fill_(torch.nan)
    packing.pack(flat, out)
    return out


def fragments(taps: int, rows: int, columns: int, element: Callable[[int, int, int], float]) -> Tensor:
    """List element(tap, k, n) in the order of the lanes' registers."""
    return torch.tensor(
        [
            element(tap, 16 * k + 8 * half + 2 * (lane % 4) + pair, 16 * n + 8 * tile + lane // 4)
            for tap in range(taps)
            for k in range(rows // 16)
            for n in range(columns // 16)
            for lane in range(32)
            for tile in range(2)
            for half in range(2)
            for pair in range(2)
        ]
    ).bfloat16()


def test_filters_are_packed_section_after_section(packing: Packing, flat: Tensor, packed: Tensor) -> None:
    at = 0
    for index, convolution in zip(WEIGHTS, packing.convolutions, strict=True):
        weight = split(flat)[index].tolist()

        def on_frames(dy: int, k: int, n: int, weight: list[list[list[list[float]]]] = weight) -> float:
            dx, colour = divmod(k, 4)
            return weight[n][colour][dy][dx] / 255 if dx < 3 and colour < 3 else 0.0

        def inside(tap: int, k: int, n: int, weight: list[list[list[list[float]]]] = weight) -> float:
            return weight[n][k][tap // 3][tap % 3]

        expected = (
            fragments(3, 16, 16, on_frames)
            if index == 0
            else fragments(9, convolution.inputs, convolution.outputs, inside)
        )
        assert convolution.filters == at
        assert torch.equal(packing.filters(packed, convolution)[: len(expected)], expected)
        at += len(expected)


def test_flipped_filters_follow_all_but_the_first(packing: Packing, flat: Tensor, packed: Tensor) -> None:
    at = 0
    for index, convolution in list(zip(WEIGHTS, packing.convolutions, strict=True))[1:]:
        weight = split(flat)[index].tolist()

        def flipped(tap: int, k: int, n: int, weight: list[list[list[list[float]]]] = weight) -> float:
            return weight[k][n][2 - tap // 3][2 - tap % 3]

        expected = fragments(9, convolution.outputs, convolution.inputs, flipped)
        assert convolution.flipped == at
        assert torch.equal(packing.flipped(packed, convolution)[: len(expected)], expected)
        at += len(expected)


def test_kernel_order_has_groups_of_eight_channels_last(flat: Tensor) -> None:
    columns = [
        (8 * group + channel) * 64 + 8 * y + x
        for group in range(4)
        for y in range(8)
        for x in range(8)
        for channel in range(8)
    ]
    weight = split(flat)[-HEAD_TENSORS]
    assert torch.equal(in_kernel_order(weight), weight[:, columns])


def test_everything_packed_starts_at_a_multiple_of_16_bytes(packing: Packing) -> None:
    packed = packing.empty()
    row = torch.empty(3, packing.gradient_size)
    starts: list[Tensor] = []
    for at in packing.convolutions:
        starts += [packing.filters(packed, at), packing.flipped(packed, at)]
        starts += [each[at.gradient :] for each in row]
    assert all(start.data_ptr() % 16 == 0 for start in starts)


def test_parameters_of_a_convolution_are_its_filters_and_then_its_biases(packing: Packing, flat: Tensor) -> None:
    for index, at in zip(WEIGHTS, packing.convolutions, strict=True):
        weight, bias = split(flat)[index : index + 2]
        assert weight.shape == (at.outputs, at.inputs, 3, 3)
        assert torch.equal(flat[at.parameters :][: weight.numel() + len(bias)], torch.cat([weight.ravel(), bias]))


def test_every_parameter_gets_the_sum_of_its_shares(packing: Packing) -> None:
    generator = torch.Generator().manual_seed(0)
    shares = torch.randn(2, packing.gradient_size, generator=generator)
    gradient = torch.full((TRUNK_SIZE,), torch.nan)
    packing.unpack_gradient(shares, gradient)
    total = shares[0] + shares[1]
    at = 0
    expected: list[float] = []
    for index, convolution in zip(WEIGHTS, packing.convolutions, strict=True):
        inputs, outputs = convolution.inputs, convolution.outputs
        assert convolution.gradient == at
        shape = (3, 4, 4, outputs) if index == 0 else (3, 3, inputs, outputs)
        share = total[at : at + torch.Size(shape).numel()].view(shape).tolist()
        at += torch.Size(shape).numel()
        expected += [
            share[dy][dx][channel][out] / (255 if index == 0 else 1)
            for out in range(outputs)
            for channel in range(inputs)
            for dy in range(3)
            for dx in range(3)
        ]
        expected += total[at : at + outputs].tolist()
        at += outputs
    assert at == packing.gradient_size
    assert torch.allclose(gradient, torch.tensor(expected), rtol=1e-6, atol=0)
