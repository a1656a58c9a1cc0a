"""Gymnasium's CartPole-v1: keep a pole upright on a cart."""

import math

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.task import State, Task

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, STEP = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
MASS, MOMENT = CART + POLE, POLE * HALF_LENGTH
MAX_POSITION, MAX_ANGLE = 2.4, math.radians(12)


class CartPole(Task):
    """Keep a pole upright; the state is (position, speed, angle, angular speed), actions push left and right."""

    name = "CartPole-v1"
    observation = (4,)
    actions = 2
    discrete = True
    limit = 500
    start_noise = 4
    step_noise = 0
    random_score = 22.0
    solved = 475.0  # Gymnasium's registered threshold.

    def start(self, noise: Tensor) -> State:
        """Start within 0.05 of standing still."""
        return (0.1 * noise - 0.05,)

    def observe(self, state: State) -> Tensor:
        """Return the state."""
        return state[0]

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Move for 0.02 s (Euler); every step is worth 1, including the last."""
        _, speed, angle, turning = state[0].unbind(-1)
        drive, spin = accelerations(angle, turning, 2 * FORCE * action - FORCE)
        moved = torch.add(state[0], torch.stack((speed, drive, turning, spin), -1), alpha=STEP)
        fallen = (moved[..., 0].abs() > MAX_POSITION) | (moved[..., 2].abs() > MAX_ANGLE)
        return (moved,), torch.ones_like(drive), fallen


def accelerations(angle: Tensor, turning: Tensor, force: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the accelerations of the cart and of the pole's angle, which is 0 upright."""
    cosine, sine = angle.cos(), angle.sin()
    push = (MOMENT * turning.square() * sine + force) / MASS
    spin = (GRAVITY * sine - cosine * push) / (HALF_LENGTH * (4 / 3 - (POLE / MASS) * cosine.square()))
    return torch.addcmul(push, spin, cosine, value=-MOMENT / MASS), spin
