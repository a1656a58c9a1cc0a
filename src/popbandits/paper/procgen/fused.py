"""The trunk on a GPU, forward and backward through our own kernels.

| symbol | meaning | shape |
|---|---|---|
| x | a section's input | (n, H, W, C_in) |
| winner | index of the maximum in each pooling window | (n, H/2, W/2, C) |
| a, h, b, j | relu(pooled), relu(conv(a)), relu(a + conv(h)), relu(conv(b)) | (n, H/2, W/2, C) |
| y | b + conv(j), the section's output, rectified in the last section | (n, H/2, W/2, C) |
"""

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import torch
import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor

from popbandits.paper.procgen import frame_kernels, kernels
from popbandits.paper.procgen.augmentations import AUGMENTATIONS, Draws
from popbandits.paper.procgen.environments import FRAME
from popbandits.paper.procgen.learner import Differentiable
from popbandits.paper.procgen.network import CHANNELS, FEATURES, PIXEL_SCALE, TRUNK_SIZE
from popbandits.paper.procgen.packing import INPUT_CHANNELS, Convolution, Packing

SECTIONS = len(CHANNELS) - 1
SIDE = FRAME[1]

# Fastest sizes on an H200, by (side, C_in, C_out).
CONVOLVE_TILES = {  # Pixels per program, warps.
    (64, 4, 16): (256, 4),
    (32, 16, 16): (256, 4),
    (32, 16, 32): (256, 4),
    (16, 32, 32): (256, 4),
    (8, 32, 32): (256, 4),
}
CONVOLVE_BACK_TILES = {  # Pixels per step of a program, warps, stages of the pipeline.
    (32, 16, 16): (128, 8, 2),
    (32, 16, 32): (64, 4, 3),
    (16, 32, 32): (128, 8, 1),
    (8, 32, 32): (128, 8, 1),
}
FRAME_FILTER_TILE = (16, 8)
POOL_TILE = (64, 4)
PUT_BLOCK = 512
GRADIENT_PROGRAMS = 528  # Four for each of the 132 multiprocessors of an H100 or H200.


def _convolve(
    x: Tensor, side: int, at: Convolution, packed: Tensor, flat: Tensor, add: Tensor | None = None, relu: bool = False
) -> Tensor:
    out = x.new_empty(len(x), side, side, at.outputs)
    pixels = len(x) * side * side
    block, warps = CONVOLVE_TILES[side, at.inputs, at.outputs]
    on_frames = at.inputs == INPUT_CHANNELS
    kernels.convolve[(triton.cdiv(pixels, block),)](
        x,
        packed[at.filters :],
        flat[at.bias :],
        add,
        out,
        pixels,
        H=side,
        W=side,
        C_IN=at.inputs,
        C_OUT=at.outputs,
        SPAN=4 if on_frames else 1,  # A product needs at least 16 numbers: four frame pixels.
        BLOCK=block,
        BORDERED=on_frames,
        HAS_ADD=add is not None,
        RELU=relu,
        num_warps=warps,
    )
    return out


def _convolve_back(
    gradient: Tensor,
    x: Tensor,
    at: Convolution,
    packed: Tensor,
    shares: Tensor,
    add: Tensor | None = None,
    rectified: bool = True,
) -> Tensor:
    """Return the gradient of x, 0 where x was rectified; write the filters' gradient to their columns of `shares`."""
    n, side = x.shape[:2]
    out = torch.empty_like(x)
    pixels = n * side * side
    block, warps, stages = CONVOLVE_BACK_TILES[side, at.inputs, at.outputs]
    kernels.convolve_back[(len(shares),)](
        gradient,
        packed[at.flipped :],
        x,
        add,
        out,
        shares[:, at.gradient :],
        shares.stride(0),
        pixels,
        H=side,
        W=side,
        C_IN=at.inputs,
        C_OUT=at.outputs,
        BLOCK=block,
        BLOCKS_A_PROGRAM=triton.cdiv(pixels, len(shares) * block),
        HAS_ADD=add is not None,
        RECTIFIED=rectified,
        num_warps=warps,
        num_stages=stages,
    )
    return out


def _pool(x: Tensor) -> tuple[Tensor, Tensor]:
    n, side, _, channels = x.shape
    out = x.new_empty(n, side // 2, side // 2, channels)
    winner = torch.empty_like(out, dtype=torch.uint8)
    pixels, (block, warps) = out.numel() // channels, POOL_TILE
    kernels.pool[(triton.cdiv(pixels, block),)](
        x, out, winner, pixels, H=side, W=side, C=channels, BLOCK=block, num_warps=warps
    )
    return out, winner


def _unpool(gradient: Tensor, winner: Tensor) -> Tensor:
    n, side, _, channels = gradient.shape
    out = gradient.new_empty(n, 2 * side, 2 * side, channels)
    pixels, (block, warps) = out.numel() // channels, POOL_TILE
    kernels.unpool[(triton.cdiv(pixels, block),)](
        gradient, winner, out, pixels, H=2 * side, W=2 * side, C=channels, BLOCK=block, num_warps=warps
    )
    return out


def _frame_filter_gradient(frames: Tensor, gradient: Tensor, winner: Tensor, shares: Tensor, at: Convolution) -> None:
    pixels = gradient.numel() // at.outputs
    block, warps = FRAME_FILTER_TILE
    kernels.frame_filter_gradient[(len(shares),)](
        frames,
        gradient,
        winner,
        shares[:, at.gradient :],
        shares.stride(0),
        pixels,
        H=SIDE,
        W=SIDE,
        C_OUT=at.outputs,
        BLOCK=block,
        BLOCKS_A_PROGRAM=triton.cdiv(pixels, len(shares) * block),
        num_warps=warps,
    )


class _Trunk(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, frames: Tensor, flat: Tensor, packing: Packing) -> Tensor:
        packed = packing.pack(flat, frames.dtype)
        x, saved = frames, []
        for section in range(SECTIONS):
            first, second, third, fourth, fifth = packing.section(section)
            side = SIDE >> section
            a, winner = _pool(_convolve(x, side, first, packed, flat))
            h = _convolve(a, side // 2, second, packed, flat, relu=True)
            b = _convolve(h, side // 2, third, packed, flat, add=a, relu=True)
            j = _convolve(b, side // 2, fourth, packed, flat, relu=True)
            y = _convolve(j, side // 2, fifth, packed, flat, add=b, relu=section == SECTIONS - 1)
            saved += [x, winner, a, h, b, j]
            x = y
        ctx.save_for_backward(packed, x, *saved)
        ctx.packing = packing
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        packed, y, *saved = ctx.saved_tensors
        packing: Packing = ctx.packing
        shares = torch.empty(GRADIENT_PROGRAMS, packing.gradient_size, device=y.device)
        to_y = torch.where(y > 0, gradient, 0).contiguous()
        for section in reversed(range(SECTIONS)):
            first, second, third, fourth, fifth = packing.section(section)
            x, winner, a, h, b, j = saved[6 * section : 6 * section + 6]
            to_j = _convolve_back(to_y, j, fifth, packed, shares)
            to_b = _convolve_back(to_j, b, fourth, packed, shares, add=to_y)
            to_h = _convolve_back(to_b, h, third, packed, shares)
            to_a = _convolve_back(to_h, a, second, packed, shares, add=to_b)
            if section == 0:  # The gradient of the frames is not needed.
                _frame_filter_gradient(x, to_a, winner, shares, first)
            else:
                to_y = _convolve_back(_unpool(to_a, winner), x, first, packed, shares, rectified=False)
        return None, packing.unpack_gradient(shares), None


class FusedTrunk(Differentiable):
    """The network's trunk with our own kernels; it replaces `network.trunk`."""

    def __init__(self, device: torch.device, dtype: torch.dtype = torch.bfloat16) -> None:
        self._device, self._dtype = device, dtype
        self._packing = Packing(device)

    def buffer(self, frames: int) -> Tensor:
        """Make an input buffer for this number of frames, with a border of zeros."""
        return torch.zeros(frames, SIDE + 2, SIDE + 4, INPUT_CHANNELS, dtype=self._dtype, device=self._device)

    def put(self, buffer: Tensor, frames: Tensor) -> None:
        """Write frames (n, 3, 64, 64), pixels from 0 to 255, to a buffer of the same size; bfloat16 is exact."""
        frame_kernels.put[(len(frames) * SIDE * SIDE // PUT_BLOCK,)](frames, buffer, SIDE=SIDE, BLOCK=PUT_BLOCK)

    def put_augmented(self, buffer: Tensor, frames: Tensor, augmentation: str, draws: Draws) -> None:
        """Augment frames and write them like `put`."""
        if augmentation == "random-convolution":
            blocks = len(frames) * SIDE * SIDE // PUT_BLOCK
            frame_kernels.convolve_frames[(blocks,)](frames, *draws, buffer, SIDE=SIDE, BLOCK=PUT_BLOCK)
        else:
            self.put(buffer, _compile(augmentation)(augmentation, self._dtype, frames, *draws))

    def __call__(self, buffer: Tensor, flat: Tensor) -> Tensor:
        """Compute the features of the frames in a buffer."""
        features: Tensor = _Trunk.apply(buffer, flat[:TRUNK_SIZE], self._packing)  # type: ignore[no-untyped-call]
        return features.permute(0, 3, 1, 2).reshape(-1, FEATURES)


def _augment(name: str, dtype: torch.dtype, frames: Tensor, *draws: Tensor) -> Tensor:
    """Augment frames, pixels from 0 to 255."""
    # Multiplied, not divided: compiled code repeats this for every pixel that another one depends on.
    images = frames * (1 / PIXEL_SCALE)
    return (AUGMENTATIONS[name].apply(images, *draws) * PIXEL_SCALE).to(dtype)


@cache
def _compile(name: str) -> Callable[..., Tensor]:
    """Compile an augmentation; each has its own code object, since PyTorch limits the versions of a code object."""
    code = _augment.__code__.replace(co_name=f"augment_{name}")
    return torch.compile(FunctionType(code, globals()), dynamic=False)
