"""Gymnasium's MountainCarContinuous-v0: gather speed in a valley to get over its rim."""

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.task import State, Task

POWER, SLOPE, MAX_SPEED = 0.0015, 0.0025, 0.07
LEFT, RIGHT, GOAL = -1.2, 0.6, 0.45


class MountainCarContinuous(Task):
    """Get over the rim; the state is (position, speed), an action a means the force clip(a, -1, 1).

    Force costs 0.1 times its square after clipping (Gymnasium uses the force before clipping).
    """

    name = "MountainCarContinuous-v0"
    observation = (2,)
    actions = 1
    discrete = False
    limit = 999
    start_noise = 1
    step_noise = 0
    random_score = -33.2
    solved = 90.0  # Gymnasium's registered threshold.

    def start(self, noise: Tensor) -> State:
        """Start at rest at the bottom of the valley."""
        position = 0.2 * noise - 0.6
        return (torch.cat((position, torch.zeros_like(position)), -1),)

    def observe(self, state: State) -> Tensor:
        """Return the state."""
        return state[0]

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Move for one step; the wall on the left stops the car, the goal is worth 100."""
        position, speed = state[0].unbind(-1)
        force = action[..., 0].clamp(-1, 1)
        speed = speed + POWER * force - SLOPE * (3 * position).cos()
        speed = speed.clamp(-MAX_SPEED, MAX_SPEED)
        position = (position + speed).clamp(LEFT, RIGHT)
        speed = torch.where(position == LEFT, speed.clamp(min=0), speed)
        arrived = position >= GOAL  # Gymnasium also requires a speed of at least 0, which every arriving car has.
        reward = 100 * arrived - 0.1 * force.square()
        return (torch.stack((position, speed), -1),), reward, arrived
