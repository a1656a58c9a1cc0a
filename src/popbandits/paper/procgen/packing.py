"""Layout of the trunk's parameters for its kernels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popbandits.paper.procgen.network import (
    CONVOLUTIONS_A_SECTION,
    HEAD_TENSORS,
    PIXEL_SCALE,
    SHAPES,
    TRUNK_SIZE,
)

INPUT_CHANNELS = 4  # Three colours and a channel of zeros, so that a pixel is 8 bytes.


@dataclass(frozen=True)
class Convolution:
    """Channels of a convolution, and the first indices of its packed filters, bias and packed gradient."""

    inputs: int
    outputs: int
    filters: int
    flipped: int
    bias: int
    gradient: int


class Packing:
    """Convert between the flat parameters and the layout of the kernels with one gather in each direction.

    For the backward pass, filters are flipped and their channels swapped. Gradients have the kernels' layout:
    the first convolution's filters as in the forward pass, the others as in the backward pass, biases after each.
    """

    def __init__(self, device: torch.device) -> None:
        self.convolutions: list[Convolution] = []
        scales = np.ones(TRUNK_SIZE, np.float32)
        sources = np.zeros(TRUNK_SIZE, np.int64)
        packed: list[Any] = []
        packed_size = gradient_size = begin = 0
        for outputs, inputs, *sides in SHAPES[:-HEAD_TENSORS:2]:
            padded = max(inputs, INPUT_CHANNELS)
            bias = begin + outputs * inputs * 9
            weights = np.arange(begin, bias).reshape(outputs, inputs, *sides)
            filters = np.full((3, 4, padded, outputs), -1)
            filters[:, :3, :inputs] = weights.transpose(2, 3, 1, 0)
            flipped = np.full((3, 4, outputs, padded), -1)
            flipped[:, :3, :, :inputs] = weights[:, :, ::-1, ::-1].transpose(2, 3, 0, 1)
            self.convolutions.append(
                Convolution(padded, outputs, packed_size, packed_size + filters.size, bias, gradient_size)
            )
            packed += [filters.ravel(), flipped.ravel()]
            packed_size += filters.size + flipped.size
            written = filters if begin == 0 else flipped
            indices = np.arange(gradient_size, gradient_size + written.size).reshape(written.shape)
            sources[written[written >= 0]] = indices[written >= 0]
            sources[bias : bias + outputs] = gradient_size + written.size + np.arange(outputs)
            gradient_size += written.size + outputs
            if begin == 0:
                scales[:bias] = 1 / PIXEL_SCALE
            begin = bias + outputs
        index = np.concatenate(packed)
        self.gradient_size = gradient_size
        self._index = torch.from_numpy(np.maximum(index, 0)).to(device)
        self._factor = torch.from_numpy(np.where(index < 0, 0, scales[index])).to(device)
        self._sources = torch.from_numpy(sources).to(device)
        self._scales = torch.from_numpy(scales).to(device)

    def section(self, index: int) -> list[Convolution]:
        """Return the five convolutions of a section."""
        return self.convolutions[index * CONVOLUTIONS_A_SECTION :][:CONVOLUTIONS_A_SECTION]

    def pack(self, flat: Tensor, dtype: torch.dtype) -> Tensor:
        """Pack the filters for the forward and the backward pass."""
        return (flat.index_select(0, self._index) * self._factor).to(dtype)

    def unpack_gradient(self, shares: Tensor) -> Tensor:
        """Return the flat gradient: the sum of the rows of `shares`, in the order of the parameters."""
        return shares.sum(0).index_select(0, self._sources) * self._scales
