"""A point behind a wall: the straight way to the goal ends at the wall, the way round leads away from it first."""

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.task import State, Task

STEP = 0.1
GOAL = (0.0, 1.0)
WALL = 1.0
"""Half the length of the wall, which is the line y = 0 from x = -WALL to x = WALL."""


class Detour(Task):
    """Go to the goal behind a wall; the state is (x, y), an action a moves the point by 0.1 clip(a, -1, 1).

    The goal is at (0, 1), the start below the wall. The reward is minus the distance to the goal. Waiting at the wall's
    middle is a local optimum: the wall's ends are √2 as far from the goal. It is worth -53, the way round -23. A
    deceptive task like the point of DvD (Parker-Holder et al. 2020).
    """

    name = "Detour"
    observation = (2,)
    actions = 2
    discrete = False
    limit = 50
    start_noise = 2

    def start(self, noise: Tensor) -> State:
        """Start within 0.1 of (0, -0.5)."""
        near = 0.2 * noise - 0.1
        return (torch.stack((near[..., 0], near[..., 1] - 0.5), -1),)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Move, unless the way crosses the wall: then only along it."""
        x, y = state[0].unbind(-1)
        move_x, move_y = (STEP * action.clamp(-1, 1)).unbind(-1)
        there_x, there_y = x + move_x, y + move_y
        across = (y < 0) != (there_y < 0)
        # Where the way crosses the wall's line, x is x + share * move_x; |share| <= 1 if it does.
        crossing = x + move_x * (y / (y - there_y))
        stopped = across & (crossing.abs() <= WALL)
        there_y = torch.where(stopped, y, there_y)
        distance = torch.hypot(there_x - GOAL[0], there_y - GOAL[1])
        return (torch.stack((there_x, there_y), -1),), -distance, torch.zeros_like(stopped)
