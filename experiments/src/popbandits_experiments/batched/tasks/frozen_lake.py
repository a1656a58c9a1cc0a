"""Gymnasium's FrozenLake8x8-v1: cross slippery ice with holes."""

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.task import State, Task

SIDE = 8
MAP = (
    "........",  # The start is on the upper left.
    "........",
    "...O....",
    ".....O..",
    "...O....",
    ".OO...O.",
    ".O..O.O.",
    "...O....",  # The goal is on the lower right.
)
HOLES = sum(1 << place for place, kind in enumerate("".join(MAP)) if kind == "O")
"""Places of holes as the bits of a number, which no device has to be sent."""
GOAL = SIDE * SIDE - 1


class FrozenLake(Task):
    """Reach the goal without falling into a hole; actions go left, down, right and up.

    The ice is slippery: a step goes where it was meant to, or to either side of that, each with probability 1/3. The
    state is a place, the observation has a 1 there.
    """

    name = "FrozenLake8x8-v1"
    observation = (SIDE * SIDE,)
    actions = 4
    discrete = True
    limit = 200
    start_noise = 0
    step_noise = 1
    random_score = 0.002
    solved = 0.85  # Gymnasium's registered threshold.

    def start(self, noise: Tensor) -> State:
        """Start on the upper left."""
        return (noise.new_zeros(noise.shape[:-1]),)

    def observe(self, state: State) -> Tensor:
        """Return a 1 for the place, 0 for the others."""
        place = state[0][..., None]
        return (place == torch.arange(SIDE * SIDE, device=place.device)).to(place.dtype)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Slide one place; the goal is worth 1, and the shore stops a step."""
        place = state[0]
        gone = (action - 1 + (3 * noise[..., 0]).long()) % 4
        row = (place // SIDE + (gone == 1).int() - (gone == 3).int()).clamp(0, SIDE - 1)
        column = (place % SIDE + (gone == 2).int() - (gone == 0).int()).clamp(0, SIDE - 1)
        place = row * SIDE + column
        arrived = place == GOAL
        drowned = torch.bitwise_and(torch.bitwise_right_shift(HOLES, place.long()), 1) == 1
        return (place,), arrived.to(place.dtype), arrived | drowned
