"""Gymnasium's CliffWalking-v1: walk along a cliff, not too close to its edge."""

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.task import State, Task

ROWS, COLUMNS = 4, 12
START, GOAL = (ROWS - 1) * COLUMNS, ROWS * COLUMNS - 1
"""Corners of the lowest row; the cliff is all of that row between them."""
UP, RIGHT, DOWN, LEFT = range(4)


class CliffWalking(Task):
    """Reach the goal without falling off the cliff; actions go up, right, down and left.

    The state is a place, the observation has a 1 there. Gymnasium sets no time limit.
    """

    name = "CliffWalking-v1"
    observation = (ROWS * COLUMNS,)
    actions = 4
    discrete = True
    limit = 200
    start_noise = 0
    step_noise = 0
    random_score = -2079.0
    solved = -17.0  # The way along the top; the shortest, along the edge, is worth -13.

    def start(self, noise: Tensor) -> State:
        """Start on the lower left."""
        return (noise.new_full(noise.shape[:-1], START),)

    def observe(self, state: State) -> Tensor:
        """Return a 1 for the place, 0 for the others."""
        place = state[0][..., None]
        return (place == torch.arange(ROWS * COLUMNS, device=place.device)).to(place.dtype)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Walk one place, which costs 1; falling off the cliff costs 100 and leads back to the start."""
        place = state[0]
        row = (place // COLUMNS + (action == DOWN).int() - (action == UP).int()).clamp(0, ROWS - 1)
        column = (place % COLUMNS + (action == RIGHT).int() - (action == LEFT).int()).clamp(0, COLUMNS - 1)
        place = row * COLUMNS + column
        fallen = (place > START) & (place < GOAL)
        return (torch.where(fallen, float(START), place),), -1 - 99 * fallen.to(place.dtype), place == GOAL
