"""Reach on the device, beside NumPy's solution of its equations, and its energy beside that of two rods."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from popbandits_experiments.batched.tasks import TASKS, State
from popbandits_experiments.ground.scales import scale_of

TASK = TASKS["Reach"]
EPISODES = 50


def begin(episodes: int = EPISODES) -> State:
    noise = torch.rand((episodes, 4), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return TASK.start(noise)


def step(state: State, action: Tensor) -> tuple[State, Tensor, Tensor]:
    return TASK.step(state, action, torch.empty(len(action), 0))


def inertia(elbow: float) -> np.ndarray:
    """Return the inertia matrix of two uniform rods of mass and length 1, from the speeds of their centres."""
    about_end = 1 / 3
    coupled = about_end + math.cos(elbow) / 2
    return np.array([[about_end + 1 + math.cos(elbow) + about_end, coupled], [coupled, about_end]])


def plain_step(state: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, float]:
    θ, ω, target = state[:2].copy(), state[2:4].copy(), state[4:]
    action = np.clip(action, -1, 1)
    turning = 0.5 * math.sin(θ[1]) * np.array([ω[1] * (2 * ω[0] + ω[1]), -(ω[0] ** 2)])
    ω += 0.05 * np.linalg.solve(inertia(θ[1]), 3 * action - ω + turning)
    θ += 0.05 * ω
    tip = np.array([math.cos(θ[0]) + math.cos(θ.sum()), math.sin(θ[0]) + math.sin(θ.sum())])
    reward = -float(np.linalg.norm(target - tip)) - 0.01 * float(action @ action)
    return np.concatenate((θ, ω, target)), reward


def test_every_step_is_numpys() -> None:
    state, generator = begin(), torch.Generator().manual_seed(1)
    for _ in range(TASK.limit):
        action = 3 * torch.rand((EPISODES, 2), generator=generator, dtype=torch.float64) - 1.5
        before = state[0].numpy()
        state, reward, over = step(state, action)
        pairs = [plain_step(*both) for both in zip(before, action.numpy(), strict=True)]
        assert state[0].numpy() == pytest.approx(np.array([after for after, _ in pairs]), abs=1e-12)
        assert reward.numpy() == pytest.approx(np.array([worth for _, worth in pairs]), abs=1e-12)
        assert not over.any()


def test_only_torques_and_damping_change_the_energy() -> None:
    """Compare the power of torques and damping with the derivative of the energy, by central differences."""
    generator = torch.Generator().manual_seed(2)
    draws = 2 * torch.rand((EPISODES, 8), generator=generator, dtype=torch.float64) - 1
    state, action = torch.cat((3 * draws[:, :4], draws[:, 4:6]), -1), draws[:, 6:]
    (after,), _, _ = step((state,), action)
    for old, new, torque in zip(state.numpy(), after.numpy(), 3 * action.numpy(), strict=True):
        θ, ω = old[:2], old[2:4]
        α = (new[2:4] - ω) / 0.05
        soon, before = (energy(θ + time * ω, ω + time * α) for time in (1e-6, -1e-6))
        assert (soon - before) / 2e-6 == pytest.approx(float((torque - ω) @ ω), abs=1e-6)


def energy(θ: np.ndarray, ω: np.ndarray) -> float:
    return float(ω @ inertia(θ[1]) @ ω) / 2


def test_bang_bang_torques_cannot_make_the_arm_spin_out_of_control() -> None:
    for hold in (1, 5, 50):
        state, generator = begin(2000), torch.Generator().manual_seed(hold)
        for time in range(TASK.limit):
            if time % hold == 0:
                action = 2.0 * torch.randint(2, (2000, 2), generator=generator) - 1
            state, _, _ = step(state, action)
            assert state[0][:, 2:4].abs().max() < 8


def test_a_start_is_at_rest_with_its_target_within_reach() -> None:
    (state,) = begin(5000)
    assert state[:, :2].abs().max() <= 0.1
    assert not state[:, 2:4].any()
    radius = state[:, 4:].norm(dim=-1)
    assert radius.max() <= 1.8
    assert float((radius < 0.9).double().mean()) == pytest.approx(1 / 4, abs=0.03)  # The disc is filled evenly.
    assert state[:, 4:].mean(0).tolist() == pytest.approx([0, 0], abs=0.06)


def test_an_arm_sees_its_angles_speeds_target_and_the_way_to_it() -> None:
    seen = TASK.observe((torch.tensor([[math.pi / 2, -math.pi / 2, 0.3, -0.4, 0.5, 0.7]]),))
    assert seen[0].tolist() == pytest.approx([0, 0, 1, -1, 0.3, -0.4, 0.5, 0.7, -0.5, -0.3], abs=1e-6)


def test_a_plain_controller_comes_to_what_solved_says() -> None:
    """A spring and a damper draw each joint to its angle at the target, with the elbow bent inwards or outwards."""
    worth = torch.maximum(reach(1.0), reach(-1.0)).mean()
    assert float(worth) == pytest.approx(-44, abs=1)
    assert float(worth) > scale_of("Reach").solved


def reach(bend: float) -> Tensor:
    state = begin(20_000)
    x, y = state[0][:, 4:].unbind(-1)
    elbow = bend * torch.acos((x**2 + y**2 - 2) / 2)
    shoulder = torch.atan2(y, x) - elbow / 2
    shoulder = torch.remainder(shoulder + math.pi, 2 * math.pi) - math.pi
    aim, total = torch.stack((shoulder, elbow), -1), torch.zeros(20_000)
    for _ in range(TASK.limit):
        pull = 10 * (aim - state[0][:, :2]) - 3 * state[0][:, 2:4]
        state, reward, _ = step(state, pull * torch.tensor([1.0, 0.3]))
        total = total + reward
    return total
