"""Properties of the augmentations, and agreement with kornia where it has them."""

import kornia
import pytest
import torch
from torch import Generator, Tensor

from popbandits_experiments.paper.procgen import augmentations
from popbandits_experiments.paper.procgen.augmentations import AUGMENTATIONS

N = 32


@pytest.fixture
def images() -> Tensor:
    """Random, with some grey, black and white pixels, whose hue is no number until somebody decides on one."""
    images = torch.rand(N, 3, 64, 64, generator=Generator().manual_seed(1))
    images[:, :, 0] = 0
    images[:, :, 1] = 1
    images[:, :, 2] = images[:, :1, 2]
    return images


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def draws(name: str) -> tuple[Tensor, ...]:
    return AUGMENTATIONS[name].draw(N, generator())


def test_the_eight_are_there() -> None:
    names = "crop grayscale cutout cutout-color flip rotate random-convolution color-jitter"
    assert list(AUGMENTATIONS) == names.split()


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_an_image_stays_an_image(name: str, images: Tensor) -> None:
    before = images.clone()
    augmented = AUGMENTATIONS[name](images, generator())
    assert augmented.shape == images.shape
    assert augmented.dtype == images.dtype
    assert torch.equal(images, before)
    assert not torch.equal(augmented, images)
    if name != "random-convolution":  # Its weights have either sign.
        assert augmented.min() >= 0
        assert augmented.max() <= 1


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_the_same_generator_gives_the_same_images(name: str, images: Tensor) -> None:
    augment = AUGMENTATIONS[name]
    assert torch.equal(augment(images, generator()), augment(images, generator()))
    if name != "grayscale":
        assert not torch.equal(augment(images, generator()), augment(images, generator(1)))


@pytest.mark.parametrize("name", [name for name in AUGMENTATIONS if name != "grayscale"])
def test_every_image_is_changed_in_its_own_way(name: str, images: Tensor) -> None:
    same = images[:1].expand(N, -1, -1, -1)
    distinct = {image.numpy().tobytes() for image in AUGMENTATIONS[name](same, generator())}
    assert len(distinct) > {"flip": 1, "rotate": 3}.get(name, N // 2)


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_what_happens_to_an_image_does_not_depend_on_the_others(name: str, images: Tensor) -> None:
    drawn = draws(name)
    together = AUGMENTATIONS[name].apply(images, *drawn)
    alone = AUGMENTATIONS[name].apply(images[3:4], *(each[3:4] for each in drawn))
    assert torch.allclose(together[3:4], alone, atol=1e-6)


def test_a_crop_is_a_window_of_the_padded_image(images: Tensor) -> None:
    top, left = draws("crop")
    padded = torch.nn.functional.pad(images, (12, 12, 12, 12), "replicate")
    corners = torch.stack([left, top], 1)[:, None].float()
    sides = torch.tensor([[0.0, 0], [63, 0], [63, 63], [0, 63]])
    expected = kornia.geometry.transform.crop_by_indices(padded, corners + sides)
    assert torch.equal(augmentations.crop(images, top, left), expected)
    assert {int(top.min()), int(top.max())} <= set(range(25))
    many = augmentations.draw_crop(2000, generator())[0]
    assert sorted(set(many.tolist())) == list(range(25))


def test_a_crop_from_the_middle_changes_nothing(images: Tensor) -> None:
    middle = torch.full((N,), 12)
    assert torch.equal(augmentations.crop(images, middle, middle), images)


def test_grey_is_kornias_grey(images: Tensor) -> None:
    expected = kornia.color.rgb_to_grayscale(images).expand_as(images)
    assert torch.allclose(augmentations.grayscale(images), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["cutout", "cutout-color"])
def test_a_box_is_painted_and_nothing_else(name: str, images: Tensor) -> None:
    drawn = draws(name)
    heights, widths = drawn[:2]
    top, left = 12 + heights, 24 + widths
    corners = torch.stack([left, top, left + widths - 1, top + heights - 1], 1)
    boxes = torch.stack([corners[:, [0, 1]], corners[:, [2, 1]], corners[:, [2, 3]], corners[:, [0, 3]]], 1).float()
    mask = kornia.geometry.bbox.bbox_to_mask(boxes, 64, 64).bool()[:, None].expand_as(images)
    augmented = AUGMENTATIONS[name].apply(images, *drawn)
    colours = drawn[2] if name == "cutout-color" else torch.zeros(N, 3)
    assert torch.equal(augmented[~mask], images[~mask])
    assert torch.equal(augmented[mask], colours[:, :, None, None].expand_as(images)[mask])


def test_boxes_have_sides_from_7_to_21() -> None:
    for sides in augmentations.draw_cutout(2000, generator()):
        assert sorted(set(sides.tolist())) == list(range(7, 22))


def test_half_of_the_images_are_turned_upside_down(images: Tensor) -> None:
    (flipped,) = draws("flip")
    augmented = augmentations.flip(images, flipped)
    assert torch.equal(augmented[flipped == 1], kornia.geometry.transform.vflip(images)[flipped == 1])
    assert torch.equal(augmented[flipped == 0], images[flipped == 0])
    assert 0.4 < augmentations.draw_flip(2000, generator())[0].float().mean() < 0.6


def test_turns_are_quarters(images: Tensor) -> None:
    (turns,) = draws("rotate")
    augmented = augmentations.rotate(images, turns)
    expected = {
        0: images,
        1: torch.rot90(images, 1, (2, 3)),
        2: kornia.geometry.transform.rot180(images),
        3: torch.rot90(images, 3, (2, 3)),
    }
    assert sorted(set(turns.tolist())) == [0, 1, 2, 3]
    for count, turned in expected.items():
        assert torch.equal(augmented[turns == count], turned[turns == count])


def test_every_image_is_convolved_with_its_own_weights(images: Tensor) -> None:
    (weights,) = draws("random-convolution")
    augmented = augmentations.random_convolution(images, weights)
    for image in (0, 7):
        channels = [
            sum(
                kornia.filters.filter2d(images[image : image + 1, [c]], weights[image, o, c][None], "constant")
                for c in range(3)
            )
            for o in range(3)
        ]
        assert torch.allclose(augmented[image], torch.cat(channels, 1)[0], atol=1e-5)
    assert augmentations.draw_random_convolution(2000, generator())[0].std() == pytest.approx(27**-0.5, rel=0.02)


def test_a_convolution_that_copies_changes_nothing(images: Tensor) -> None:
    copying = torch.zeros(N, 3, 3, 3, 3)
    for channel in range(3):
        copying[:, channel, channel, 1, 1] = 1
    assert torch.equal(augmentations.random_convolution(images, copying), images)


def test_colours_are_jittered_as_kornia_would_step_by_step(images: Tensor) -> None:
    contrast, brightness, saturation, hue, first = draws("color-jitter")
    augmented = augmentations.color_jitter(images, contrast, brightness, saturation, hue, first)

    def adjust_contrast(image: Tensor, factor: Tensor) -> Tensor:
        mean = image.mean((1, 2), keepdim=True)
        return ((image - mean) * factor + mean).clamp(0, 1)

    for image in range(N):
        expected = images[image]
        if first[image]:
            expected = adjust_contrast(expected, contrast[image])
        h, s, v = kornia.color.rgb_to_hsv(expected)
        h = (h + 2 * torch.pi * hue[image]) % (2 * torch.pi)
        s, v = (s * saturation[image]).clamp(0, 1), (v * brightness[image]).clamp(0, 1)
        expected = kornia.color.hsv_to_rgb(torch.stack([h, s, v]))
        if not first[image]:
            expected = adjust_contrast(expected, contrast[image])
        assert torch.allclose(augmented[image], expected, atol=1e-4)


def test_a_jitter_of_nothing_changes_nothing(images: Tensor) -> None:
    ones, zeros = torch.ones(N), torch.zeros(N)
    for first in (zeros, ones):
        assert torch.allclose(augmentations.color_jitter(images, ones, ones, ones, zeros, first), images, atol=1e-5)


def test_jitter_is_drawn_from_the_published_ranges() -> None:
    contrast, brightness, saturation, hue, first = augmentations.draw_color_jitter(4000, generator())
    for factors in (contrast, brightness, saturation):
        assert factors.min() == pytest.approx(0.6, abs=0.01)
        assert factors.max() == pytest.approx(1.4, abs=0.01)
    assert hue.abs().max() == pytest.approx(0.5 * 255 / 360, abs=0.01)
    assert 0.45 < first.float().mean() < 0.55
