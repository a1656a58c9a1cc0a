"""The IMPALA residual network with a policy and a value head; its parameters are one flat tensor.

One tensor means one optimizer step, one gradient norm, one checkpoint entry, and a fixed address for captured graphs.

| symbol | meaning | shape |
|---|---|---|
| frames | pixels from 0 to 255 | (n, 3, 64, 64) |
| features | the trunk's output | (n, 2048) |
| logits, values | outputs of the heads | (n, 15), (n,) |
"""

from itertools import pairwise
from math import prod, sqrt

import torch
from torch import Tensor
from torch.nn.functional import conv2d, linear, max_pool2d
from torch.nn.init import orthogonal_, xavier_uniform_

from popbandits_experiments.paper.procgen.environments import ACTIONS, FRAME

CHANNELS = (FRAME[0], 16, 32, 32)
CONVOLUTIONS_A_SECTION = 5  # One before the pooling, and two residual blocks of two.
FEATURES = CHANNELS[-1] * (FRAME[1] // 2 ** (len(CHANNELS) - 1)) ** 2
HIDDEN = 256
PIXEL_SCALE = 255.0


def _shapes() -> list[tuple[int, ...]]:
    shapes: list[tuple[int, ...]] = []
    for inputs, outputs in pairwise(CHANNELS):
        for index in range(CONVOLUTIONS_A_SECTION):
            shapes += [(outputs, inputs if index == 0 else outputs, 3, 3), (outputs,)]
    return [*shapes, (HIDDEN, FEATURES), (HIDDEN,), (ACTIONS, HIDDEN), (ACTIONS,), (1, HIDDEN), (1,)]


SHAPES = _shapes()
SIZES = [prod(shape) for shape in SHAPES]
HEAD_TENSORS = 6
TRUNK_SIZE = sum(SIZES[:-HEAD_TENSORS])


def initial_parameters(seed: int) -> Tensor:
    """Draw Xavier-uniform convolutions and orthogonal layers (gains √2, policy 0.01, value 1), with biases of 0."""
    generator = torch.Generator().manual_seed(seed)
    flat = torch.zeros(sum(SIZES))
    hidden, _, policy, _, value, _ = split(flat)[-HEAD_TENSORS:]
    for tensor in split(flat)[:-HEAD_TENSORS:2]:
        xavier_uniform_(tensor, generator=generator)
    for tensor, gain in ((hidden, sqrt(2)), (policy, 0.01), (value, 1.0)):
        orthogonal_(tensor, gain, generator=generator)
    return flat


def split(flat: Tensor) -> list[Tensor]:
    """Split parameters into views: weight and bias of each convolution, the hidden layer, the policy and the value."""
    return [part.view(shape) for part, shape in zip(torch.split(flat, SIZES), SHAPES, strict=True)]


def trunk(frames: Tensor, flat: Tensor) -> Tensor:
    """Apply three sections of convolution, pooling and two blocks x <- relu(x), x + conv(relu(conv(x))).

    Paper (IMPALA): x is added back. Here: relu(x), because the published code rectifies in place.
    """
    parameters = iter(split(flat)[:-HEAD_TENSORS])
    x = frames / PIXEL_SCALE

    def convolve(x: Tensor) -> Tensor:
        return conv2d(x, next(parameters), next(parameters), padding=1)

    for _ in CHANNELS[1:]:
        x = max_pool2d(convolve(x), 3, 2, 1)
        for _ in range(2):
            x = x.relu()
            x = x + convolve(convolve(x).relu())
    return x.relu().flatten(1)


def heads(features: Tensor, flat: Tensor) -> tuple[Tensor, Tensor]:
    """Compute logits and values from the trunk's features; the hidden layer has the features' precision."""
    hidden, hidden_bias, policy, policy_bias, value, value_bias = split(flat)[-HEAD_TENSORS:]
    x = linear(features, hidden.to(features.dtype), hidden_bias.to(features.dtype)).relu().float()
    return linear(x, policy, policy_bias), linear(x, value, value_bias)[:, 0]
