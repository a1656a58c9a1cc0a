"""Operations of augmentation on small grey images, for many members at once; each image has its own amounts.

An operation has a probability and a magnitude, both between 0 and 1. It is applied to an image with this probability,
by an amount that is uniform up to the magnitude times `LARGEST`, either way for those that have two ways. The geometric
ones are one affine map with one bilinear interpolation; pixels from outside are blank.

| symbol | meaning |
|---|---|
| A | members |
| B | images of a member |
| S | pixels of a row |
| O | operations |
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from popbandits_experiments.batched.random import Streams

LARGEST = {
    "shift_x": 0.25,  # shares of the side
    "shift_y": 0.25,
    "rotate": math.pi / 4,
    "shear": 0.5,
    "scale": 0.4,  # logarithm of the factor
    "contrast": 0.9,  # added to a factor of 1
    "invert": 1.0,  # share of the inverted image
    "noise": 0.5,  # standard deviation
    "cutout": 0.5,  # side of the square, as a share of the image's
}
"""Amount at magnitude 1."""
OPERATIONS = tuple(LARGEST)
GEOMETRIC = OPERATIONS[:5]
TWO_WAYS = OPERATIONS[:6]
"""Operations whose amounts may be negative."""
FILLS = ("blank", "grey", "noise")
"""Content of a square that is cut out."""


@dataclass(frozen=True)
class Draws:
    """Random numbers of an epoch: buffers that keep their addresses."""

    chosen: Tensor
    """Uniform, (A, B, O): an operation is chosen where this is below its probability."""
    order: Tensor
    """Uniform, (A, B, O): of too many chosen operations, those with the largest are applied."""
    amount: Tensor
    """Uniform, (A, B, O)."""
    centre: Tensor
    """Uniform, (A, B, 2): middle of the square that is cut out."""
    noise: Tensor
    """Normal, (A, B, S, S)."""

    @staticmethod
    def zeros(members: int, images: int, side: int, device: torch.device) -> "Draws":
        """Allocate the buffers."""
        shapes = [(len(OPERATIONS),)] * 3 + [(2,), (side, side)]
        return Draws(*(torch.zeros(members, images, *shape, device=device) for shape in shapes))

    def renew(self, streams: Streams) -> None:
        """Draw new numbers in place."""
        for buffer in (self.chosen, self.order, self.amount, self.centre):
            buffer.copy_(streams.uniform(*buffer.shape[1:]))
        self.noise.copy_(streams.normal(*self.noise.shape[1:]))


def amounts(draws: Draws, probabilities: Tensor, largest: Tensor, most: Tensor) -> Tensor:
    """Compute the amount of each operation on each image, (A, B, O); 0 where it is not applied.

    Probabilities and largest amounts are (A, O); `most`, (A,), is the number of operations that an image may have.
    """
    chosen = draws.chosen < probabilities[:, None]
    before = chosen[:, :, None, :] & (draws.order[:, :, None, :] > draws.order[:, :, :, None])
    applied = chosen & (before.sum(-1) < most[:, None, None])
    two_ways, one_way = draws.amount.tensor_split([len(TWO_WAYS)], dim=-1)
    share = torch.cat([2 * two_ways - 1, one_way], -1)
    return torch.where(applied, share * largest[:, None], 0.0)


def augment(images: Tensor, amount: Tensor, draws: Draws, fill: Tensor) -> Tensor:
    """Apply every operation to images, (A, B, S, S), by its amount, (A, B, O); `fill`, (A,), is an index of FILLS.

    An image whose amounts are all 0 stays as it is, to the last bit.
    """
    own = dict(zip(OPERATIONS, amount.unbind(-1), strict=True))
    moved = torch.stack([own[name] != 0 for name in GEOMETRIC]).any(0)[..., None, None]
    images = torch.where(moved, _moved(images, own), images)
    shaped = {name: each[..., None, None] for name, each in own.items()}
    contrast = shaped["contrast"]
    images = torch.where(contrast == 0, images, (0.5 + (1 + contrast) * (images - 0.5)).clamp(0, 1))
    images = images + shaped["invert"] * (1 - 2 * images)
    images = images + shaped["noise"] * draws.noise
    contents = torch.stack([torch.zeros_like(draws.noise), torch.full_like(draws.noise, 0.5), 0.5 + draws.noise / 4])
    content = contents[fill, torch.arange(len(fill), device=fill.device)]
    return torch.where(_square(draws.centre, own["cutout"], images.shape[-1]), content, images)


def _moved(images: Tensor, own: dict[str, Tensor]) -> Tensor:
    """Map each pixel to where it comes from: R(rotate) [[1, shear], [0, 1]] exp(scale) (x, y) + shift."""
    side = images.shape[-1]
    line = (2 * torch.arange(side, device=images.device) + 1) / side - 1
    x, y = line[None, None, None, :], line[None, None, :, None]
    turn, shear, factor = (own[name][..., None, None] for name in ("rotate", "shear", "scale"))
    factor, cosine, sine = factor.exp(), turn.cos(), turn.sin()
    u, v = factor * (x + shear * y), factor * y
    # The middle is 0 and the border 1, so that a share of the side counts twice.
    from_x = cosine * u - sine * v + 2 * own["shift_x"][..., None, None]
    from_y = sine * u + cosine * v + 2 * own["shift_y"][..., None, None]
    grid = torch.stack([from_x, from_y], -1).flatten(0, 1)
    return grid_sample(images.reshape(-1, 1, side, side), grid, align_corners=False).view(images.shape)


def _square(centre: Tensor, size: Tensor, side: int) -> Tensor:
    """Mark the pixels whose middle lies in a square of this size, a share of the side: (A, B, S, S)."""
    line = (torch.arange(side, device=size.device) + 0.5) / side
    inside = (line - centre[..., None]).abs() < size[..., None, None] / 2  # (A, B, 2, S)
    return inside[:, :, 1, :, None] & inside[:, :, 0, None, :]
