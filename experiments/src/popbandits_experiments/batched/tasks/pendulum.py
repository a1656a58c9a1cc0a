"""Gymnasium's Pendulum-v1: swing a rod up and hold it there."""

import math

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.task import State, Task

GRAVITY, STEP, MAX_SPEED, MAX_TORQUE = 10.0, 0.05, 8.0, 2.0


class Pendulum(Task):
    """Swing a rod up; the state is (angle, speed), an action a means the torque clip(2a, -2, 2).

    Gymnasium registers no threshold. PPO reaches -172 in rl-baselines3-zoo (benchmark.md).
    """

    name = "Pendulum-v1"
    observation = (3,)
    actions = 1
    discrete = False
    limit = 200
    start_noise = 2

    def start(self, noise: Tensor) -> State:
        """Start at any angle, with a speed of up to one radian a second."""
        signed = 2 * noise - 1
        return (torch.stack((math.pi * signed[..., 0], signed[..., 1]), -1),)

    def observe(self, state: State) -> Tensor:
        """Return the angle's cosine and sine, and the speed."""
        angle, speed = state[0].unbind(-1)
        return torch.stack((angle.cos(), angle.sin(), speed), -1)

    def step(self, state: State, action: Tensor, noise: Tensor) -> tuple[State, Tensor, Tensor]:
        """Turn for 0.05 s; the reward penalises angle, speed and torque from before the step."""
        angle, speed = state[0].unbind(-1)
        torque = (MAX_TORQUE * action[..., 0]).clamp(-MAX_TORQUE, MAX_TORQUE)
        upright = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi
        cost = upright.square() + 0.1 * speed.square() + 0.001 * torque.square()
        force = (1.5 * GRAVITY) * angle.sin() + 3 * torque
        speed = torch.add(speed, force, alpha=STEP).clamp(-MAX_SPEED, MAX_SPEED)
        angle = torch.add(angle, speed, alpha=STEP)
        return (torch.stack((angle, speed), -1),), -cost, torch.zeros_like(cost, dtype=torch.bool)
