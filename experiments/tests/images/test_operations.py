"""Operations of augmentation against plain loops, and what is left alone."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import Tensor

from popbandits_experiments.batched.random import Streams, keys_of
from popbandits_experiments.images.operations import FILLS, LARGEST, OPERATIONS, TWO_WAYS, Draws, amounts, augment

SIDE, MEMBERS, IMAGES = 9, 2, 5


@pytest.fixture(scope="module")
def draws() -> Draws:
    made = Draws.zeros(MEMBERS, IMAGES, SIDE, torch.device("cpu"))
    made.renew(Streams(keys_of([3, 4], torch.device("cpu"))))
    return made


@pytest.fixture(scope="module")
def images() -> Tensor:
    return Streams(keys_of([8, 9], torch.device("cpu"))).uniform(IMAGES, SIDE, SIDE)


def only(**given: float) -> Tensor:
    """Make the same amounts for every image."""
    return torch.tensor([given.get(name, 0.0) for name in OPERATIONS]).expand(MEMBERS, IMAGES, -1).contiguous()


def fill(name: str = "blank") -> Tensor:
    return torch.full((MEMBERS,), FILLS.index(name))


def at(image: np.ndarray[Any, Any], y: float, x: float) -> float:
    """Interpolate between four pixels; outside is blank."""
    found = 0.0
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            if 0 <= row < SIDE and 0 <= column < SIDE:
                found += (1 - abs(y - row)) * (1 - abs(x - column)) * image[row, column]
    return found


def moved(image: np.ndarray[Any, Any], own: dict[str, float]) -> np.ndarray[Any, Any]:
    """Move an image pixel by pixel."""
    turn = np.array(
        [[math.cos(own["rotate"]), -math.sin(own["rotate"])], [math.sin(own["rotate"]), math.cos(own["rotate"])]]
    )
    slant = np.array([[1.0, own["shear"]], [0.0, 1.0]])
    shift = SIDE * np.array([own["shift_x"], own["shift_y"]])
    middle = (SIDE - 1) / 2
    result = np.zeros((SIDE, SIDE))
    for row in range(SIDE):
        for column in range(SIDE):
            there = turn @ slant @ (math.exp(own["scale"]) * np.array([column - middle, row - middle])) + shift
            result[row, column] = at(image, there[1] + middle, there[0] + middle)
    return result


def with_scipy(image: np.ndarray[Any, Any], name: str, amount: float) -> np.ndarray[Any, Any]:
    outside = {"order": 1, "mode": "grid-constant"}
    middle = (SIDE - 1) / 2
    match name:
        case "shift_x":
            return ndimage.shift(image, (0, -amount * SIDE), **outside)
        case "shift_y":
            return ndimage.shift(image, (-amount * SIDE, 0), **outside)
        case "rotate":
            return ndimage.rotate(image, math.degrees(amount), reshape=False, **outside)
        case "shear":
            matrix = np.array([[1.0, 0.0], [amount, 1.0]])  # rows and columns
        case _:
            matrix = np.eye(2) * math.exp(amount)
    centre = np.array([middle, middle])
    return ndimage.affine_transform(image, matrix, centre - matrix @ centre, **outside)


@pytest.mark.parametrize("share", [-1.0, -0.3, 0.45, 1.0])
@pytest.mark.parametrize("name", ["shift_x", "shift_y", "rotate", "shear", "scale"])
def test_a_geometric_operation_is_that_of_scipy(name: str, share: float, images: Tensor, draws: Draws) -> None:
    amount = share * LARGEST[name]
    found = augment(images, only(**{name: amount}), draws, fill())
    for image, result in zip(images.flatten(0, 1).numpy(), found.flatten(0, 1), strict=True):
        np.testing.assert_allclose(result, with_scipy(image.astype(float), name, amount), atol=2e-5)


def test_several_geometric_operations_are_one_map(images: Tensor, draws: Draws) -> None:
    own = {"shift_x": 0.1, "shift_y": -0.2, "rotate": 0.5, "shear": -0.3, "scale": 0.25}
    found = augment(images, only(**own), draws, fill())
    for image, result in zip(images[1].numpy(), found[1], strict=True):
        np.testing.assert_allclose(result, moved(image.astype(float), own), atol=2e-5)


@pytest.mark.parametrize("amount", [-0.9, -0.2, 0.5])
def test_contrast_spreads_pixels_about_grey_and_stays_in_range(amount: float, images: Tensor, draws: Draws) -> None:
    found = augment(images, only(contrast=amount), draws, fill())
    for before, after in zip(images.flatten().tolist(), found.flatten().tolist(), strict=True):
        assert after == pytest.approx(min(1.0, max(0.0, 0.5 + (1 + amount) * (before - 0.5))), abs=1e-6)


@pytest.mark.parametrize("amount", [0.3, 1.0])
def test_inverting_blends_with_the_negative(amount: float, images: Tensor, draws: Draws) -> None:
    found = augment(images, only(invert=amount), draws, fill())
    torch.testing.assert_close(found, (1 - amount) * images + amount * (1 - images))


@pytest.mark.parametrize("amount", [0.1, 0.5])
def test_noise_is_added_by_its_standard_deviation(amount: float, images: Tensor, draws: Draws) -> None:
    found = augment(images, only(noise=amount), draws, fill())
    torch.testing.assert_close((found - images) / amount, draws.noise, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("size", [0.2, 0.5])
def test_a_square_is_cut_out_and_filled(size: float, name: str, images: Tensor, draws: Draws) -> None:
    found = augment(images, only(cutout=size), draws, fill(name))
    cut = 0
    for member in range(MEMBERS):
        for number in range(IMAGES):
            x, y = draws.centre[member, number].tolist()
            for row in range(SIDE):
                for column in range(SIDE):
                    inside = max(abs((row + 0.5) / SIDE - y), abs((column + 0.5) / SIDE - x)) < size / 2
                    index = (member, number, row, column)
                    content = {"blank": 0.0, "grey": 0.5, "noise": 0.5 + float(draws.noise[index]) / 4}[name]
                    assert float(found[index]) == pytest.approx(content if inside else float(images[index]), abs=1e-6)
                    cut += inside
    assert cut > 0


def test_an_image_without_amounts_stays_as_it_is_beside_others_that_change(images: Tensor, draws: Draws) -> None:
    amount = torch.stack([only()[0], torch.full((IMAGES, len(OPERATIONS)), 0.2)])
    found = augment(images, amount, draws, fill("noise"))
    assert torch.equal(found[0], images[0])
    assert not torch.isclose(found[1], images[1]).all(-1).all(-1).any()


# Which operations are applied, and how much


def of_members(value: float) -> Tensor:
    return torch.full((MEMBERS, len(OPERATIONS)), value)


ALL = torch.full((MEMBERS,), len(OPERATIONS))


def test_nothing_is_applied_with_probability_or_magnitude_zero(draws: Draws) -> None:
    assert not amounts(draws, of_members(0.0), of_members(1.0), ALL).any()
    assert not amounts(draws, of_members(1.0), of_members(0.0), ALL).any()


def test_amounts_are_uniform_up_to_the_largest_and_go_either_way_only_where_they_may() -> None:
    draws = Draws.zeros(1, 4000, 1, torch.device("cpu"))
    draws.renew(Streams(keys_of([1], torch.device("cpu"))))
    largest = torch.linspace(0.1, 0.9, len(OPERATIONS))[None]
    found = amounts(draws, torch.full((1, len(OPERATIONS)), 0.3), largest, torch.tensor([len(OPERATIONS)]))[0]
    for name, most, own in zip(OPERATIONS, largest[0].tolist(), found.T, strict=True):
        applied = own[own != 0]
        assert len(applied) / 4000 == pytest.approx(0.3, abs=0.03)
        assert most * 0.95 < applied.max() <= most
        assert applied.abs().mean() == pytest.approx(most / 2, rel=0.06)
        assert bool((applied < 0).any()) is (name in TWO_WAYS)
        if name in TWO_WAYS:
            assert applied.mean() == pytest.approx(0, abs=0.1 * most)


@pytest.mark.parametrize("most", [1, 3])
def test_of_too_many_operations_those_with_the_largest_numbers_are_applied(most: int, draws: Draws) -> None:
    chosen = torch.tensor([[0.5] * 8 + [0.0]] * MEMBERS)
    sure = replace(draws, amount=torch.full_like(draws.amount, 0.9))
    found = amounts(sure, chosen, of_members(1.0), torch.tensor([most, len(OPERATIONS)])) != 0
    wanted = draws.chosen < chosen[:, None]
    assert torch.equal(found[1], wanted[1])
    for image in range(IMAGES):
        order = [i for i in draws.order[0, image].argsort(descending=True).tolist() if wanted[0, image, i]]
        assert set(found[0, image].nonzero().flatten().tolist()) == set(order[:most])
