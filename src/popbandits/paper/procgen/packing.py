"""The trunk's parameters as its kernels read them."""

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

INPUT_CHANNELS = 4  # Three colours and one of zeros, so that a pixel is 8 bytes.


@dataclass(frozen=True)
class Convolution:
    """Channels of a convolution, and where its packed filters, its bias and its packed gradient begin."""

    inputs: int
    outputs: int
    filters: int
    flipped: int
    bias: int
    gradient: int


class Packing:
    """Between the flat parameters and the layout of the kernels: one gather each way, whatever the layers.

    For the way back, filters are flipped and their channels swapped. Gradients come as the kernels write them: the
    first convolution's filters as packed for the way forward, the others' as for the way back, biases after each.
    """

    def __init__(self, device: torch.device) -> None:
        self.convolutions: list[Convolution] = []
        scales = np.ones(TRUNK_SIZE, np.float32)
        taken = np.zeros(TRUNK_SIZE, np.int64)
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
            places = np.arange(gradient_size, gradient_size + written.size).reshape(written.shape)
            taken[written[written >= 0]] = places[written >= 0]
            taken[bias : bias + outputs] = gradient_size + written.size + np.arange(outputs)
            gradient_size += written.size + outputs
            if begin == 0:
                scales[:bias] = 1 / PIXEL_SCALE
            begin = bias + outputs
        index = np.concatenate(packed)
        self.gradient_size = gradient_size
        self._index = torch.from_numpy(np.maximum(index, 0)).to(device)
        self._factor = torch.from_numpy(np.where(index < 0, 0, scales[index])).to(device)
        self._taken = torch.from_numpy(taken).to(device)
        self._scales = torch.from_numpy(scales).to(device)

    def section(self, place: int) -> list[Convolution]:
        """The five convolutions of a section."""
        return self.convolutions[place * CONVOLUTIONS_A_SECTION :][:CONVOLUTIONS_A_SECTION]

    def pack(self, flat: Tensor, dtype: torch.dtype) -> Tensor:
        """The filters, for both ways."""
        return (flat.index_select(0, self._index) * self._factor).to(dtype)

    def unpack_gradient(self, shares: Tensor) -> Tensor:
        """The flat gradient, from rows that are to be summed."""
        return shares.sum(0).index_select(0, self._taken) * self._scales
