"""scikit-learn's digits, split once: training images, some with wrong labels, validation images and test images."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, pad

from popbandits.errors import ArgumentError, MissingExtraError

SIDE = 8
PIXELS = SIDE * SIDE
CLASSES = 10
AUGMENTATIONS = ("none", "shift", "rotate")
VIEWS = 9
"""Number of versions of a training image under each augmentation; an epoch uses one of them."""
LARGEST_ANGLE = 20.0
"""Largest angle of a rotated view, in degrees."""


@dataclass(frozen=True)
class Digits:
    """Images of handwritten digits and their labels."""

    images: Tensor
    """(n, 64), between 0 and 1."""
    labels: Tensor
    """(n,), int64."""

    @staticmethod
    def load(path: Path | None = None) -> "Digits":
        """Read the 1,797 images from scikit-learn, or from a file written by `save` if it is not installed."""
        if path is not None:
            with np.load(path) as stored:
                return Digits(torch.from_numpy(stored["images"]), torch.from_numpy(stored["labels"]))
        try:
            from sklearn.datasets import load_digits
        except ImportError as error:
            raise MissingExtraError(
                "the digits ship with scikit-learn, which is not installed; run: pip install 'popbandits[bench]', "
                "or give the path of a file that Digits.save wrote elsewhere"
            ) from error
        found = load_digits()
        return Digits(torch.from_numpy(found.data).float() / 16, torch.from_numpy(found.target).long())

    def save(self, path: Path) -> None:
        """Write an .npz file."""
        np.savez_compressed(path, images=self.images.numpy(), labels=self.labels.numpy())


@dataclass(frozen=True)
class Task:
    """Sizes of the parts, and the seed of the split and of the wrong labels."""

    training: int = 400
    validation: int = 600
    """Images that members are selected by; all others are for the test."""
    wrong: float = 0.2
    """Share of training images with a wrong label."""
    seed: int = 0


@dataclass(frozen=True)
class Split:
    """The parts; pixels between -1 and 1."""

    training: Tensor
    """Indices of the images in `Digits`, like the next two fields."""
    validation: Tensor
    test: Tensor
    views: Tensor
    """Versions of the training images, (augmentations, views, training, 64)."""
    labels: Tensor
    """Labels of the training images, some of them wrong, (training,)."""
    shown: dict[str, tuple[Tensor, Tensor]]
    """Images, (n, 64), and true labels of the validation and the test part."""


def split(data: Digits, task: Task) -> Split:
    """Split images into disjoint parts, and mislabel an exact share of the training images."""
    count = len(data.images)
    if min(task.training, task.validation) < 1 or task.training + task.validation >= count:
        raise ArgumentError(
            f"training and validation must be positive and leave images for the test: together less than {count}, "
            f"got {task.training} and {task.validation}"
        )
    if not 0 <= task.wrong <= 1:
        raise ArgumentError(f"wrong must be a share between 0 and 1, got {task.wrong}")
    rng = np.random.default_rng(task.seed)
    order = torch.from_numpy(rng.permutation(count))
    training, validation, test = order.tensor_split([task.training, task.training + task.validation])
    labels = data.labels[training].clone()
    mislabelled = rng.permutation(task.training)[: round(task.wrong * task.training)]
    # Shifted by 1 to 9: never the true label.
    labels[mislabelled] = (labels[mislabelled] + torch.from_numpy(rng.integers(1, CLASSES, len(mislabelled)))) % CLASSES
    shown = {
        name: (_centred(data.images[part]), data.labels[part])
        for name, part in (("validation", validation), ("test", test))
    }
    return Split(training, validation, test, _centred(make_views(data.images[training])), labels, shown)


def make_views(images: Tensor) -> Tensor:
    """Make every version of images, (n, 64), under each augmentation: (augmentations, views, n, 64).

    `none` has the image itself, `shift` moves it by at most a pixel each way, `rotate` turns it by at most
    `LARGEST_ANGLE` degrees. Pixels from outside are blank.
    """
    squares = images.view(-1, 1, SIDE, SIDE)
    around = pad(squares, (1, 1, 1, 1))
    moves = [around[:, :, down : down + SIDE, right : right + SIDE] for down in range(3) for right in range(3)]
    angles = torch.linspace(-LARGEST_ANGLE, LARGEST_ANGLE, VIEWS) * (math.pi / 180)
    turns = [_rotated(squares, float(angle)) for angle in angles]
    versions = {"none": [squares] * VIEWS, "shift": moves, "rotate": turns}
    return torch.stack([torch.stack(versions[name]).flatten(2) for name in AUGMENTATIONS])


def _rotated(squares: Tensor, angle: float) -> Tensor:
    """Turn images, (n, 1, 8, 8), about their middle by an angle in radians; bilinear between pixels."""
    cosine, sine = math.cos(angle), math.sin(angle)
    matrix = torch.tensor([[cosine, -sine, 0.0], [sine, cosine, 0.0]]).expand(len(squares), 2, 3)
    grid = affine_grid(matrix, list(squares.shape), align_corners=False)
    return grid_sample(squares, grid, align_corners=False)


def _centred(images: Tensor) -> Tensor:
    return images * 2 - 1
