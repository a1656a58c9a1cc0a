"""A cart that swings its pole up and balances it: CartPole's physics, from below."""

import math

import torch
from torch import Tensor

from popbandits_experiments.batched.tasks.cartpole import FORCE, MAX_POSITION, STEP, accelerations
from popbandits_experiments.batched.tasks.task import State, Task


class SwingUp(Task):
    """Swing a pole up; the state is (position, speed, angle, angular speed), an action a the force 10 clip(a, -1, 1).

    Angles are 0 upright. The reward is ((1 + cos angle) / 2)², so that swinging wildly earns little.
    """

    name = "SwingUp"
    observation = (5,)
    actions = 1
    discrete = False
    limit = 500
    start_noise = 4
    step_noise = 0
    random_score = 5.7
    solved = 350.0  # Upright after 150 steps, three seconds.

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
        _, speed, angle, turning = state[0].unbind(-1)
        drive, spin = accelerations(angle, turning, FORCE * action[..., 0].clamp(-1, 1))
        moved = torch.add(state[0], torch.stack((speed, drive, turning, spin), -1), alpha=STEP)
        reward = ((1 + moved[..., 2].cos()) / 2).square()
        return (moved,), reward, moved[..., 0].abs() > MAX_POSITION
