"""What every task on the device promises: shapes, types, purity, one graph; and its random score."""

import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from popbandits_experiments.batched.tasks import TASKS, State, Task
from popbandits_experiments.ground.scales import scale_of

LEADING = (3, 2)
KERNELS = {
    "Pendulum-v1": 25,
    "Acrobot-v1": 118,
    "CartPole-v1": 26,
    "MountainCar-v0": 17,
    "MountainCarContinuous-v0": 19,
    "SwingUp": 29,
    "Detour": 23,
    "Reach": 59,
    "FrozenLake8x8-v1": 33,
    "Taxi-v4": 98,
    "CliffWalking-v1": 31,
    "KeyDoor": 55,
    "Breakout-MinAtar": 55,
    "Asterix-MinAtar": 74,
    "SpaceInvaders-MinAtar": 83,
    "Freeway-MinAtar": 63,
    "Seaquest-MinAtar": 365,
}
"""Kernels that a step and its observation may take, if nothing compiles them into fewer."""
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


def act_randomly(task: Task, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    if task.discrete:
        return torch.randint(task.actions, shape, generator=generator)
    return 2 * torch.rand((*shape, task.actions), generator=generator) - 1


def arguments(task: Task, generator: torch.Generator) -> tuple[State, Tensor, Tensor]:
    """Make what a step needs: a state some steps into an episode, an action and noise."""
    state = task.start(torch.rand((*LEADING, task.start_noise), generator=generator))
    for _ in range(13):
        action = act_randomly(task, LEADING, generator)
        state, _, _ = task.step(state, action, torch.rand((*LEADING, task.step_noise), generator=generator))
    return state, act_randomly(task, LEADING, generator), torch.rand((*LEADING, task.step_noise), generator=generator)


def random_returns(task: Task, episodes: int) -> Tensor:
    """Play one episode each with uniform random actions, cut at the limit; return what they came to."""
    generator = torch.Generator().manual_seed(0)
    state = task.start(torch.rand((episodes, task.start_noise), generator=generator))
    total, alive = torch.zeros(episodes), torch.ones(episodes, dtype=torch.bool)
    for _ in range(task.limit):
        action = act_randomly(task, (episodes,), generator)
        state, reward, terminated = task.step(
            state, action, torch.rand((episodes, task.step_noise), generator=generator)
        )
        total += reward * alive
        alive &= ~terminated
        if not alive.any():
            break
    return total


@every_task
def test_the_random_score_is_what_random_actions_come_to(task: Task) -> None:
    returns = random_returns(task, episodes=300)
    error = float(returns.std()) / math.sqrt(len(returns))
    scale = scale_of(re.sub(r"(8x8)?-v\d$", "", task.name.replace("-MinAtar", "-1M")))
    assert scale.random == pytest.approx(float(returns.mean()), abs=4 * error + 0.05)
    assert scale.solved > scale.random + 10 * error


@every_task
def test_shapes_and_types_are_the_contracts(task: Task) -> None:
    for dtype in (torch.float32, torch.float64):
        state = task.start(torch.rand((*LEADING, task.start_noise), dtype=dtype))
        action = act_randomly(task, LEADING, torch.Generator())
        action = action if task.discrete else action.to(dtype)
        after, reward, terminated = task.step(state, action, torch.rand((*LEADING, task.step_noise), dtype=dtype))
        assert [(part.shape, part.dtype) for part in after] == [(part.shape, part.dtype) for part in state]
        assert {part.shape[:2] for part in after} == {LEADING}
        assert all(part.is_contiguous() for part in (*state, *after))
        assert task.observe(state).shape == (*LEADING, *task.observation)
        assert task.observe(state).dtype == reward.dtype == dtype
        assert reward.shape == terminated.shape == LEADING
        assert terminated.dtype == torch.bool


@every_task
def test_a_step_changes_nothing_it_was_given(task: Task) -> None:
    state, action, noise = arguments(task, torch.Generator().manual_seed(2))
    before = [part.clone() for part in (*state, action, noise)]
    seen = task.observe(state)
    task.step(state, action, noise)
    assert all(torch.equal(a, b) for a, b in zip(before, (*state, action, noise), strict=True))
    assert torch.equal(seen, task.observe(state))


@every_task
def test_an_environment_does_the_same_alone_and_in_company(task: Task) -> None:
    state, action, noise = arguments(task, torch.Generator().manual_seed(3))
    after, reward, terminated = task.step(state, action, noise)
    alone, its_reward, its_end = task.step(tuple(part[1, 1] for part in state), action[1, 1], noise[1, 1])
    assert all(torch.equal(a[1, 1], b) for a, b in zip(after, alone, strict=True))
    assert (its_reward, its_end) == (reward[1, 1], terminated[1, 1])


class Kernels(TorchDispatchMode):
    """Record the operations that compute something, that is, all but views."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.devices: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        made = result if isinstance(result, list | tuple) else (result,)
        self.devices |= {part.device.type for part in (*args, *made) if isinstance(part, Tensor)}
        if not func.is_view:
            self.names.append(str(func))
        return result


@every_task
def test_a_step_reads_nothing_back_and_is_few_kernels(task: Task) -> None:
    """Tensors without data refuse to be read; a constant sent to the device would show the device it came from."""
    noise = torch.empty((*LEADING, task.start_noise), device="meta")
    step_noise = torch.empty((*LEADING, task.step_noise), device="meta")
    action = act_randomly(task, LEADING, torch.Generator()).to("meta")
    with Kernels() as kernels:
        state = task.start(noise)
        kernels.names.clear()
        state, _, _ = task.step(state, action, step_noise)
        task.observe(state)
    assert kernels.devices == {"meta"}
    assert len(kernels.names) <= KERNELS[task.name], kernels.names
