"""A two-link arm that reaches for a target, as Gymnasium's Reacher but with equations instead of MuJoCo.

The arm lies flat, so no gravity pulls at it. With uniform rods of mass and length 1, the accelerations solve

    m1 α1 + m2 α2 = τ1 - ω1 + ω2 (2 ω1 + ω2) sin θ2 / 2      m1 = 5/3 + cos θ2,   m2 = 1/3 + cos θ2 / 2
    m2 α1 + α2/3  = τ2 - ω2 - ω1² sin θ2 / 2

and a step of 0.05 s is ω ← ω + 0.05 α, then θ ← θ + 0.05 ω.

| symbol | meaning |
|---|---|
| θ1, θ2 | angle of the first link from the x-axis; of the second from the first |
| ω, α | their speeds and accelerations |
| τ | torques on the shoulder and on the elbow: 3 clip(a, -1, 1) for the action a |
"""

import math

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.task import State, Task

STEP, TORQUE = 0.05, 3.0
RADIUS = 1.8
"""Radius of the disc around the shoulder where targets are; the arm reaches as far as 2."""
COST = 0.01
"""Cost of a torque of full strength for one step."""


class Reach(Task):
    """Bring the arm's tip to a target; the state is (θ1, θ2, ω1, ω2, x and y of the target).

    The reward is minus the distance of the tip, less 0.01 for the squares of both clipped actions. The angles of the
    target, and a spring and a damper towards them, come to -44.
    """

    name = "Reach"
    observation = (10,)
    actions = 2
    discrete = False
    limit = 50
    start_noise = 4

    def start(self, noise: Tensor) -> State:
        """Start at rest, within 0.1 of stretched along the x-axis, with a target anywhere in its disc."""
        angles = 0.2 * noise[..., :2] - 0.1
        radius, direction = RADIUS * noise[..., 2].sqrt(), 2 * math.pi * noise[..., 3]
        target = torch.stack((radius * direction.cos(), radius * direction.sin()), -1)
        return (torch.cat((angles, torch.zeros_like(angles), target), -1),)

    def observe(self, state: State) -> Tensor:
        """Return cosine and sine of both angles, the speeds, the target, and the way from the tip to it."""
        angles = state[0][..., :2]
        return torch.cat((angles.cos(), angles.sin(), state[0][..., 2:], _way(state[0])), -1)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Turn for 0.05 s; only the time limit ends an episode."""
        θ, ω, target = state[0][..., :2], state[0][..., 2:4], state[0][..., 4:]
        action = action.clamp(-1, 1)
        ω = torch.add(ω, _accelerations(θ[..., 1], ω, TORQUE * action), alpha=STEP)
        after = torch.cat((torch.add(θ, ω, alpha=STEP), ω, target), -1)
        reward = torch.add(-_way(after).norm(dim=-1), action.square().sum(-1), alpha=-COST)
        return (after,), reward, torch.zeros_like(reward, dtype=torch.bool)


def _way(state: Tensor) -> Tensor:
    """Return the vector from the tip to the target, shape (..., 2)."""
    θ1, both = state[..., 0], state[..., 0] + state[..., 1]
    tip = torch.stack((θ1.cos() + both.cos(), θ1.sin() + both.sin()), -1)
    return state[..., 4:] - tip


def _accelerations(θ2: Tensor, ω: Tensor, τ: Tensor) -> Tensor:
    """Return (α1, α2), shape (..., 2), by Cramer's rule."""
    ω1, ω2 = ω.unbind(-1)
    cosine, half_sine = θ2.cos(), θ2.sin() / 2
    push1, push2 = (τ - ω).unbind(-1)
    push1 = push1 + ω2 * (2 * ω1 + ω2) * half_sine
    push2 = push2 - ω1.square() * half_sine
    m1, m2 = 5 / 3 + cosine, 1 / 3 + cosine / 2
    determinant = 4 / 9 - cosine.square() / 4
    return torch.stack((push1 / 3 - m2 * push2, m1 * push2 - m2 * push1), -1) / determinant[..., None]
