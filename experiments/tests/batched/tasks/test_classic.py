"""Classic control on the device, beside Gymnasium's: whole episodes from the same start with the same actions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from popbandits_experiments.batched.tasks import TASKS, Task

EPISODES = 8
TOGETHER = 100
"""Steps after which Gymnasium's state is set to ours.

Left alone, rounding comes to just over 1e-5 in the longest episodes: MountainCarContinuous keeps its state in float32
(after 997 steps), and an unstable motion makes the last bit of a float64 grow exponentially (CartPole after 335).
"""


def stand(seen: Tensor) -> Tensor:
    """Balance a cart's pole, well enough for the time limit; the last episodes run off the track with it."""
    centre = (0.02 * seen[:, 0] + 0.05 * seen[:, 1]) * (torch.arange(EPISODES) < 4)
    return (seen[:, 2] + 0.5 * seen[:, 3] + centre > 0.15 * (torch.arange(EPISODES) >= 4)).long()


SKILLED: dict[str, Callable[[Tensor], Tensor]] = {
    "Pendulum-v1": lambda seen: seen[:, 2:].sign(),
    "Acrobot-v1": lambda seen: 1 + seen[:, 5].sign().long(),
    "CartPole-v1": stand,
    "MountainCar-v0": lambda seen: 1 + seen[:, 1].sign().long(),
    "MountainCarContinuous-v0": lambda seen: seen[:, 1:].sign() * 1.5,
}
"""Policies that gather speed or stay upright: episodes that end otherwise than those of random actions."""
LIMITS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Pendulum-v1": lambda action: 2 * action,  # Gymnasium clips the torque itself
    "MountainCarContinuous-v0": lambda action: np.clip(action, -1, 1),
}
ENDS = {  # The ends that both kinds of episodes must show: (terminated, truncated).
    "Pendulum-v1": {(False, True)},
    "Acrobot-v1": {(True, False), (False, True)},
    "CartPole-v1": {(True, False), (False, True)},
    "MountainCar-v0": {(True, False), (False, True)},
    "MountainCarContinuous-v0": {(True, False), (False, True)},
}


class Replay:
    """Stand for Gymnasium's generator: give the uniform numbers that our start was given."""

    def __init__(self, noise: np.ndarray) -> None:
        self.noise = noise

    def uniform(self, low: Any, high: Any, size: Any = None) -> Any:
        low, high = np.asarray(low), np.asarray(high)
        noise = self.noise if size is not None or low.shape else self.noise[0]
        return low + (high - low) * noise


def begin(name: str, noise: Tensor) -> list[gymnasium.Env[Any, Any]]:
    """Make Gymnasium's environments, with the same starts as ours."""
    environments = []
    for row in noise.numpy():
        environment = gymnasium.make(name, disable_env_checker=True)
        environment.unwrapped.np_random = Replay(row)  # type: ignore[assignment]
        environment.reset()
        environments.append(environment)
    return environments


def choose(task: Task, seen: Tensor, generator: torch.Generator) -> Tensor:
    """Act: at random in one half of the episodes, with skill in the other."""
    if task.discrete:
        action = torch.randint(task.actions, (EPISODES,), generator=generator)
    else:
        action = torch.randn((EPISODES, task.actions), generator=generator, dtype=torch.float64)
    skilled = SKILLED[task.name](seen)
    action[::2] = skilled[::2].to(action.dtype)
    return action


@dataclass
class Trace:
    """What happened to every episode: lists with one entry a step, padded with NaN after an episode's end."""

    states: list[Tensor] = field(default_factory=list)
    actions: list[Tensor] = field(default_factory=list)
    ours: list[Tensor] = field(default_factory=list)
    """Next state, observation, reward and end as one row for each episode."""
    theirs: list[np.ndarray] = field(default_factory=list)
    ends: set[tuple[bool, bool]] = field(default_factory=set)


def play(task: Task) -> Trace:
    """Play whole episodes in both, the same actions in the same states."""
    generator = torch.Generator().manual_seed(1)
    noise = torch.rand((EPISODES, task.start_noise), generator=generator, dtype=torch.float64)
    state, theirs, nothing = task.start(noise), begin(task.name, noise), noise[:, :0]
    np.testing.assert_allclose(state[0], [env.unwrapped.state for env in theirs], atol=1e-7)  # Some are float32.
    trace, alive = Trace(), set(range(EPISODES))
    for step in range(task.limit):
        if step % TOGETHER == 0:
            for environment, row in zip(theirs, state[0].numpy(), strict=True):
                environment.unwrapped.state = row.copy()
        action = choose(task, task.observe(state), generator)
        trace.states.append(state[0])
        trace.actions.append(action)
        state, reward, terminated = task.step(state, action, nothing)
        trace.ours.append(torch.cat((state[0], task.observe(state), reward[:, None], terminated[:, None]), -1))
        rows = np.full(trace.ours[-1].shape, np.nan)
        for i in sorted(alive):
            given = LIMITS[task.name](action[i].numpy()) if task.name in LIMITS else int(action[i])
            seen, their_reward, end, cut, _ = theirs[i].step(given)
            rows[i] = np.concatenate((theirs[i].unwrapped.state, seen, [their_reward, end]))
            assert cut == (step == task.limit - 1)
            if end or cut:
                trace.ends.add((end, cut))
                alive.remove(i)
        trace.theirs.append(rows)
    return trace


@pytest.mark.parametrize("name", ENDS)
def test_whole_episodes_are_gymnasiums(name: str) -> None:
    task = TASKS[name]
    trace = play(task)
    assert trace.ends == ENDS[name]
    ours, theirs = torch.stack(trace.ours).numpy(), np.stack(trace.theirs)
    lived = ~np.isnan(theirs[..., 0])
    np.testing.assert_allclose(ours[lived], theirs[lived], rtol=0, atol=1e-5)
    np.testing.assert_array_equal(ours[lived][:, -1], theirs[lived][:, -1])
    # Every step once more, in the precision that is used, and with another leading shape.
    actions = torch.stack(trace.actions)
    states, nothing = torch.stack(trace.states).float(), torch.empty((task.limit, EPISODES, 0))
    (after,), reward, _ = task.step((states,), actions if task.discrete else actions.float(), nothing)
    rough = torch.cat((after, task.observe((after,)), reward[..., None]), -1)
    assert rough.dtype == torch.float32
    np.testing.assert_allclose(rough[lived], theirs[lived][:, :-1], rtol=1e-5, atol=2e-5)


BOXES = {  # Bounds of states, some of which no episode above comes near.
    "Pendulum-v1": ([-10, -8], [10, 8]),
    "Acrobot-v1": ([-np.pi, -np.pi, -4 * np.pi, -9 * np.pi], [np.pi, np.pi, 4 * np.pi, 9 * np.pi]),
    "CartPole-v1": ([-2.4, -5, -0.2, -5], [2.4, 5, 0.2, 5]),
    "MountainCar-v0": ([-1.2, -0.07], [0.5, 0.07]),
    "MountainCarContinuous-v0": ([-1.2, -0.07], [0.45, 0.07]),
}


@pytest.mark.parametrize("name", BOXES)
def test_a_step_from_anywhere_is_gymnasiums(name: str) -> None:
    task, generator, count = TASKS[name], np.random.default_rng(2), 400
    environment = begin(name, torch.zeros((1, task.start_noise)))[0].unwrapped
    states = generator.uniform(*BOXES[name], (count, len(BOXES[name][0])))
    actions = generator.integers(task.actions, size=count) if task.discrete else generator.uniform(-2, 2, (count, 1))
    nothing = torch.empty((count, 0), dtype=torch.float64)
    (after,), reward, terminated = task.step((torch.from_numpy(states),), torch.from_numpy(actions), nothing)
    theirs = np.empty((count, after.shape[1] + 2))
    for i in range(count):
        environment.reset()
        environment.state = states[i].copy()
        given = LIMITS[name](actions[i]) if name in LIMITS else int(actions[i])
        _, their_reward, end, _, _ = environment.step(given)
        theirs[i] = (*environment.state, their_reward, end)
    ours = torch.cat((after, reward[:, None], terminated[:, None]), -1)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


def test_a_swing_up_is_cart_pole_from_any_angle_with_another_reward() -> None:
    generator = torch.Generator().manual_seed(3)
    states = torch.rand((200, 4), generator=generator, dtype=torch.float64) * 8 - 4
    pushed, nothing = torch.randint(2, (200,), generator=generator), states[:, :0]
    (expected,), _, _ = TASKS["CartPole-v1"].step((states,), pushed, nothing)
    (after,), reward, over = TASKS["SwingUp"].step((states,), 3.0 * (2 * pushed[:, None] - 1), nothing)
    assert torch.equal(after, expected)
    assert torch.equal(over, after[:, 0].abs() > 2.4)
    torch.testing.assert_close(reward, (after[:, 2] / 2).cos() ** 4)


def test_a_pole_to_swing_up_hangs_at_first() -> None:
    task = TASKS["SwingUp"]
    seen = task.observe(task.start(torch.rand((50, 4))))
    assert (seen[:, 2] < -0.998).all()
    assert seen.std(0).min() > 0
