"""The eight augmentations of DrAC: batched functions on the images' device that change every image independently.

Images are (n, 3, 64, 64), red, green and blue from 0 to 1. Random numbers are drawn first, a few per image, so that
`apply` is a pure function of tensors, which a compiler can fuse into one kernel.

Where the paper gives no details, distributions follow the code of the published runs (rraileanu/auto-drac).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn.functional import pad

Draws = tuple[Tensor, ...]

_SIDE = 64
_CROP_PADDING = 12
_BOX = (7, 22)  # Sides of the box to cut out, without the upper bound; it starts at (12, 24) plus its sides.
_BOX_CORNER = (12, 24)
_XAVIER_STD = (2 / (27 + 27)) ** 0.5
_HUE_SHIFT = 0.5 * 255 / 360  # Published: the shift is drawn from ±0.5, then scaled as if hue were 0 to 255 degrees.


@dataclass(frozen=True)
class Augmentation:
    """A function that draws random numbers for n images, and one that applies them to the images.

    >>> images = torch.rand(2, 3, 64, 64)
    >>> AUGMENTATIONS["grayscale"](images, torch.Generator()).shape
    torch.Size([2, 3, 64, 64])
    """

    draw: Callable[[int, Generator], Draws]
    apply: Callable[..., Tensor]

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Change each image independently; the generator must be on the images' device."""
        return self.apply(images, *self.draw(len(images), generator))


def _uniform(n: int, low: float, high: float, generator: Generator) -> Tensor:
    return low + (high - low) * torch.rand(n, generator=generator, device=generator.device)


def _integers(n: int, low: int, high: int, generator: Generator) -> Tensor:
    return torch.randint(low, high, (n,), generator=generator, device=generator.device)


def _per_image(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1, 1)


def draw_crop(n: int, generator: Generator) -> Draws:
    """Draw the top and left offset of the crop in the padded image."""
    return tuple(_integers(n, 0, 2 * _CROP_PADDING + 1, generator) for _ in range(2))


def crop(images: Tensor, top: Tensor, left: Tensor) -> Tensor:
    """Pad by 12 pixels, repeating the edges, and cut out 64 x 64."""
    within = torch.arange(_SIDE, device=images.device) - _CROP_PADDING
    rows = (top[:, None] + within).clamp(0, _SIDE - 1)
    columns = (left[:, None] + within).clamp(0, _SIDE - 1)
    return _take_pixels(images, rows[:, :, None], columns[:, None, :])


def _take_pixels(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the pixels of each image at these rows and columns, which broadcast to (n, 64, 64)."""
    image = torch.arange(len(images), device=images.device).view(-1, 1, 1, 1)
    channel = torch.arange(3, device=images.device).view(1, 3, 1, 1)
    return images[image, channel, rows[:, None], columns[:, None]]


def grayscale(images: Tensor) -> Tensor:
    """Set all three channels to the luma; nothing is random."""
    red, green, blue = images.unbind(1)
    return (0.299 * red + 0.587 * green + 0.114 * blue)[:, None].expand_as(images)


def draw_cutout(n: int, generator: Generator) -> Draws:
    """Draw height and width of the box; it starts at (12, 24) plus these, and the right edge may cut it off."""
    return tuple(_integers(n, *_BOX, generator) for _ in range(2))


def draw_cutout_color(n: int, generator: Generator) -> Draws:
    """Draw height, width and colour of the box."""
    # Published: from the second minibatch on, colours were from 0 to 254 in images from 0 to 1. Here: from 0 to 1.
    colour = torch.rand((n, 3), generator=generator, device=generator.device)
    return (*draw_cutout(n, generator), colour)


def cutout(images: Tensor, heights: Tensor, widths: Tensor, colours: Tensor | None = None) -> Tensor:
    """Paint a box black, or in its own colour."""
    at = torch.arange(_SIDE, device=images.device)
    top, left = _BOX_CORNER[0] + heights[:, None], _BOX_CORNER[1] + widths[:, None]
    rows = (at >= top) & (at < top + heights[:, None])
    columns = (at >= left) & (at < left + widths[:, None])
    box = (rows[:, :, None] & columns[:, None, :])[:, None]
    paint = torch.zeros_like(images[:, :, :1, :1]) if colours is None else colours[:, :, None, None]
    return torch.where(box, paint, images)


def draw_flip(n: int, generator: Generator) -> Draws:
    """Draw whether each image is flipped."""
    return (_integers(n, 0, 2, generator),)


def flip(images: Tensor, flipped: Tensor) -> Tensor:
    """Turn half of the images upside down, as the published code does (a mirror image would swap left and right)."""
    return torch.where(_per_image(flipped == 1), images.flip(2), images)


def draw_rotate(n: int, generator: Generator) -> Draws:
    """Draw the number of quarter turns."""
    return (_integers(n, 0, 4, generator),)


def rotate(images: Tensor, turns: Tensor) -> Tensor:
    """Turn by a multiple of 90 degrees, counterclockwise."""
    # By index, not by torch.where over `rot90`, which gave wrong images when compiled for a GPU (torch 2.11).
    at = torch.arange(_SIDE, device=images.device)
    down, right = at[None, :, None], at[None, None, :]
    turns = turns[:, None, None]
    across = torch.where(turns % 2 == 1, right, down)
    along = torch.where(turns % 2 == 1, down, right)
    rows = torch.where(turns >= 2, _SIDE - 1 - across, across)
    columns = torch.where((turns == 1) | (turns == 2), _SIDE - 1 - along, along)
    return _take_pixels(images, rows, columns)


def draw_random_convolution(n: int, generator: Generator) -> Draws:
    """Draw Xavier-normal weights of a 3 x 3 convolution for each image."""
    return (_XAVIER_STD * torch.randn((n, 3, 3, 3, 3), generator=generator, device=generator.device),)


def random_convolution(images: Tensor, weights: Tensor) -> Tensor:
    """Convolve each image with its own weights, zero padded; the result is not clamped to [0, 1]."""
    padded = pad(images, (1, 1, 1, 1))
    result = torch.zeros_like(images)
    for channel in range(3):
        for dy in range(3):
            for dx in range(3):
                seen = padded[:, channel, None, dy : dy + _SIDE, dx : dx + _SIDE]
                result = result + weights[:, :, channel, dy, dx, None, None] * seen
    return result


def draw_color_jitter(n: int, generator: Generator) -> Draws:
    """Draw factors of contrast, brightness and saturation, the shift of hue, and whether contrast comes first."""
    contrast, brightness, saturation = (_uniform(n, 0.6, 1.4, generator) for _ in range(3))
    hue = _uniform(n, -_HUE_SHIFT, _HUE_SHIFT, generator)
    return contrast, brightness, saturation, hue, _integers(n, 0, 2, generator)


def color_jitter(
    images: Tensor, contrast: Tensor, brightness: Tensor, saturation: Tensor, hue: Tensor, contrast_first: Tensor
) -> Tensor:
    """Change contrast, and, in the HSV cone, brightness (the value), saturation and hue."""
    first = _per_image(contrast_first == 1)
    images = torch.where(first, _adjust_contrast(images, contrast), images)
    h, s, v = _hsv(images)
    h = (h + hue[:, None, None]) % 1
    s = (s * saturation[:, None, None]).clamp(0, 1)
    v = (v * brightness[:, None, None]).clamp(0, 1)
    images = _rgb(h, s, v)
    return torch.where(first, images, _adjust_contrast(images, contrast))


def _adjust_contrast(images: Tensor, factors: Tensor) -> Tensor:
    mean = images.mean((2, 3), keepdim=True)
    return ((images - mean) * _per_image(factors) + mean).clamp(0, 1)


def _hsv(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Convert to hue, saturation and value, each from 0 to 1; grey has hue 0."""
    red, green, blue = images.unbind(1)
    value = torch.maximum(torch.maximum(red, green), blue)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)
    scale = torch.where(chroma > 0, chroma, torch.ones_like(chroma))
    sextant = torch.where(
        value == red,
        ((green - blue) / scale) % 6,
        torch.where(value == green, (blue - red) / scale + 2, (red - green) / scale + 4),
    )
    saturation = chroma / torch.where(value > 0, value, torch.ones_like(value))
    return sextant / 6, saturation, value


def _rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    channels = []
    for offset in (5, 3, 1):
        k = (offset + hue * 6) % 6
        channels.append(value - value * saturation * torch.minimum(k, 4 - k).clamp(0, 1))
    return torch.stack(channels, 1)


def _nothing(n: int, generator: Generator) -> Draws:
    return ()


AUGMENTATIONS: Mapping[str, Augmentation] = {
    "crop": Augmentation(draw_crop, crop),
    "grayscale": Augmentation(_nothing, grayscale),
    "cutout": Augmentation(draw_cutout, cutout),
    "cutout-color": Augmentation(draw_cutout_color, cutout),
    "flip": Augmentation(draw_flip, flip),
    "rotate": Augmentation(draw_rotate, rotate),
    "random-convolution": Augmentation(draw_random_convolution, random_convolution),
    "color-jitter": Augmentation(draw_color_jitter, color_jitter),
}
