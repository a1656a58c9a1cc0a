"""Launches of the CUDA kernels: a table of sizes, which must agree with the sources in `cuda/`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

PROGRAMS_A_MULTIPROCESSOR = 2  # Of kernels that sum over images: each program writes one share of a sum.
IMAGES_OF_AN_UPDATE = 4  # Updates take a multiple of this number of images.


class Launcher(Protocol):
    """Launches kernels on tensors; None is a null pointer."""

    def launch(
        self, name: str, grid: int, threads: int, shared_bytes: int, /, *arguments: Tensor | int | float | None
    ) -> None:
        """Launch a kernel."""
        ...


@dataclass(frozen=True)
class Kernel:
    """A kernel's source file, its threads and bytes of shared memory per block, and the images of a block."""

    source: str
    threads: int
    shared: int
    images: int = 1


def _plain(side: int, channels: int) -> int:
    """Return the bytes of an image in shared memory."""
    return 2 * channels * side * side


def _bordered(side: int, channels: int) -> int:
    """Return the bytes of an image with its border (`Bordered` in `cuda/units.cuh`)."""
    return channels // 8 * ((side + 2) * (side + 1) + 1) * 16


def _forward(images: int, x: int, y: int) -> Kernel:
    return Kernel("forward.cu", 256, images * (x + y), images)


def _backward(side: int, inputs: int, outputs: int, images: int, add: bool = False) -> Kernel:
    return Kernel("backward.cu", 256, images * (_bordered(side, outputs) + (1 + add) * _plain(side, inputs)), images)


KERNELS = {
    "put_bytes": Kernel("frames.cu", 512, 0),
    "put_numbers": Kernel("frames.cu", 512, 0),
    "forward_1": _forward(1, _bordered(32, 16), _bordered(32, 16)),
    "forward_2": _forward(2, _bordered(32, 16), _bordered(16, 32)),
    "forward_3": _forward(4, _bordered(16, 32), _bordered(8, 32)),
    "act": Kernel("act.cu", 512, 2 * _bordered(32, 16)),
    "back_32": _backward(32, 16, 16, images=1),
    "back_32_add": _backward(32, 16, 16, images=1, add=True),
    "back_16": _backward(16, 32, 32, images=2),
    "back_16_add": _backward(16, 32, 32, images=2, add=True),
    "back_8": _backward(8, 32, 32, images=4),
    "back_8_add": _backward(8, 32, 32, images=4, add=True),
    "back_pool_32": _backward(32, 16, 32, images=1),
    "back_pool_16": _backward(16, 32, 32, images=2),
    # 16 rows of a gradient; two copies of what they are computed from, with the rows around them.
    "back_frames": Kernel("backward.cu", 512, 16 * 64 * 32 + 2 * (18 * 68 * 8 + 2 * 9 * 32 * 24)),
}


class AllKernels:
    """The kernels of all source files as one launcher.

    Args:
        load: Makes the launcher of one source file from the file's name.
    """

    def __init__(self, load: Callable[[str], Launcher]) -> None:
        self._launchers = {source: load(source) for source in {kernel.source for kernel in KERNELS.values()}}

    def launch(
        self, name: str, grid: int, threads: int, shared_bytes: int, /, *arguments: Tensor | int | float | None
    ) -> None:
        """Launch a kernel."""
        self._launchers[KERNELS[name].source].launch(name, grid, threads, shared_bytes, *arguments)


def programs_on(device: torch.device) -> int:
    """Return how many programs fill a device, and so how many shares of a sum there are."""
    if device.type != "cuda":
        return 3  # Few, and not a divisor of the images, for tests.
    return PROGRAMS_A_MULTIPROCESSOR * int(torch.cuda.get_device_properties(device).multi_processor_count)
