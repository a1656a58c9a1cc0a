"""Members of a batched population: apart from one another, copied, saved, started again, steered by their settings."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from popbandits.engines.work import differences
from popbandits.errors import ArgumentError
from popbandits_experiments.batched.device import DeviceWorld
from popbandits_experiments.batched.ppo import BatchedPPO, Settings
from popbandits_experiments.batched.spaces import DEFAULTS, wide
from popbandits_experiments.batched.tasks.cartpole import CartPole
from popbandits_experiments.batched.tasks.pendulum import Pendulum

SHORT = Settings(copies=4, rollout=8, updates=2, episodes=2, hidden=8)
CONFIG: dict[str, Any] = {**DEFAULTS, "lr": 1e-2, "entropy": 0.01, "epochs": 2, "minibatches": 4, "value_clip": True}


class ShortCartPole(CartPole):
    limit = 20


class ShortPendulum(Pendulum):
    limit = 20


# The worlds differ in how actions are drawn. Where only what surrounds that is tried, one of them is enough.
WORLDS = {"choices": DeviceWorld(ShortCartPole()), "numbers": DeviceWorld(ShortPendulum())}
ONE_WORLD = [pytest.param("choices", marks=pytest.mark.slow), "numbers"]
KINDS: list[dict[str, Any]] = [
    CONFIG,
    {**CONFIG, "optimizer": "rmsprop", "smoothing": 0.95, "epochs": 1, "advantages": "rollout"},
    {**CONFIG, "optimizer": "sgd", "momentum": 0.5, "minibatches": 16, "one_minus_gamma": 0.1},
    {**CONFIG, "minibatches": 1, "epochs": 3, "advantages": "none", "value_clip": False, "clip": 0.05},
]


def make(seeds: list[int], kind: str = "choices", settings: Settings = SHORT) -> BatchedPPO:
    return BatchedPPO(seeds, WORLDS[kind], settings)


def state_of(agent: BatchedPPO, member: int) -> dict[str, Tensor]:
    return {name: tensor[member].clone() for name, tensor in agent.state.items()}


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Compare bit for bit, NaN like any other."""
    return all(torch.equal(one[name].nan_to_num(7.5), other[name].nan_to_num(7.5)) for name in one)


@pytest.mark.parametrize("kind", WORLDS)
def test_a_member_alone_is_what_it_is_in_company(kind: str) -> None:
    """Products of matrices may be summed in another order for another number of members, so bits can differ.

    All else is the same, and two short intervals are too few for rounding to change an action or to grow.
    """
    company = make([3, 4, 5, 6], kind)
    scores = [company.train(KINDS) for _ in range(2)]
    for member, config in enumerate(KINDS):
        alone = make([3 + member], kind)
        for interval in range(2):
            (outcome,) = alone.train([config])
            assert outcome.score == pytest.approx(scores[interval][member].score, rel=1e-5)
        for name, tensor in state_of(alone, 0).items():
            torch.testing.assert_close(tensor, state_of(company, member)[name], rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("kind", ONE_WORLD)
def test_the_place_of_a_member_does_not_matter(kind: str) -> None:
    forwards, backwards = make([3, 4, 5, 6], kind), make([6, 5, 4, 3], kind)
    scores = forwards.train(KINDS)
    assert backwards.train(KINDS[::-1]) == scores[::-1]
    assert all(same(state_of(forwards, i), state_of(backwards, 3 - i)) for i in range(4))


@pytest.mark.parametrize("kind", ONE_WORLD)
@pytest.mark.parametrize("how", ["weights", "learning rate", "scales"])
def test_a_member_that_diverges_is_nan_and_changes_nothing_for_the_others(kind: str, how: str) -> None:
    sound, ill = make([3, 4, 5, 6], kind), make([3, 4, 5, 6], kind)
    configs = [dict(config) for config in KINDS]
    if how == "weights":
        ill.state["weights"][1] = math.nan
    elif how == "learning rate":
        configs[1]["lr"] = 1e38
    else:
        ill.state["observed.mean"][1] = math.nan
    expected, found = sound.train(KINDS), ill.train(configs)
    assert [found[i] == expected[i] for i in (0, 2, 3)] == [True] * 3
    assert all(same(state_of(sound, i), state_of(ill, i)) for i in (0, 2, 3))
    if how != "scales" or kind == "numbers":
        assert math.isnan(found[1].score)
    ill.reset(1, 4)
    sound.reset(1, 4)
    assert ill.train(KINDS) == sound.train(KINDS)


@pytest.mark.parametrize("kind", ONE_WORLD)
def test_the_same_seeds_give_the_same_history_and_others_another(kind: str) -> None:
    one, two, other = make([1, 2], kind), make([1, 2], kind), make([1, 9], kind)
    for _ in range(2):
        assert one.train(KINDS[:2]) == two.train(KINDS[:2])
        other.train(KINDS[:2])
    assert same(one.state, two.state)
    assert not torch.equal(one.state["weights"][1], other.state["weights"][1])
    assert not torch.equal(one.state["weights"][0], one.state["weights"][1])


ONE_ROLLOUT = Settings(copies=4, rollout=8, updates=1, episodes=2, hidden=8)


@pytest.mark.parametrize("kind", ONE_WORLD)
def test_intervals_of_one_rollout_are_one_interval_of_as_many(kind: str) -> None:
    whole = make([3, 4], kind, Settings(copies=4, rollout=8, updates=6, episodes=2, hidden=8))
    parts = make([3, 4], kind, ONE_ROLLOUT)
    scores = whole.train(KINDS[:2])
    for _ in range(6):
        last = parts.train(KINDS[:2])
    assert same(whole.state, parts.state)
    assert same(vars(whole.rollout), vars(parts.rollout))
    assert [outcome.score for outcome in scores] == [outcome.score for outcome in last]


def test_an_episode_longer_than_an_interval_is_played_to_its_end() -> None:
    agent = make([1], "numbers", ONE_ROLLOUT)  # Its episodes last 20 steps, an interval 8; none terminates.
    assert ShortPendulum.limit > ONE_ROLLOUT.rollout
    ends = 0
    for _ in range(6):
        before = agent.rollout.following[:, -1].clone(), agent.rollout.over[:, -1].clone()
        agent.train([CONFIG])
        begun = agent.rollout.observations[:, 0]
        if agent.state["trained"] > 1:
            going = ~before[1]
            assert torch.equal(begun[going], before[0][going])
        ends += int(agent.rollout.over.sum())
    assert ends >= 4 * (6 * 8 // 20)


def test_environments_are_copied_saved_and_restored_with_their_member(tmp_path: Path) -> None:
    agent = make([1, 2], "numbers", ONE_ROLLOUT)
    agent.train(KINDS[:2])
    following, over = agent.rollout.following[0, -1].clone(), agent.rollout.over[0, -1].clone()
    agent.save(0, tmp_path)
    agent.copy([0, 0])
    agent.train(KINDS[:2])
    assert torch.equal(agent.rollout.observations[1, 0][~over], following[~over])
    elsewhere = make([7, 8], "numbers", ONE_ROLLOUT)
    elsewhere.train(KINDS[:2])
    elsewhere.load(1, tmp_path)
    elsewhere.train(KINDS[:2])
    assert torch.equal(elsewhere.rollout.observations[1, 0][~over], following[~over])
    elsewhere.reset(1, 9)
    elsewhere.train(KINDS[:2])
    assert not torch.equal(elsewhere.rollout.observations[1, 0], agent.rollout.observations[1, 0])


def test_copies_are_their_sources_to_the_last_bit_and_all_at_once() -> None:
    agent = make([1, 2, 3])
    agent.train(KINDS[:3])
    before = [state_of(agent, i) for i in range(3)]
    agent.copy([1, 0, 0])
    assert [same(state_of(agent, i), before[source]) for i, source in enumerate([1, 0, 0])] == [True] * 3
    config = KINDS[0]
    one, two, three = agent.train([config] * 3)
    assert two == three
    assert one != two
    assert same(state_of(agent, 1), state_of(agent, 2))


def test_copies_that_are_assigned_to_other_members_or_rounds_draw_other_numbers() -> None:
    agent = make([1, 2, 3, 4])
    agent.copy([0, 0, 0, 0])
    agent.assigned([(0, 5), (1, 5), (0, 6), (0, 5)])
    outcomes = agent.train([CONFIG] * 4)
    states = [state_of(agent, i) for i in range(4)]
    assert same(states[0], states[3])
    assert outcomes[0] == outcomes[3]
    assert len({tuple(state["weights"].tolist()) for state in states}) == 3
    # An assignment is for one interval; without another the next depends on the members' own keys.
    agent.copy([0, 0, 0, 0])
    agent.train([CONFIG] * 4)
    assert same(state_of(agent, 0), state_of(agent, 1))


def test_a_member_that_was_saved_goes_on_elsewhere_as_if_nothing_had_happened(tmp_path: Path) -> None:
    one = make([1, 2])
    one.train(KINDS[:2])
    for member in range(2):
        (tmp_path / str(member)).mkdir()
        one.save(member, tmp_path / str(member))
    other = make([7, 8])
    other.train([KINDS[2], KINDS[3]])
    other.load(1, tmp_path / "0")
    other.load(0, tmp_path / "1")
    for _ in range(2):
        assert other.train([KINDS[1], KINDS[0]]) == one.train(KINDS[:2])[::-1]
    assert same(state_of(one, 0), state_of(other, 1))


def test_a_reset_member_is_a_new_one() -> None:
    one, fresh = make([1, 2]), make([1, 5])
    one.train(KINDS[:2])
    kept = state_of(one, 0)
    one.reset(1, 5)
    assert same(state_of(one, 1), state_of(fresh, 1))
    assert same(state_of(one, 0), kept)
    assert one.train(KINDS[:2])[1] == fresh.train(KINDS[:2])[1]


def test_what_is_applied_is_what_was_asked_for_anywhere_in_the_space() -> None:
    space = wide()
    space.seed(0)
    configs = [dict(config) for config in space.sample_configuration(30)]
    agent = make(list(range(30)), settings=Settings(copies=4, rollout=4, updates=1, episodes=2, hidden=4))
    agent.train(configs)
    applied = agent.applied()
    assert [set(config) for config in applied] == [set(config) for config in configs]
    # As engines compare them: to a relative error of 1e-6.
    assert [differences(asked, used) for asked, used in zip(configs, applied, strict=True)] == [[]] * 30
    assert [type(value) for value in applied[0].values() if not isinstance(value, float | str)] == [int, int, bool]


CHANGES: dict[str, Any] = {
    "lr": 2e-2,
    "one_minus_gamma": 0.1,
    "gae_lambda": 0.5,
    "clip": 0.01,
    "entropy": 0.1,
    "vf_coef": 2.0,
    "max_grad_norm": 0.01,
    "epochs": 3,
    "minibatches": 8,
    "advantages": "none",
    "value_clip": False,
    "optimizer": "rmsprop",
    "beta1": 0.5,
}


def test_every_hyperparameter_changes_what_is_learnt() -> None:
    assert set(CHANGES) == set(CONFIG)
    base = {**CONFIG, "clip": 0.02}
    agent = make([1] * (len(CHANGES) + 2))
    agent.train([base, base, *({**base, name: value, "smoothing": 0.9} for name, value in CHANGES.items())])
    weights = agent.state["weights"]
    assert torch.equal(weights[0], weights[1])
    assert [name for name, row in zip(CHANGES, weights[2:], strict=True) if torch.equal(row, weights[0])] == []


def test_another_configuration_allocates_nothing_that_graphs_read() -> None:
    agent = make([1, 2, 3, 4])

    def addresses() -> list[int]:
        buffers = [*agent.state.values(), *vars(agent.rollout).values(), *agent.optimizer.settings.values()]
        buffers += [agent.learners.table, agent.learners.due, *vars(agent.data).values()]
        buffers += [value for value in vars(agent).values() if isinstance(value, Tensor)]
        buffers += [value for value in vars(agent.play).values() if isinstance(value, Tensor)]
        return [tensor.data_ptr() for tensor in [*buffers, *agent.brains.weights, *agent._own.values()]]

    agent.train(KINDS)
    before = addresses()
    agent.copy([3, 2, 1, 0])
    agent.reset(2, 9)
    agent.train(KINDS[::-1])
    assert addresses() == before


def test_fresh_episodes_are_those_of_the_members_asked_for_and_their_seeds() -> None:
    agent = make([1, 2, 3])
    agent.train(KINDS[:3])
    before = {name: tensor.clone() for name, tensor in agent.state.items()}
    found = agent.evaluate([2, 0], 3, [11, 12])
    assert found.shape == (2, 3)
    assert same(agent.state, before)
    assert torch.equal(found, agent.evaluate([2, 0], 3, [11, 12]))
    assert torch.equal(found[1:], agent.evaluate([0], 3, [12]))
    assert not torch.equal(found, agent.evaluate([2, 0], 3, [13, 14]))
    agent.state["observed.mean"][0] += 100
    assert not torch.equal(found[1:], agent.evaluate([0], 3, [12]))


def test_an_outcome_counts_its_steps_and_the_error_of_its_score() -> None:
    agent = make([1, 2])
    for outcome in agent.train(KINDS[:2]):
        assert outcome.steps == SHORT.steps == 2 * 8 * 4
        assert 0 <= outcome.metrics["standard_error"] < 20
    single = make([1], settings=Settings(copies=4, rollout=8, updates=1, episodes=1, hidden=8))
    assert single.train([CONFIG])[0].metrics == {}


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"rollout \* copies must be a multiple of 16, got 24"):
        make([1], settings=Settings(copies=4, rollout=6))
    agent = make([1])
    with pytest.raises(ArgumentError, match=r"minibatches must be one of .*, got 3"):
        agent.train([{**CONFIG, "minibatches": 3}])
    with pytest.raises(ArgumentError, match=r"advantages must be one of .*, got 'both'"):
        agent.train([{**CONFIG, "advantages": "both"}])


def test_members_learn_to_balance_a_pole() -> None:
    world = DeviceWorld(type("HalfCartPole", (CartPole,), {"limit": 200})())
    agent = BatchedPPO([1, 2, 3], world, Settings(copies=8, rollout=32, updates=4, episodes=8, hidden=16))
    config = {**DEFAULTS, "lr": 1e-2, "epochs": 2, "minibatches": 8, "one_minus_gamma": 0.02}
    before = agent.evaluate([0, 1, 2], 8, [4, 5, 6]).mean(1)
    for _ in range(4):
        scores = [outcome.score for outcome in agent.train([config] * 3)]
    assert before.max() < 50
    assert sum(scores) / 3 > 90
