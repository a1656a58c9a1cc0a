"""Layout of the parameters for the trunk's kernels.

Filters are in the order in which a warp's lanes hold them for a product of matrices (`cuda/units.cuh`). Features are in
*kernel order*, (C / 8, y, x, C % 8) instead of (C, y, x).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popbandits_experiments.paper.procgen.environments import FRAME
from popbandits_experiments.paper.procgen.network import (
    CHANNELS,
    CONVOLUTIONS_A_SECTION,
    HEAD_TENSORS,
    PIXEL_SCALE,
    SHAPES,
    TRUNK_SIZE,
)

INPUT_CHANNELS = 4  # Three colours and a channel of zeros, so that a pixel is 8 bytes.
GROUP = 8  # Channels that lie together in memory.
TILE = 16  # Rows of a filter matrix in one product.
_FEATURE_SIDE = FRAME[1] >> (len(CHANNELS) - 1)
PLANES = (CHANNELS[-1] // GROUP, _FEATURE_SIDE, _FEATURE_SIDE, GROUP)  # Shape of features in kernel order.

Indices = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Convolution:
    """Channels of a convolution, and the first indices of what belongs to it.

    `filters` and `flipped` are in the packed parameters, `parameters` in the flat ones, and `gradient` in a row of
    shares. The network's first convolution has no flipped filters, since the gradient of frames is not needed.
    """

    inputs: int
    outputs: int
    filters: int
    flipped: int
    parameters: int
    gradient: int


class Packing:
    """Convert between the flat parameters and the layout of the kernels with one gather in each direction.

    Packed are: the filters of all convolutions for the forward pass, with the scale of pixels in the first; the filters
    for the backward pass, flipped and with swapped channels. The gradient of a convolution is (9, in, out), or
    (3, 4 * INPUT_CHANNELS, out) on frames, and then the gradient of its biases.
    """

    def __init__(self, device: torch.device) -> None:
        self.convolutions: list[Convolution] = []
        forward: list[Indices] = []
        backward: list[Indices] = []
        sources = np.zeros(TRUNK_SIZE, np.int64)
        filters = flipped = gradient = begin = 0
        for outputs, inputs, *sides in SHAPES[:-HEAD_TENSORS:2]:
            self.convolutions.append(Convolution(inputs, outputs, filters, flipped, begin, gradient))
            weights = np.arange(begin, begin + outputs * inputs * 9).reshape(outputs, inputs, *sides)
            if begin == 0:
                seen = np.full((3, 4, INPUT_CHANNELS, outputs), -1)
                seen[:, :3, :inputs] = weights.transpose(2, 3, 1, 0)
                matrices = seen.reshape(3, 4 * INPUT_CHANNELS, outputs)
            else:
                matrices = weights.transpose(2, 3, 1, 0).reshape(9, inputs, outputs)
                backward.append(_fragments(weights[:, :, ::-1, ::-1].transpose(2, 3, 0, 1).reshape(9, outputs, inputs)))
                flipped += backward[-1].size
            forward.append(_fragments(matrices))
            filters += matrices.size
            bias = begin + weights.size
            sources[matrices[matrices >= 0]] = gradient + np.flatnonzero(matrices >= 0)
            sources[bias : bias + outputs] = gradient + matrices.size + np.arange(outputs)
            gradient += matrices.size + outputs
            begin = bias + outputs
        self.gradient_size = gradient
        self._flipped = filters
        index = np.concatenate([*forward, *backward])
        scales = np.ones(TRUNK_SIZE, np.float32)
        scales[: SHAPES[0][0] * SHAPES[0][1] * 9] = 1 / PIXEL_SCALE
        self._index = torch.from_numpy(np.maximum(index, 0).astype(np.int32)).to(device)
        self._factor = torch.from_numpy(np.where(index < 0, 0, scales[index])).to(device)
        self._sources = torch.from_numpy(sources.astype(np.int32)).to(device)
        self._scales = torch.from_numpy(scales).to(device)

    def section(self, index: int) -> list[Convolution]:
        """Return the five convolutions of a section."""
        return self.convolutions[index * CONVOLUTIONS_A_SECTION :][:CONVOLUTIONS_A_SECTION]

    def empty(self) -> Tensor:
        """Allocate packed parameters."""
        return torch.empty(len(self._index), dtype=torch.bfloat16, device=self._index.device)

    def pack(self, flat: Tensor, out: Tensor) -> None:
        """Pack the filters of all convolutions."""
        torch.mul(flat.index_select(0, self._index), self._factor, out=out)

    def filters(self, packed: Tensor, at: Convolution) -> Tensor:
        """Return the packed parameters from a convolution's filters for the forward pass on."""
        return packed[at.filters :]

    def flipped(self, packed: Tensor, at: Convolution) -> Tensor:
        """Return the packed parameters from a convolution's filters for the backward pass on."""
        return packed[self._flipped + at.flipped :]

    def unpack_gradient(self, shares: Tensor, out: Tensor) -> None:
        """Write the trunk's flat gradient: the sum of the rows of `shares`, in the order of the parameters."""
        torch.mul(shares.sum(0).index_select(0, self._sources), self._scales, out=out)


def in_kernel_order(features: Tensor) -> Tensor:
    """Reorder the last axis, (C, y, x) flattened, to kernel order."""
    groups, height, width, group = PLANES
    return features.reshape(*features.shape[:-1], groups, group, height, width).movedim(-3, -1).flatten(-4)


def _fragments(matrices: Indices) -> Indices:
    """Reorder matrices (taps, K, N) to (taps, K / 16, N / 16, lane, tile of 8 columns, half of 16 rows, pair), flat.

    Lane 4g + t holds of every tile the column g, and of every half of its rows the pair 2t, 2t + 1.
    """
    taps, rows, columns = matrices.shape
    # Axes: tap, block of rows, half, t, pair, block of columns, tile, g.
    split = matrices.reshape(taps, rows // TILE, 2, 4, 2, columns // TILE, 2, 8)
    return split.transpose(0, 1, 5, 7, 3, 6, 2, 4).ravel()
