"""Shared experience: beside a plain agent that loops over the others, and what sharing must leave as it is."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from experiments.tests.batched.plain import PlainPPO, Scripted, Steps, normalise
from experiments.tests.batched.tasks.test_tasks import Kernels
from experiments.tests.batched.test_learner import ACTIONS, COPIES, LENGTH, SETTINGS, make_configs, make_rollouts
from experiments.tests.batched.test_population import CONFIG, KINDS, SHORT, WORLDS, same, state_of
from experiments.tests.batched.test_tuned import Stop, run
from popbandits import resume
from popbandits.errors import ArgumentError
from popbandits_experiments.batched.ppo import _ORDERS, BatchedPPO
from popbandits_experiments.batched.random import Streams, derive_keys
from popbandits_experiments.batched.sharing import Sharing, SharingPPO

ONE_WORLD = [name if name == "choices" else pytest.param(name, marks=pytest.mark.slow) for name in WORLDS]
"""Both kinds of actions, of which one is for `make test-slow`."""

SIZE = 3


class PlainSharing(PlainPPO):
    """One agent that also learns from the rollouts of others."""

    weights_below_one = 0

    def listen(self, others: Sequence[Steps], behaviours: Sequence[Tensor], samples: Sequence[Tensor]) -> None:
        """Take the others' rollouts, the log-probabilities of who acted, and what to sample of them each epoch."""
        gamma, rows = 1 - self.config["one_minus_gamma"], []
        for steps, behaviour in zip(others, behaviours, strict=True):
            with torch.no_grad():
                seen, following = self._see(steps["observations"].double()), self._see(steps["following"].double())
                values, after = self.critic(seen).squeeze(-1), self.critic(following).squeeze(-1)
                before = self._policy_of(seen).log_prob(steps["actions"])
            weights = torch.exp(before - behaviour).clamp(max=1.0)
            columns = (seen, steps["actions"], before, values, after, weights, steps["rewards"], steps["terminated"])
            rows.append([column.flatten(0, 1) for column in columns])
        self.heard = [torch.cat(column) for column in zip(*rows, strict=True)]
        self.gamma, self.samples = gamma, list(samples)

    def log_probabilities(self, steps: Steps) -> Tensor:
        with torch.no_grad():
            found: Tensor = self._policy_of(self._see(steps["observations"].double())).log_prob(steps["actions"])
        return found

    def update(self, steps: Steps, orders: Sequence[Tensor]) -> None:
        parts = self.config["minibatches"]
        self.minibatches = [chosen for sample in self.samples[: len(orders)] for chosen in sample.chunk(parts)]
        super().update(steps, orders)

    def _step(self, *transitions: Tensor) -> None:
        seen, actions, before, values, after, weights, rewards, terminated = self.heard
        scale = 1.0 if self.raw else self.rewarded.deviation
        targets = rewards / scale + self.gamma * torch.where(terminated, 0.0, after)
        advantages = targets - values
        config, chosen = self.config, self.minibatches.pop(0)
        if config["advantages"] == "rollout":
            advantages = normalise(advantages)
        advantages = advantages[chosen]
        if config["advantages"] == "minibatch":
            advantages = normalise(advantages)
        weights, clip = weights[chosen], config["clip"]
        ratio = weights * (self._policy_of(seen[chosen]).log_prob(actions[chosen]) - before[chosen]).exp()
        bounded = torch.min(torch.max(ratio, weights * (1 - clip)), weights * (1 + clip))
        gain = torch.min(ratio * advantages, bounded * advantages).mean()
        miss = (weights * self._miss(seen[chosen], targets[chosen], values[chosen])).mean()
        self.weights_below_one += int((weights < 1).sum())
        self._descend(self._loss(*transitions) - gain + config["vf_coef"] * 0.5 * miss)


@pytest.mark.parametrize(
    ("discrete", "raw"),
    [
        pytest.param(True, False, id="choices"),
        pytest.param(False, False, id="numbers", marks=pytest.mark.slow),
        pytest.param(False, True, id="raw", marks=pytest.mark.slow),
    ],
)
def test_two_intervals_are_those_of_plain_agents_that_listen_to_the_others(discrete: bool, raw: bool) -> None:
    configs = make_configs(shift=int(discrete))
    members = len(configs)
    rollouts = make_rollouts(members, discrete, count=4)
    agent = SharingPPO(range(members), Scripted(rollouts, ACTIONS, discrete), replace(SETTINGS, raw=raw), size=SIZE)
    start = agent.brains.flat.clone()
    plain = [PlainSharing([weight[i] for weight in agent.brains.weights], discrete, raw) for i in range(members)]
    for interval in range(2):
        trained = agent.state["trained"].clone()
        agent.train(configs)
        for one, config in zip(plain, configs, strict=True):
            one.begin(config)
        for update in range(SETTINGS.updates):
            forked = Streams(derive_keys(agent.state["key"], trained + update)).fork(_ORDERS)
            rows = LENGTH * COPIES
            orders = [forked.uniform(rows).argsort(1) for _ in range(3)]
            samples = [forked.fork(epoch).uniform((SIZE - 1) * rows).argsort(1)[:, :rows] for epoch in range(3)]
            given = [{name: tensor[i] for name, tensor in rollouts[2 * interval + update].items()} for i in range(9)]
            behaviours = [one.log_probabilities(steps) for one, steps in zip(plain, given, strict=True)]
            for i, one in enumerate(plain):
                population = range(i - i % SIZE, i - i % SIZE + SIZE)
                others = [j for j in (*population, *population) if j != i]
                others = others[i % SIZE : i % SIZE + SIZE - 1]  # From the next one on, round about.
                one.listen([given[j] for j in others], [behaviours[j] for j in others], [s[i] for s in samples])
            for i, one in enumerate(plain):
                one.update(given[i], [order[i] for order in orders[: configs[i]["epochs"]]])
        expected = torch.stack([one.flat() for one in plain])
        moved = (expected - start).abs().amax(1, keepdim=True)
        assert (moved > 1e-3).all()
        assert ((agent.brains.flat - expected).abs() / moved).max() < 1e-3
    # The bound of the weights was at work, and so were weights below it.
    count = sum(one.weights_below_one for one in plain)
    seen = sum(2 * SETTINGS.updates * config["epochs"] * LENGTH * COPIES for config in configs)
    assert 0.1 * seen < count < 0.9 * seen


def make(seeds: list[int], kind: str = "choices", sharing: Sharing = "all", size: int = 2) -> SharingPPO:
    return SharingPPO(seeds, WORLDS[kind], SHORT, size=size, sharing=sharing)


@pytest.mark.parametrize("kind", ONE_WORLD)
def test_a_population_alone_is_what_it_is_in_company(kind: str) -> None:
    """Products of matrices may be summed in another order for another number of members, so bits can differ."""
    company = make([3, 4, 5, 6], kind)
    scores = [company.train(KINDS) for _ in range(2)]
    for first in (0, 2):
        alone = make([3 + first, 4 + first], kind)
        for interval in range(2):
            for member, outcome in enumerate(alone.train(KINDS[first : first + 2])):
                assert outcome.score == pytest.approx(scores[interval][first + member].score, rel=1e-5)
        for member in range(2):
            for name, tensor in state_of(alone, member).items():
                theirs = state_of(company, first + member)[name]
                torch.testing.assert_close(tensor, theirs, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("kind", ONE_WORLD)
def test_other_populations_change_nothing(kind: str) -> None:
    one, other = make([3, 4, 5, 6], kind), make([3, 4, 8, 9], kind)
    for _ in range(2):
        scores = one.train(KINDS)
        assert other.train([*KINDS[:2], CONFIG, CONFIG])[:2] == scores[:2]
    assert all(same(state_of(one, i), state_of(other, i)) for i in range(2))


@pytest.mark.parametrize("kind", ONE_WORLD)
def test_with_a_leader_the_others_train_as_without_sharing(kind: str) -> None:
    led, apart = make([3, 4, 5, 6], kind, "leader"), BatchedPPO([3, 4, 5, 6], WORLDS[kind], SHORT)
    for _ in range(2):
        shared, plain = led.train(KINDS), apart.train(KINDS)
        assert [shared[i] for i in (1, 3)] == [plain[i] for i in (1, 3)]
    assert [same(state_of(led, i), state_of(apart, i)) for i in range(4)] == [False, True, False, True]


def test_every_member_learns_from_the_others_if_all_do() -> None:
    shared, apart = make([3, 4, 5, 6]), BatchedPPO([3, 4, 5, 6], WORLDS["choices"], SHORT)
    shared.train(KINDS)
    apart.train(KINDS)
    assert not any(same(state_of(shared, i), state_of(apart, i)) for i in range(4))


@pytest.mark.parametrize("sharing", ["all", "leader"])
def test_sharing_spends_the_same_environment_steps(sharing: Sharing) -> None:
    shared, apart = make([3, 4], sharing=sharing), BatchedPPO([3, 4], WORLDS["choices"], SHORT)
    steps = SHORT.updates * SHORT.rollout * SHORT.copies
    assert [outcome.steps for outcome in shared.train(KINDS[:2])] == [steps] * 2
    assert [outcome.steps for outcome in apart.train(KINDS[:2])] == [steps] * 2
    assert torch.equal(shared.state["trained"], apart.state["trained"])
    assert shared.rollout.rewards.shape == apart.rollout.rewards.shape


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("what", ["weights", "observed.mean"])
def test_a_member_that_diverged_shares_nothing(kind: str, what: str) -> None:
    agent = make([3, 4, 5], kind, size=3)
    agent.state[what][1] = math.nan
    outcomes = agent.train(KINDS[:3])
    for i in (0, 2):
        assert math.isfinite(outcomes[i].score)
        assert all(tensor[i].isfinite().all() for tensor in agent.state.values())
    # The weights of its transitions are zero, those of the other sound member are not.
    rows = SHORT.rollout * SHORT.copies
    first = agent._shared.facts[0, :, 4]
    if what == "weights" or kind == "numbers":
        assert (first[:rows] == -math.inf).all()
    assert first[rows:].isfinite().all()


def test_a_population_that_was_saved_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    one, other = make([1, 2]), make([7, 8])
    one.train(KINDS[:2])
    other.train(KINDS[2:])
    for member in range(2):
        (tmp_path / str(member)).mkdir()
        one.save(member, tmp_path / str(member))
        other.load(member, tmp_path / str(member))
    assert other.train(KINDS[:2]) == one.train(KINDS[:2])
    assert same(one.state, other.state)


@pytest.mark.parametrize(
    ("size", "sharing", "message"),
    [
        (3, "all", "size must be at least 2 and divide the 4 members, got 3"),
        (1, "all", "size must be at least 2 and divide the 4 members, got 1"),
        (2, "some", "sharing must be one of all, leader, got 'some'"),
    ],
)
def test_a_wrong_setting_is_refused(size: int, sharing: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make([1, 2, 3, 4], sharing=sharing, size=size)


@pytest.mark.parametrize("kind", ONE_WORLD)
def test_preparing_and_learning_read_nothing_back(kind: str) -> None:
    """Tensors without data refuse to be read, and a constant sent to the device would show: both break a CUDA graph."""
    agent = SharingPPO([1, 2, 3, 4], WORLDS[kind], SHORT, "meta", size=2)
    with Kernels() as kernels:
        agent._prepare_rollout()
        for epoch in agent._epochs.values():
            epoch._procedure()
    assert kernels.devices == {"meta"}
    assert len(agent._epochs) == 4


def make_for_a_run(seeds: list[int]) -> SharingPPO:
    return SharingPPO(seeds, WORLDS["choices"], SHORT)


def test_a_run_that_is_stopped_between_rounds_goes_on_to_the_same_history(tmp_path: Path) -> None:
    """Within a round it does not: those who trained already are not what they were when the others began."""
    whole = run(tmp_path / "whole", make_for_a_run).history
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "stopped", make_for_a_run, Stop(after=8))
    assert list(resume(tmp_path / "stopped", agent=make_for_a_run, progress=False).history) == list(whole)
