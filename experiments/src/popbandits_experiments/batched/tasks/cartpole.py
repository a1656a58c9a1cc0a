"""Gymnasium's CartPole-v1, keep a pole upright on a cart, and the same cart that first swings its pole up."""

import math

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.task import State, Task

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, STEP = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
MASS, MOMENT = CART + POLE, POLE * HALF_LENGTH
MAX_POSITION, MAX_ANGLE = 2.4, math.radians(12)


class CartPole(Task):
    """Keep a pole upright; the state is (position, speed, angle, angular speed), actions push left and right.

    Gymnasium's threshold is 475.
    """

    name = "CartPole-v1"
    observation = (4,)
    actions = 2
    discrete = True
    limit = 500
    start_noise = 4

    def start(self, noise: Tensor) -> State:
        """Start within 0.05 of standing still."""
        return (0.1 * noise - 0.05,)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Move for 0.02 s (Euler); every step is worth 1, including the last."""
        moved = _move(state[0], 2 * FORCE * action - FORCE)
        fallen = (moved[..., 0].abs() > MAX_POSITION) | (moved[..., 2].abs() > MAX_ANGLE)
        return (moved,), torch.ones_like(moved[..., 0]), fallen


class SwingUp(Task):
    """Swing a pole up; the state is (position, speed, angle, angular speed), an action a the force 10 clip(a, -1, 1).

    Angles are 0 upright. The reward is ((1 + cos angle) / 2)², so that swinging wildly earns little:
    350 is upright after 150 steps, three seconds.
    """

    name = "SwingUp"
    observation = (5,)
    actions = 1
    discrete = False
    limit = 500
    start_noise = 4

    def start(self, noise: Tensor) -> State:
        """Start within 0.05 of hanging still."""
        near = 0.1 * noise - 0.05
        return (torch.cat((near[..., :2], near[..., 2:3] + math.pi, near[..., 3:]), -1),)

    def observe(self, state: State) -> Tensor:
        """Return the position, the speed, the angle's cosine and sine, and the angular speed."""
        position, speed, angle, turning = state[0].unbind(-1)
        return torch.stack((position, speed, angle.cos(), angle.sin(), turning), -1)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Move for 0.02 s (Euler); the end of the track ends the episode."""
        moved = _move(state[0], FORCE * action[..., 0].clamp(-1, 1))
        reward = ((1 + moved[..., 2].cos()) / 2).square()
        return (moved,), reward, moved[..., 0].abs() > MAX_POSITION


def _move(state: Tensor, force: Tensor) -> Tensor:
    """Move cart and pole for 0.02 s (Euler) under a force on the cart; the pole's angle is 0 upright."""
    _, speed, angle, turning = state.unbind(-1)
    cosine, sine = angle.cos(), angle.sin()
    push = (MOMENT * turning.square() * sine + force) / MASS
    spin = (GRAVITY * sine - cosine * push) / (HALF_LENGTH * (4 / 3 - (POLE / MASS) * cosine.square()))
    drive = torch.addcmul(push, spin, cosine, value=-MOMENT / MASS)
    return torch.add(state, torch.stack((speed, drive, turning, spin), -1), alpha=STEP)
