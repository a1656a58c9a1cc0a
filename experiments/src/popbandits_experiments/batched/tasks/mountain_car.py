"""Gymnasium's MountainCar-v0 and MountainCarContinuous-v0: gather speed in a valley to get over its rim."""

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.task import State, Task

SLOPE, MAX_SPEED = 0.0025, 0.07
LEFT, RIGHT = -1.2, 0.6


class _Valley(Task):
    """The valley and its starts; the state is (position, speed)."""

    observation = (2,)
    start_noise = 1

    def start(self, noise: Tensor) -> State:
        """Start at rest at the bottom of the valley."""
        position = 0.2 * noise - 0.6
        return (torch.cat((position, torch.zeros_like(position)), -1),)

    @staticmethod
    def _move(state: State, push: Tensor) -> tuple[Tensor, Tensor]:
        """Change the speed by a push and the slope, then move; return position and speed. A wall stops the car."""
        position, speed = state[0].unbind(-1)
        speed = (speed + push - SLOPE * (3 * position).cos()).clamp(-MAX_SPEED, MAX_SPEED)
        position = (position + speed).clamp(LEFT, RIGHT)
        return position, torch.where(position == LEFT, speed.clamp(min=0), speed)


class MountainCar(_Valley):
    """Get over the rim as soon as possible; actions push left, do nothing and push right.

    Gymnasium's threshold is -110.
    """

    name = "MountainCar-v0"
    actions = 3
    discrete = True
    limit = 200

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Move for one step, which costs 1."""
        position, speed = self._move(state, (action - 1) * 0.001)
        return (torch.stack((position, speed), -1),), -torch.ones_like(speed), position >= 0.5


class MountainCarContinuous(_Valley):
    """Get over the rim; an action a means the force clip(a, -1, 1).

    Force costs 0.1 times its square after clipping (Gymnasium uses the force before clipping). Gymnasium's threshold is
    90.
    """

    name = "MountainCarContinuous-v0"
    actions = 1
    discrete = False
    limit = 999

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Move for one step; the goal is worth 100."""
        force = action[..., 0].clamp(-1, 1)
        position, speed = self._move(state, 0.0015 * force)
        arrived = position >= 0.45  # Gymnasium also requires a speed of at least 0, which every arriving car has.
        reward = 100 * arrived - 0.1 * force.square()
        return (torch.stack((position, speed), -1),), reward, arrived
