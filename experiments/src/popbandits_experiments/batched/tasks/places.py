"""Gymnasium's FrozenLake8x8-v1 and CliffWalking-v1: walks over the places of a grid, numbered row by row."""

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.task import State, Task, mark, walk

LAKE = (
    "........",  # The start is on the upper left.
    "........",
    "...O....",
    ".....O..",
    "...O....",
    ".OO...O.",
    ".O..O.O.",
    "...O....",  # The goal is on the lower right.
)
HOLES = sum(1 << place for place, kind in enumerate("".join(LAKE)) if kind == "O")
"""Places of holes as the bits of a number, which no device has to be sent."""
SIDE, ROWS, COLUMNS = len(LAKE), 4, 12
"""Rows and columns of the lake; rows and columns along the cliff."""
START, GOAL = (ROWS - 1) * COLUMNS, ROWS * COLUMNS - 1
"""Corners of the lowest row; the cliff is all of that row between them."""


class _Places(Task):
    """Four directions, and a state that is a place; the observation has a 1 there."""

    actions = 4
    discrete = True
    limit = 200

    def observe(self, state: State) -> Tensor:
        """Return a 1 for the place, 0 for the others."""
        return mark(state[0], *self.observation).to(state[0].dtype)


class FrozenLake(_Places):
    """Reach the goal without falling into a hole; actions go left, down, right and up.

    The ice is slippery: a step goes where it was meant to, or to either side of that, each with probability 1/3.
    Gymnasium's threshold is 0.85.
    """

    name = "FrozenLake8x8-v1"
    observation = (SIDE * SIDE,)
    step_noise = 1

    def start(self, noise: Tensor) -> State:
        """Start on the upper left."""
        return (noise.new_zeros(noise.shape[:-1]),)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Slide one place; the goal is worth 1, and the shore stops a step."""
        place = state[0]
        gone = (action - 1 + (3 * noise[..., 0]).long()) % 4
        row, column = walk(place // SIDE, gone, 3, 1, SIDE), walk(place % SIDE, gone, 0, 2, SIDE)
        place = row * SIDE + column
        arrived = place == SIDE * SIDE - 1
        drowned = torch.bitwise_and(torch.bitwise_right_shift(HOLES, place.long()), 1) == 1
        return (place,), arrived.to(place.dtype), arrived | drowned


class CliffWalking(_Places):
    """Reach the goal without falling off the cliff; actions go up, right, down and left.

    The way along the top is worth -17, the shortest, along the edge, -13. Gymnasium sets no time limit.
    """

    name = "CliffWalking-v1"
    observation = (ROWS * COLUMNS,)

    def start(self, noise: Tensor) -> State:
        """Start on the lower left."""
        return (noise.new_full(noise.shape[:-1], START),)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Walk one place, which costs 1; falling off the cliff costs 100 and leads back to the start."""
        row, column = walk(state[0] // COLUMNS, action, 0, 2, ROWS), walk(state[0] % COLUMNS, action, 3, 1, COLUMNS)
        place = row * COLUMNS + column
        fallen = (place > START) & (place < GOAL)
        return (torch.where(fallen, float(START), place),), -1 - 99 * fallen.to(place.dtype), place == GOAL
