"""Rules that all games of MinAtar (Young & Tian 2019, arXiv 1903.03176) share.

The games are MinAtar's, step for step: minimal action sets, difficulty that rises where the game has it, and an agent's
last action that is repeated with probability 0.1 in place of the new one. Two things are ours: an episode is cut after
1,000 steps (MinAtar has no limit but Freeway's), and the "last action" of an episode's first step is none (MinAtar's is
the one that ended the episode before).

Cells of the 10 x 10 field are numbered row by row from the top left. Positions and timers are small whole numbers in
the floating type of the noise, and compare exactly.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from popbandits.rl.batched.tasks.task import Task

SIDE = 10
STICKY = 0.1


class Game(Task):
    """Share what every game has: discrete actions, of which number 0 does nothing, and noise that makes them stick."""

    discrete = True
    limit = 1000


def stick(last: Tensor, action: Tensor, noise: Tensor) -> Tensor:
    """Return the action that is taken, in the type of `last`: the last one again where the noise says so."""
    return torch.where(noise < STICKY, last, action)


def move(position: Tensor, action: Tensor, low: int, high: int) -> Tensor:
    """Step back for action 1 and forward for action 2, within the bounds; stay for 0 and 3."""
    return (position + 1 - torch.remainder(action + 1, 3)).clamp(low, high)


def field(maps: Tensor, cell: Tensor, dtype: torch.dtype) -> Tensor:
    """Draw an observation: a map with one cell marked, before maps of the eight rows between the first and last."""
    first = mark(cell, SIDE * SIDE).view(*cell.shape, 1, SIDE, SIDE)
    return torch.cat((first, pad(maps, (0, 0, 1, 1))), -3).to(dtype)


def mark(positions: Tensor, size: int, first: int = 0) -> Tensor:
    """Return masks of shape (..., size), true where a position is `first` plus the index; nowhere if it is outside."""
    return positions[..., None] == torch.arange(first, first + size, device=positions.device)
