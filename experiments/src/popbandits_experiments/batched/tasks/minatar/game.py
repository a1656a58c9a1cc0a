"""Rules shared by all games of MinAtar (Young & Tian 2019, arXiv 1903.03176).

The games follow MinAtar step by step: minimal action sets, rising difficulty where the game has it, and sticky actions
(the last action is repeated with probability 0.1). Two things differ: an episode is cut off after 1,000 steps (in
MinAtar only Freeway has a limit), and the "last action" of an episode's first step is none (in MinAtar, it is the last
action of the episode before).

In gymnax's table (README.md), where episodes have the same limit, PPO reaches 28 in Breakout, 15 in Asterix and 131 in
Space Invaders; in Freeway 58 in 2,500 steps, the rate of 23 in 1,000. For Seaquest no published score has this limit.

Cells of the 10 x 10 field are numbered row by row from the top left. Positions and timers are small whole numbers in
the floating type of the noise, and compare exactly.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from popbandits_experiments.batched.tasks.task import Task, mark

SIDE = 10
STICKY = 0.1


class Game(Task):
    """Base of all games: discrete actions, of which 0 does nothing, and noise that makes actions sticky."""

    discrete = True
    limit = 1000


def stick(last: Tensor, action: Tensor, noise: Tensor) -> Tensor:
    """Return the action taken, in the type of `last`: the last one again where the noise is below 0.1."""
    return torch.where(noise < STICKY, last, action)


def move(position: Tensor, action: Tensor, low: int, high: int) -> Tensor:
    """Step back for action 1 and forward for action 2, within the bounds; stay for 0 and 3."""
    return (position + 1 - torch.remainder(action + 1, 3)).clamp(low, high)


def field(maps: Tensor, cell: Tensor, dtype: torch.dtype) -> Tensor:
    """Build an observation: a map with one cell marked, then maps of the eight rows between the first and last."""
    first = mark(cell, SIDE * SIDE).view(*cell.shape, 1, SIDE, SIDE)
    return torch.cat((first, pad(maps, (0, 0, 1, 1))), -3).to(dtype)
