"""The demo's agent: formulas against slow ones, checkpoints to the last bit, hyperparameters where they act."""

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Categorical

from popbandits import rl
from popbandits.engines.making import find_evaluate
from popbandits.errors import ArgumentError
from popbandits.rl.demo import DEFAULTS, evaluate, make_agent, space
from popbandits.rl.ppo import (
    LANDER,
    PPO,
    Loss,
    Minibatch,
    Play,
    RunningScale,
    Settings,
    estimate_advantages,
    make_optimizer,
)
from popbandits.run.recipes import address
from popbandits.space import Space

SHORT = Settings(limit=60, copies=4, rollout=40, updates=2, minibatch=64, episodes=4)
COMMON = {"lr": 1e-3, "clip": 0.2, "entropy": 0.01, "gae_lambda": 0.9, "epochs": 2}
CONFIGS: dict[str, dict[str, Any]] = {
    "adam": {**COMMON, "optimizer": "adam", "beta1": 0.8, "beta2": 0.99},
    "rmsprop": {**COMMON, "optimizer": "rmsprop", "smoothing": 0.95},
    "sgd": {**COMMON, "optimizer": "sgd", "momentum": 0.7},
}


def saved(agent: PPO, directory: Path) -> Path:
    directory.mkdir()
    agent.save(directory)
    return directory


def loaded(directory: Path, seed: int = 99) -> PPO:
    agent = PPO(seed, SHORT)
    agent.load(directory)
    return agent


def weights(agent: PPO) -> list[np.ndarray]:
    return [value.detach().numpy().copy() for value in agent.network.state_dict().values()]


def same(one: PPO, other: PPO) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


# The formulas


def slow_advantage(t: int, rewards: Any, values: Any, terminated: Any, over: Any, gamma: float, lam: float) -> float:
    """The definition, in one environment: the sum over k of (γ λ)^k δ_{t+k} up to the end of the episode."""
    total, weight = 0.0, 1.0
    for k in range(t, len(rewards)):
        after = 0.0 if terminated[k] else values[k + 1]
        total += weight * (rewards[k] + gamma * after - values[k])
        if over[k]:
            break
        weight *= gamma * lam
    return total


def test_advantages_are_those_of_the_definition_also_where_episodes_end_or_are_cut_off() -> None:
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(30, 5)), rng.normal(size=(31, 5))
    over = rng.random((30, 5)) < 0.2
    terminated = over & (rng.random((30, 5)) < 0.5)
    assert (over & ~terminated).any()
    given = [torch.from_numpy(each) for each in (rewards, values, terminated, over)]
    found = estimate_advantages(*given, gamma=0.9, gae_lambda=0.8)
    expected = [
        [slow_advantage(t, rewards[:, n], values[:, n], terminated[:, n], over[:, n], 0.9, 0.8) for n in range(5)]
        for t in range(30)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_loss_is_that_of_the_paper_term_by_term() -> None:
    rng = np.random.default_rng(1)
    preferences, actions = rng.normal(size=(20, 4)), rng.integers(4, size=20)
    values, targets, advantages = rng.normal(size=20), rng.normal(size=20), rng.normal(size=20)
    before = rng.normal(-1.5, 1, size=20)
    clip, entropy, value_weight = 0.2, 0.03, 0.5

    policy = Categorical(logits=torch.from_numpy(preferences))
    ratios = np.exp(policy.log_prob(torch.from_numpy(actions)).numpy() - before)
    assert {ratio > 1 + clip for ratio in ratios} == {ratio < 1 - clip for ratio in ratios} == {True, False}
    mean, deviation = advantages.mean(), advantages.std()
    gain = 0.0
    for ratio, advantage in zip(ratios, (advantages - mean) / deviation, strict=True):
        gain += min(ratio * advantage, max(1 - clip, min(1 + clip, ratio)) * advantage) / 20
    miss = sum((value - target) ** 2 for value, target in zip(values, targets, strict=True)) / 20
    bonus = float(policy.entropy().mean())

    batch = Minibatch(*map(torch.from_numpy, (preferences, actions, before, advantages, targets)))
    loss = Loss(clip, entropy, value_weight)
    found = loss(*map(torch.from_numpy, (preferences, values)), batch)
    assert float(found) == pytest.approx(-gain + value_weight * miss / 2 - entropy * bonus, rel=1e-6)


def test_a_scale_has_the_mean_and_deviation_of_everything_it_took_in() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal([3.0, -100.0], [0.1, 20.0], size=(500, 2))
    scale = RunningScale(2)
    for part in np.array_split(rows, 7):
        scale.update(torch.from_numpy(part))
    # It begins as if it had seen a row of mean 0 and deviation 1.
    mean = rows.sum(0) / 501
    np.testing.assert_allclose(scale.mean, mean)
    np.testing.assert_allclose(scale.deviation**2, (1 + mean**2 + ((rows - mean) ** 2).sum(0)) / 501)


FALLING = Settings(limit=30)
"""Too short for the lander to reach the ground: only the time limit ends an episode."""


def test_the_step_in_which_an_episode_only_begins_is_no_experience() -> None:
    play = Play(FALLING, 2, torch.Generator().manual_seed(0))
    steps = [play.step(torch.zeros(2, dtype=torch.int64)) for _ in range(62)]
    assert [t for t, step in enumerate(steps) if step.over.all()] == [29, 60]
    assert [t for t, step in enumerate(steps) if not step.real.all()] == [30, 61]
    assert not any(step.terminated.any() for step in steps)


def test_an_evaluation_is_the_mean_return_of_one_episode_in_each_environment() -> None:
    agent, generator = PPO(0, FALLING), torch.Generator().manual_seed(3)
    play = Play(FALLING, 5, generator)
    steps = [play.step(agent.network.act(agent.network.see(play.observations), generator)) for _ in range(30)]
    expected = sum(float(step.rewards.sum()) for step in steps) / 5
    assert agent.evaluate(5, seed=3) == pytest.approx(expected, rel=1e-5)
    assert find_evaluate(agent) is not None


def test_the_discounted_return_begins_anew_with_each_episode() -> None:
    play = Play(FALLING, 1, torch.Generator().manual_seed(0))
    steps = [play.step(torch.zeros(1, dtype=torch.int64), gamma=0.5) for _ in range(33)]
    rewards = [step.rewards[0] for step in steps]
    assert steps[2].discounted[0] == pytest.approx(rewards[0] / 4 + rewards[1] / 2 + rewards[2], rel=1e-5)
    assert steps[32].discounted[0] == pytest.approx(rewards[31] / 2 + rewards[32], rel=1e-5)


# The contract


@pytest.mark.parametrize("optimizer", CONFIGS)
def test_a_loaded_agent_goes_on_to_the_last_bit_as_one_that_was_never_saved(optimizer: str, tmp_path: Path) -> None:
    going_on = PPO(0, SHORT)
    going_on.train(CONFIGS[optimizer])
    other = loaded(saved(going_on, tmp_path / "a"))
    assert same(going_on, other)
    for config in (CONFIGS[optimizer] | {"lr": 3e-4}, CONFIGS["adam"]):
        assert going_on.train(config) == other.train(config)
        assert same(going_on, other)


def test_loading_into_a_used_agent_leaves_nothing_of_what_it_was(tmp_path: Path) -> None:
    parent = PPO(0, SHORT)
    parent.train(CONFIGS["adam"])
    checkpoint = saved(parent, tmp_path / "parent")
    used = PPO(1, SHORT)
    used.train(CONFIGS["sgd"])
    used.load(checkpoint)
    assert used.train(CONFIGS["sgd"]) == loaded(checkpoint).train(CONFIGS["sgd"])
    assert used.steps == 2 * parent.steps


def test_agents_of_different_seeds_differ_and_agents_of_one_seed_do_not() -> None:
    agents = [PPO(seed, SHORT) for seed in (0, 0, 1)]
    outcomes = [agent.train(CONFIGS["adam"]) for agent in agents]
    assert outcomes[0] == outcomes[1] != outcomes[2]
    assert same(agents[0], agents[1])


def test_the_first_agent_of_a_process_is_like_those_after_it() -> None:
    # In a process of its own, where PyTorch begins with more threads than one.
    script = """
import torch
from popbandits.rl.ppo import PPO
states = [PPO(0).network.state_dict() for _ in range(2)]
assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_training_leaves_the_library_that_multiplies_as_it_was() -> None:
    used = []

    class Watched(PPO):
        def _learn(self, rollout: Any) -> None:
            used.append(torch.backends.mkldnn.set_flags(False)[0])
            super()._learn(rollout)

    Watched(0, SHORT).train(CONFIGS["adam"])
    assert set(used) == {False}
    assert torch.backends.mkldnn.set_flags(True)[0] is True


def test_neither_building_nor_training_touches_the_global_generator() -> None:
    before = torch.random.get_rng_state()
    PPO(0, SHORT).train(CONFIGS["adam"])
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("optimizer", CONFIGS)
def test_what_is_applied_is_what_was_asked_for(optimizer: str) -> None:
    agent = PPO(0, SHORT)
    agent.train(CONFIGS[optimizer])
    assert agent.applied() == CONFIGS[optimizer]


def test_what_is_applied_is_read_from_the_optimizer_and_the_loss() -> None:
    agent = PPO(0, SHORT)
    agent.train(CONFIGS["adam"])
    agent.optimizer.param_groups[0].update(lr=0.5, betas=(0.1, 0.2))
    agent.loss = Loss(clip=0.9, entropy=0.8, value_weight=0.5)
    wrong = {"lr": 0.5, "beta1": 0.1, "beta2": 0.2, "clip": 0.9, "entropy": 0.8}
    assert agent.applied() == CONFIGS["adam"] | wrong


@pytest.mark.parametrize("optimizer", CONFIGS)
def test_hyperparameters_do_not_come_out_of_a_checkpoint(optimizer: str, tmp_path: Path) -> None:
    changes = {name: value / 2 for name, value in CONFIGS[optimizer].items() if isinstance(value, float)}
    parent = PPO(0, SHORT)
    parent.train(CONFIGS[optimizer])
    child = loaded(saved(parent, tmp_path / "a"))
    child.train(CONFIGS[optimizer] | changes)
    assert child.applied() == CONFIGS[optimizer] | changes


def test_an_optimizer_keeps_its_moments_only_as_long_as_its_kind_stays(tmp_path: Path) -> None:
    agent = PPO(0, SHORT)
    agent.train(CONFIGS["adam"])
    count = float(agent.optimizer.state[agent.weights[0]]["step"])
    assert count > 0
    checkpoint = saved(agent, tmp_path / "a")
    stayed = loaded(checkpoint)
    stayed.train(CONFIGS["adam"])
    assert float(stayed.optimizer.state[stayed.weights[0]]["step"]) == 2 * count
    moved = loaded(checkpoint)
    moved.train(CONFIGS["sgd"])
    assert set(moved.optimizer.state[moved.weights[0]]) == {"momentum_buffer"}
    moved.train(CONFIGS["adam"])
    assert float(moved.optimizer.state[moved.weights[0]]["step"]) == count


def test_an_optimizer_nobody_knows_is_refused() -> None:
    with pytest.raises(ArgumentError, match="optimizer must be adam, rmsprop or sgd, got 'lion'"):
        make_optimizer(PPO(0, SHORT).weights, {"optimizer": "lion"})


def test_an_agent_whose_weights_are_no_numbers_has_failed() -> None:
    agent = PPO(0, SHORT)
    assert math.isfinite(agent.train(CONFIGS["adam"]).score)
    assert math.isnan(agent.train(CONFIGS["sgd"] | {"lr": math.inf}).score)


# The task


def test_every_configuration_of_the_demo_trains(tmp_path: Path) -> None:
    whole = Space(space())
    agent = PPO(0, SHORT)
    for config in whole.decode(whole.sample(8, np.random.default_rng(0))):
        agent.train(config)
        assert agent.applied() == config


def test_the_usual_settings_are_in_the_space() -> None:
    Space(space()).check(DEFAULTS)


def test_learning_beats_an_untrained_policy(tmp_path: Path) -> None:
    agent = make_agent(0)
    before = evaluate(saved(agent, tmp_path / "before"), episodes=64)
    for _ in range(2):
        outcome = agent.train(DEFAULTS | {"lr": 1e-3})
    assert 0.9 * LANDER.copies * LANDER.rollout * LANDER.updates < outcome.steps
    after = evaluate(saved(agent, tmp_path / "after"), episodes=64)
    assert after > before + 50


def test_an_evaluation_depends_on_the_checkpoint_and_the_seed_alone(tmp_path: Path) -> None:
    checkpoint = saved(make_agent(0), tmp_path / "a")
    first, again, other = (evaluate(checkpoint, episodes=8, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("package", ["torch", "envpool"])
def test_without_its_packages_the_extra_to_install_is_named(package: str) -> None:
    script = f"import sys; sys.modules[{package!r}] = None; import popbandits.rl"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert f"MissingExtraError: popbandits.rl needs {package}; pip install 'popbandits[rl]'" in run.stderr


def test_the_agents_that_any_record_may_name_are_where_it_says() -> None:
    assert {("import", address(make_agent)), ("import", address(PPO))} == rl.AGENTS
