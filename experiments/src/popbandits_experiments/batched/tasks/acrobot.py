"""Gymnasium's Acrobot-v1: swing two links up by the joint between them.

With links of mass, length and moment of inertia 1 and the centres of mass in their middle, the accelerations solve

    d1 α1 + d2 α2   = -φ1                   d1 = 3.5 + cos θ2,   d2 = 1.25 + cos θ2 / 2
    d2 α1 + 1.25 α2 = τ - φ2 - ω1² sin θ2 / 2

    φ2 = 4.9 sin(θ1 + θ2),   φ1 = 14.7 sin θ1 + φ2 - ω2 (ω2 + 2 ω1) sin θ2 / 2

| symbol | meaning |
|---|---|
| θ1, θ2 | angle of the first link from hanging down; of the second from the first |
| ω, α | their speeds and accelerations |
| τ | torque on the joint |
"""

import math

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.task import State, Task

STEP = 0.2


class Acrobot(Task):
    """Swing the tip above a height; the state is (θ1, θ2, ω1, ω2), actions are torques of -1, 0 and 1.

    Gymnasium's threshold is -100.
    """

    name = "Acrobot-v1"
    observation = (6,)
    actions = 3
    discrete = True
    limit = 500
    start_noise = 4

    def start(self, noise: Tensor) -> State:
        """Start within 0.1 of hanging still."""
        return (0.2 * noise - 0.1,)

    def observe(self, state: State) -> Tensor:
        """Return cosine and sine of both angles, and the speeds."""
        angles, speeds = state[0][..., :2], state[0][..., 2:]
        waves = torch.stack((angles.cos(), angles.sin()), -1).flatten(-2)
        return torch.cat((waves, speeds), -1)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Swing for 0.2 s (one Runge-Kutta step of order 4); the reward is -1, and 0 for the step that arrives."""
        (before,) = state
        torque = 2 * action - 2
        k1 = _derivative(before, torque)
        k2 = _derivative(torch.add(before, k1, alpha=STEP / 2), torque)
        k3 = _derivative(torch.add(before, k2, alpha=STEP / 2), torque)
        k4 = _derivative(torch.add(before, k3, alpha=STEP), torque)
        slope = torch.add(k1 + k4, k2 + k3, alpha=2)
        moved = torch.add(before, slope, alpha=STEP / 6)
        θ1, θ2 = (torch.remainder(moved[..., :2] + math.pi, 2 * math.pi) - math.pi).unbind(-1)
        ω1 = moved[..., 2].clamp(-4 * math.pi, 4 * math.pi)
        ω2 = moved[..., 3].clamp(-9 * math.pi, 9 * math.pi)
        arrived = θ1.cos() + (θ1 + θ2).cos() < -1
        return (torch.stack((θ1, θ2, ω1, ω2), -1),), arrived.to(before.dtype) - 1, arrived


def _derivative(state: Tensor, torque: Tensor) -> Tensor:
    """Return (ω1, ω2, α1, α2), shape (..., 4), from the state and twice the torque.

    Forces are doubled and pairs of terms shared, since every operation here is a kernel that runs four times a step.
    """
    _, θ2, ω1, ω2 = state.unbind(-1)
    sine1, sine2 = state[..., :2].sin().unbind(-1)
    both = (state[..., 0] + θ2).sin()
    cosine = θ2.cos()
    φ1 = torch.sub(ω2 * torch.add(ω2, ω1, alpha=2) * sine2, torch.add(both, sine1, alpha=3), alpha=9.8)  # -2 φ1
    rest = torch.addcmul(torch.sub(torque, both, alpha=9.8), sine2, ω1.square(), value=-1)  # 2 (τ - φ2 - ...)
    d2 = cosine + 2.5  # 2 d2, and 2 d1 is 2 more than twice that
    turned = d2 * rest
    determinant = cosine.square() - 11.25  # -4 (1.25 d1 - d2²)
    α1 = torch.sub(turned, φ1, alpha=2.5) / determinant
    α2 = torch.sub(d2 * φ1, turned + rest, alpha=2) / determinant
    return torch.stack((ω1, ω2, α1, α2), -1)
