"""Rollouts and fresh episodes in EnvPool, beside one pool for each environment, stepped by hand."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import envpool
import numpy as np
import pytest
import torch
from torch import Tensor

from popbandits.errors import ArgumentError
from popbandits_experiments.batched.brains import Brains
from popbandits_experiments.batched.pools import PoolWorld, _Pool
from popbandits_experiments.batched.ppo import BatchedPPO, Settings
from popbandits_experiments.batched.random import Streams, keys_of
from popbandits_experiments.batched.rollouts import Rollout
from popbandits_experiments.batched.spaces import DEFAULTS

# EnvPool's specification of classic control, in double precision, is not what Gymnasium likes.
pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered by casting to float32")
CPU = torch.device("cpu")
MEMBERS, COPIES, STEPS = 2, 3, 20
LIMITS = {"CartPole-v1": 25, "LunarLanderContinuous-v3": 15}
SINGLE = torch.finfo(torch.float32).eps
"""Spacing of float32 numbers around 1: twice the error of one rounding."""


def make(name: str, threads: int = 1) -> tuple[PoolWorld, Brains]:
    world = PoolWorld(name, LIMITS[name], threads)
    brains = Brains(MEMBERS, world.inputs, world.actions, world.discrete, 8, CPU)
    brains.flat.copy_(brains.draw(Streams(keys_of(range(MEMBERS), CPU))))
    return world, brains


class ByHand:
    """One environment in a pool of its own, whose episodes EnvPool replaces: by one more step, its action ignored."""

    def __init__(self, name: str, seed: int):
        self.pool = envpool.make_gymnasium(name, num_envs=1, seed=[seed], max_episode_steps=LIMITS[name])
        self.seen = self.pool.reset()[0][0].astype(np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool]:
        """Act; what follows, the reward, terminated and truncated."""
        observations, rewards, terminated, truncated, _ = self.pool.step(action)
        self.seen = observations[0].astype(np.float32)
        following = self.seen.copy()
        if terminated[0] or truncated[0]:
            self.seen = self.pool.step(action)[0][0].astype(np.float32)
        return following, float(rewards[0]), bool(terminated[0]), bool(truncated[0])


def as_taken(action: Tensor) -> Any:
    """Give EnvPool an action: numbers are cut to [-1, 1]."""
    return np.array([int(action)], dtype=np.int32) if action.ndim == 0 else action.clamp(-1, 1).numpy()[None]


def environments(name: str, streams: Streams) -> list[list[ByHand]]:
    seeds = (streams.uniform(COPIES) * 2**24).long().tolist()
    return [[ByHand(name, seed) for seed in row] for row in seeds]


@pytest.mark.parametrize(("name", "threads"), [("CartPole-v1", 1), ("CartPole-v1", 2), ("LunarLanderContinuous-v3", 1)])
def test_two_rollouts_are_those_of_the_same_environments_stepped_by_hand(name: str, threads: int) -> None:
    world, brains = make(name, threads)
    gamma = torch.tensor([[0.9], [0.7]])
    rollout = Rollout.empty(brains, STEPS, COPIES)
    play = world.play(brains, gamma, rollout, None)
    streams, again = (Streams(keys_of([5, 6], CPU)) for _ in range(2))
    play.begin(streams)
    hands = environments(name, again)
    totals, sizes = ([[0.0] * COPIES for _ in range(MEMBERS)] for _ in range(2))
    ends = {"terminated": 0, "truncated": 0}
    for _ in range(2):
        play.collect(streams)
        noise = brains.noise(again, STEPS, COPIES)
        for i in range(MEMBERS):
            for n in range(COPIES):
                for t in range(STEPS):
                    hand, discount = hands[i][n], float(gamma[i, 0])
                    assert rollout.observations[i, t, n].tolist() == hand.seen.tolist()
                    action = rollout.actions[i, t, n]
                    following, reward, terminated, truncated = hand.step(as_taken(action))
                    assert rollout.following[i, t, n].tolist() == following.tolist()
                    assert float(rollout.rewards[i, t, n]) == pytest.approx(reward, rel=1e-6)
                    assert bool(rollout.terminated[i, t, n]) == terminated
                    assert bool(rollout.over[i, t, n]) == (terminated or truncated)
                    total = totals[i][n] * discount + reward
                    size = sizes[i][n] * discount + abs(reward)
                    # Rewards of both signs cancel, so that an error is small beside their sizes, not beside their sum:
                    # each step of an episode rounds its product and its sum, by at most SINGLE of the size together.
                    bound = (LIMITS[name] + 1) * SINGLE * size
                    assert float(rollout.discounted[i, t, n]) == pytest.approx(total, rel=0, abs=bound)
                    over = terminated or truncated
                    totals[i][n], sizes[i][n] = (0.0, 0.0) if over else (total, size)
                    ends["terminated"] += terminated
                    ends["truncated"] += truncated and not terminated
        with torch.no_grad():
            outputs = brains.policy(brains.see(rollout.observations.flatten(1, 2)))
            actions = brains.act(outputs, noise.flatten(1, 2)).view_as(rollout.actions)
        torch.testing.assert_close(rollout.actions, actions, rtol=1e-4, atol=1e-5)
    assert ends["truncated"] > 0
    assert (ends["terminated"] > 0) == world.discrete


@pytest.mark.parametrize(("name", "threads"), [("CartPole-v1", 2), ("LunarLanderContinuous-v3", 1)])
def test_returns_of_fresh_episodes_are_those_of_the_same_environments_stepped_by_hand(name: str, threads: int) -> None:
    world, brains = make(name, threads)
    found = world.test(brains, COPIES, None)(Streams(keys_of([5, 6], CPU)))
    streams = Streams(keys_of([5, 6], CPU))
    hands = environments(name, streams)
    totals = torch.zeros(MEMBERS, COPIES)
    going_on = {(i, n) for i in range(MEMBERS) for n in range(COPIES)}
    lengths = []
    while going_on:
        seen = torch.tensor(np.array([[hand.seen for hand in row] for row in hands]))
        noise = brains.noise(streams, COPIES)
        with torch.no_grad():
            outputs = brains.policy(brains.see(seen))
            actions = brains.act(outputs, noise) if world.discrete else outputs
        for i, n in sorted(going_on):
            _, reward, terminated, truncated = hands[i][n].step(as_taken(actions[i, n]))
            totals[i, n] += reward
            if terminated or truncated:
                going_on.remove((i, n))
        lengths.append(len(going_on))
    torch.testing.assert_close(found, totals, rtol=1e-5, atol=1e-5)
    assert (len(set(lengths)) > 2) == world.discrete  # ends at different times


def test_a_task_has_the_sizes_of_its_environments() -> None:
    pole, lander = PoolWorld("CartPole-v1", 10), PoolWorld("LunarLanderContinuous-v3", 10)
    assert (pole.inputs, pole.actions, pole.discrete) == (4, 2, True)
    assert (lander.inputs, lander.actions, lander.discrete) == (8, 2, False)


@pytest.mark.parametrize("name", LIMITS)
def test_a_member_that_diverged_does_not_disturb_the_pool_that_all_share(name: str) -> None:
    settings = Settings(copies=4, rollout=8, updates=1, episodes=2, hidden=8)
    config = {**DEFAULTS, "epochs": 1}
    sound, ill = (BatchedPPO([1, 2, 3], PoolWorld(name, LIMITS[name]), settings) for _ in range(2))
    ill.state["weights"][1] = torch.nan
    expected, found = sound.train([config] * 3), ill.train([config] * 3)
    assert (found[0], found[2]) == (expected[0], expected[2])
    assert np.isnan(found[1].score)
    assert all(torch.equal(ill.state[name][[0, 2]], sound.state[name][[0, 2]]) for name in sound.state)
    assert ill.rollout.observations.isfinite().all()


ONE_ROLLOUT = Settings(copies=4, rollout=8, updates=1, episodes=2, hidden=8)


def test_intervals_of_one_rollout_are_one_interval_of_as_many_through_envpool() -> None:
    whole, parts = (
        BatchedPPO([3, 4], PoolWorld("CartPole-v1", 25), replace(ONE_ROLLOUT, updates=updates)) for updates in (6, 1)
    )
    configs = [{**DEFAULTS, "epochs": 2}, {**DEFAULTS, "epochs": 1, "lr": 1e-2}]
    scores = whole.train(configs)
    for _ in range(6):
        last = parts.train(configs)
    assert all(torch.equal(whole.state[name], parts.state[name]) for name in whole.state if name != "interval")
    assert all(
        torch.equal(one, other)
        for one, other in zip(vars(whole.rollout).values(), vars(parts.rollout).values(), strict=True)
    )
    assert [outcome.score for outcome in scores] == [outcome.score for outcome in last]


@pytest.mark.parametrize("how", ["copied", "fresh", "earlier"])
def test_only_members_with_another_state_get_new_episodes(how: str, tmp_path: Path) -> None:
    agent, configs = BatchedPPO([3, 4, 5], PoolWorld("CartPole-v1", 500), ONE_ROLLOUT), [DEFAULTS] * 3
    agent.train(configs)
    agent.save(1, tmp_path)
    agent.train(configs)
    out = agent.rollout
    on = ~out.over[:, -1]  # (members, environments): episodes that are not over
    ended = out.following[:, -1].clone()
    if how == "copied":
        agent.copy([0, 0, 2])
    elif how == "fresh":
        agent.reset(1, 9)
    else:
        agent.load(1, tmp_path)
    agent.train(configs)
    begun = out.observations[:, 0]
    for member in (0, 2):
        assert on[member].any()
        assert torch.equal(begun[member, on[member]], ended[member, on[member]])
    assert (begun[1].abs() <= 0.05).all()  # where episodes of the pole begin
    assert (out.discounted[1, 0] == 1).all()
    assert (out.discounted[0, 0, on[0]] > 1).all()


def test_actions_between_minus_one_and_one_fill_the_range_of_the_task() -> None:
    pool = _Pool(PoolWorld("Pendulum-v1", 200), 3, Streams(keys_of([1, 2], CPU)), CPU)
    before = pool.observe()
    actions = torch.tensor([-2.0, -1.0, 0.0, 0.25, 1.0, math.nan]).view(2, 3, 1)
    after, *_ = pool.step(actions)
    torque = torch.tensor([-2.0, -2.0, 0.0, 0.5, 2.0, 0.0]).view(2, 3)
    speed = before[..., 2] + 0.05 * (15 * before[..., 1] + 3 * torque)
    torch.testing.assert_close(after[..., 2], speed, rtol=1e-4, atol=1e-4)


def test_a_task_whose_actions_have_different_bounds_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"the same bounds, -a and a, got CarRacing-v3, whose actions are between"):
        PoolWorld("CarRacing-v3", 200)
