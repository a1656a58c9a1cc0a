"""TV.EXP3.M: the algorithm box by hand, what the bound promises, and the cases the paper leaves open."""

import doctest
import math
from collections.abc import Callable
from math import e, exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from popbandits.basics.typing import FloatArray, IntArray
from popbandits.errors import ArgumentError
from popbandits.models.bandit import TVEXP3M


def shares(log_weights: FloatArray) -> FloatArray:
    weights: FloatArray = np.exp(log_weights)
    assert weights.sum() == pytest.approx(1.0)
    return weights


def grown_by(bandit: TVEXP3M, arms: list[int], gains: list[float], log_weights: FloatArray) -> list[float]:
    """The exponents of a round without sharing, less that of arm 0."""
    change = bandit.update(log_weights, np.array(arms), np.array(gains)) - log_weights
    return [float(value - change[0]) for value in change]


def test_two_rounds_give_the_weights_worked_out_by_hand() -> None:
    # C = 6, k = 5, γ = 1/2, α = 1/100, so that η = (1/5 - 1/12) / (1/2) = 7/30 and k γ / C = 5/12.
    bandit = TVEXP3M(arms=6, exploration=0.5, sharing=0.01)
    played = np.arange(5)

    # Round 1: all weigh 1, which is below η 6; p = 5/6; arm 0 gains 1, so that its exponent is 5/12 / (5/6).
    first = bandit.update(bandit.initial(), played, np.array([1.0, 0.0, 0.0, 0.0, 0.0]))
    light = 1.0 + 0.01 * e
    weights = np.array([exp(0.5) + 0.01 * e] + 5 * [light])
    assert shares(first) == pytest.approx(weights / weights.sum(), rel=1e-12)

    # Round 2: arm 0 has 0.246 of the weight, above η; ν = η (ν + 5 light) = 35/23 light; p is 1 and 5 x 4/5.
    cap = 35.0 / 23.0 * light
    assert bandit.expected_plays(first, 5) == pytest.approx([1.0] + 5 * [0.8], rel=1e-12)
    second = bandit.update(first, played, np.array([1.0, 0.6, 0.0, 0.0, 0.0]))
    shared = 0.01 * e / 6.0 * (cap + 5.0 * light)
    weights = np.array([cap, light * exp(5.0 / 12.0 * 0.6 / 0.8)] + 4 * [light]) + shared
    assert shares(second) == pytest.approx(weights / weights.sum(), rel=1e-12)


def test_one_play_without_sharing_is_exp3() -> None:
    bandit = TVEXP3M(arms=4, horizon=50, exploration="paper", sharing=0.0)
    gamma = math.sqrt(4.0 * math.log(4.0) / ((e - 1.0) * 50.0))
    rng, weights = np.random.default_rng(0), np.ones(4)
    rounds: list[tuple[IntArray, FloatArray]] = []
    for _ in range(50):
        chances = (1.0 - gamma) * weights / weights.sum() + gamma / 4.0
        assert bandit.expected_plays(bandit.replay(rounds), 1) == pytest.approx(chances)
        arm, gain = rng.integers(4), rng.random()
        weights[arm] *= exp(gamma * gain / chances[arm] / 4.0)
        rounds.append((np.array([arm]), np.array([gain])))


def test_replay_is_every_update_in_turn() -> None:
    rng = np.random.default_rng(0)
    rounds = [(rng.integers(5, size=k), rng.random(k)) for k in rng.integers(9, size=40)]
    for horizon in (40, None):
        bandit = TVEXP3M(arms=5, horizon=horizon)
        log_weights = bandit.initial()
        for number, (arms, gains) in enumerate(rounds):
            log_weights = bandit.update(log_weights, arms, gains, number)
        assert bandit.replay(rounds).tolist() == log_weights.tolist()
    assert bandit.replay([]).tolist() == bandit.initial().tolist()


log_weight_vectors = st.lists(st.floats(-2000.0, 2000.0) | st.floats(-3.0, 3.0), min_size=1, max_size=12)


@settings(deadline=None)
@given(logs=log_weight_vectors, plays=st.integers(0, 15), gamma=st.floats(1e-6, 1.0))
def test_expected_plays_sum_to_k_and_follow_the_weights(logs: list[float], plays: int, gamma: float) -> None:
    arms = len(logs)
    expected = TVEXP3M(arms, exploration=gamma).expected_plays(np.array(logs), plays)
    assert expected.sum() == pytest.approx(plays, abs=1e-9)
    assert np.all(expected >= plays * gamma / arms - 1e-12)
    assert np.all(np.diff(expected[np.argsort(logs)]) >= -1e-12)
    if plays < arms:
        assert np.all(expected <= 1.0)


@settings(deadline=None)
@given(
    log_weights=log_weight_vectors,
    plays=st.integers(1, 15),
    gamma=st.floats(1e-6, 1.0),
    sharing=st.sampled_from([0.0, 1e-6, 0.1, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_whatever_is_drawn_and_gained_the_weights_stay_finite(
    log_weights: list[float], plays: int, gamma: float, sharing: float, seed: int
) -> None:
    bandit, rng = TVEXP3M(len(log_weights), exploration=gamma, sharing=sharing), np.random.default_rng(seed)
    played = bandit.draw(np.array(log_weights), plays, rng)
    assert len(played) == plays
    assert plays >= bandit.arms or len(set(played.tolist())) == plays
    shares(bandit.update(np.array(log_weights), played, rng.random(plays)))


def test_weights_are_finite_after_a_hundred_thousand_rounds() -> None:
    played, gains = np.array([0]), np.array([1.0])
    kept = TVEXP3M(arms=2, horizon=10**5, exploration=0.5).replay([(played, gains)] * 10**5)
    assert shares(kept)[1] > 1e-5  # Sharing keeps the other arm alive …
    lost = TVEXP3M(arms=2, exploration=0.5, sharing=0.0).replay([(played, gains)] * 10**4)
    assert -1000.0 < lost[1] < -500.0  # … and without it, its weight is small, not zero.


@pytest.mark.parametrize(("arms", "plays"), [(5, 3), (4, 4), (2, 5)])
def test_every_arm_is_drawn_as_often_as_expected(arms: int, plays: int) -> None:
    bandit, rng, draws = TVEXP3M(arms, exploration=0.2), np.random.default_rng(0), 20_000
    log_weights = np.log(np.arange(1.0, arms + 1.0))
    expected = bandit.expected_plays(log_weights, plays)
    drawn = np.array([bandit.draw(log_weights, plays, rng) for _ in range(draws)])
    assert drawn.shape == (draws, plays)
    counts = (drawn[:, :, np.newaxis] == np.arange(arms)).sum(axis=1)
    assert counts.max() == 1 or plays >= arms  # distinct
    error = np.sqrt(np.mod(expected, 1.0) * (1.0 - np.mod(expected, 1.0)) / draws)
    assert np.all(np.abs(counts.mean(axis=0) - expected) <= 4.0 * error)


def test_the_order_of_a_draw_says_nothing() -> None:
    bandit, rng = TVEXP3M(arms=4, exploration=0.1), np.random.default_rng(0)
    log_weights = np.log([8.0, 4.0, 2.0, 1.0])
    drawn = np.array([bandit.draw(log_weights, 2, rng) for _ in range(4000)])
    assert np.mean(drawn[:, 0] < drawn[:, 1]) == pytest.approx(0.5, abs=4.0 * 0.5 / math.sqrt(4000))


def play(bandit: TVEXP3M, means: FloatArray, plays: int, seed: int) -> IntArray:
    """The arms (T, k) that a bandit plays where an arm's gains are Bernoulli with `means` (T, C)."""
    rewards_rng, rng = np.random.default_rng(seed).spawn(2)
    rewards = (rewards_rng.random(means.shape) < means).astype(float)
    played = np.empty((len(means), plays), dtype=np.int64)
    log_weights = bandit.initial()
    for number, reward in enumerate(rewards):
        played[number] = bandit.draw(log_weights, plays, rng, number)
        log_weights = bandit.update(log_weights, played[number], reward[played[number]], number)
    return played


def regrets(means: FloatArray, played: IntArray) -> FloatArray:
    """(T,): how far the mean of the arms played is below that of the k best."""
    best = np.sort(means, axis=1)[:, -played.shape[1] :].mean(axis=1)
    regret: FloatArray = best - np.take_along_axis(means, played, axis=1).mean(axis=1)
    return regret


def test_the_regret_is_below_the_corrected_bound_and_after_a_change_far_below_exp3ms() -> None:
    arms, plays, rounds, segments = 4, 2, 2000, 2
    means = np.full((rounds, arms), 0.1)
    means[: rounds // 2, :2] = means[rounds // 2 :, 2:] = 0.9
    price = e + segments * math.log(arms * rounds / plays)
    bound = 2.0 * math.sqrt((e - 1.0) * arms * rounds / plays * price)
    assert bound < 0.4 * rounds  # Playing at random would break it.
    tv, exp3m = (
        np.array([regrets(means, play(bandit, means, plays, seed)) for seed in range(8)])
        for bandit in (TVEXP3M(arms, rounds, segments), TVEXP3M(arms, rounds, segments, sharing=0.0))
    )
    assert tv.sum(axis=1).max() < bound / 2.0
    ahead = (exp3m - tv)[:, rounds // 2 :].sum(axis=1)
    assert ahead.mean() > 300.0
    assert ahead.mean() > 6.0 * ahead.std(ddof=1) / math.sqrt(len(ahead))


def test_the_best_arm_is_in_the_batch_at_the_end_of_each_half() -> None:
    # C = 8, k = 4, T = 60; the best arm has mean 0.9, the others 0.3; it changes midway; 200 seeds.
    means = np.full((60, 8), 0.3)
    means[:30, 2] = means[30:, 5] = 0.9
    present = {}
    for exploration in ("corrected", "paper"):
        bandit = TVEXP3M(arms=8, horizon=60, exploration=exploration)
        played = np.array([play(bandit, means, 4, seed) for seed in range(200)])
        ends = np.any(played[:, 29] == 2, axis=1), np.any(played[:, 59] == 5, axis=1)
        present[exploration] = np.mean(ends, axis=1)
    assert min(present["corrected"]) >= 0.9
    assert max(present["paper"]) < 0.85


def test_an_unknown_horizon_is_learnt_with_almost_as_well() -> None:
    means = np.full((1023, 4), 0.1)
    means[:512, :2] = means[512:, 2:] = 0.9
    known, unknown = (
        np.mean([regrets(means, play(TVEXP3M(4, horizon), means, 2, seed)).sum() for seed in range(5)])
        for horizon in (1023, None)
    )
    assert unknown < 1.5 * known < 1.5 * 0.4 * 1023 / 2.0


def test_the_numbers_in_the_documentation_are_right() -> None:
    path = Path(__file__).parents[2] / "docs" / "bandit.md"
    failures, examples = doctest.testfile(str(path), module_relative=False, encoding="utf-8")
    assert (failures, examples > 0) == (0, True)


@settings(deadline=None)
@given(
    arms=st.integers(1, 50),
    plays=st.integers(1, 500),
    rounds=st.integers(1, 10**6),
    changes=st.integers(1, 100),
)
def test_gamma_is_defined_everywhere_and_minimises_the_last_sound_line(
    arms: int, plays: int, rounds: int, changes: int
) -> None:
    gamma = TVEXP3M(arms, rounds, changes).gamma(plays)
    assert 0.0 < gamma <= 1.0
    if arms * rounds < plays:
        return  # The logarithm of the line is negative here.

    price = e + changes * math.log(arms * rounds / plays)

    def line(gamma: float) -> float:
        return (e - 1.0) * gamma * rounds + arms / (plays * gamma) * price

    assert line(gamma) <= min(line(0.99 * gamma), line(min(1.0, 1.01 * gamma))) * (1.0 + 1e-12)


def test_the_papers_gamma_is_a_preset_that_gives_way_where_it_is_not_defined() -> None:
    paper, corrected = TVEXP3M(8, 60, exploration="paper"), TVEXP3M(8, 60)
    assert paper.gamma(4) == pytest.approx(math.sqrt(8.0 * math.log(2.0) / ((e - 1.0) * 4.0 * 60.0)))
    for plays in (8, 9, 20):
        assert paper.gamma(plays) == corrected.gamma(plays)
    assert TVEXP3M(8, exploration=0.25).gamma(4) == 0.25


def test_without_a_horizon_gamma_is_that_of_epochs_that_double() -> None:
    bandit = TVEXP3M(arms=6)
    epochs = [1, 2, 2, 4, 4, 4, 4, 8]
    assert [bandit.gamma(4, r) for r in range(8)] == [TVEXP3M(6, epoch).gamma(4) for epoch in epochs]
    assert bandit.gamma(4, 10**6) < 0.01


def test_a_round_that_is_not_named_is_the_first() -> None:
    """Its number matters without a horizon alone; with so many plays γ is below 1 from the first round on."""
    bandit, tilted = TVEXP3M(arms=2), np.log([0.9, 0.1])
    arms, gains = np.array([0, 1] * 25), np.linspace(0.0, 1.0, 50)
    calls: list[Callable[..., Any]] = [
        lambda *number: bandit.gamma(50, *number),
        lambda *number: bandit.expected_plays(tilted, 50, *number).tolist(),
        lambda *number: bandit.update(tilted, arms, gains, *number).tolist(),
        lambda *number: [bandit.draw(tilted, 51, np.random.default_rng(s), *number).tolist() for s in range(20)],
    ]
    for call in calls:
        assert call() == call(0) != call(1)


def test_with_more_plays_than_arms_an_arm_uses_the_sum_of_its_gains() -> None:
    bandit = TVEXP3M(arms=2, exploration=0.2, sharing=0.0)  # n = 2 each, k γ / C = 0.4
    change = grown_by(bandit, [0, 1, 1, 0], [1.0, 0.0, 0.25, 0.5], bandit.initial())
    assert change[1] == pytest.approx(0.4 * (0.25 - 1.5) / 2.0)


def test_as_many_plays_as_arms_still_learn() -> None:
    bandit = TVEXP3M(arms=4, horizon=50)
    log_weights = bandit.replay([(np.arange(4), np.array([0.2, 0.9, 0.2, 0.2]))] * 30)
    assert bandit.expected_plays(log_weights, 4)[1] > 1.5


def test_any_number_of_members_on_an_arm_is_worth_one_exponent_and_better_gains_more() -> None:
    bandit = TVEXP3M(arms=6, exploration=0.5, sharing=0.0)
    light = np.log([1.0, 1.0, 1.0, 1.0, 1.0, 1e-6])  # Arm 5 is all but only explored: n = k γ / C.
    changes = [grown_by(bandit, [5, 5, 5, 5], 4 * [gain], light)[5] for gain in (0.3, 0.6, 1.0)]
    assert changes == pytest.approx([0.3, 0.6, 1.0], rel=1e-5)
    assert grown_by(bandit, [5], [0.6], light)[5] == pytest.approx(0.6, rel=1e-5)


def test_members_that_share_an_arm_can_make_it_outweigh_the_others() -> None:
    bandit = TVEXP3M(arms=6, horizon=50)
    together = bandit.replay([(np.array([0, 0, 0, 1]), np.array([0.9, 0.9, 0.9, 0.2]))] * 40)
    assert shares(together)[0] > 0.7


def test_one_replaced_member_draws_with_the_gamma_of_all_that_give_feedback() -> None:
    bandit, log_weights = TVEXP3M(arms=10, horizon=50), np.log([0.91] + 9 * [0.01])
    likely = (1.0 - bandit.gamma(4)) * 0.91 + bandit.gamma(4) / 10.0
    assert bandit.expected_plays(log_weights, 1, feedback=4)[0] == pytest.approx(likely)
    assert bandit.expected_plays(log_weights, 1)[0] == pytest.approx(0.1)  # γ = 1: what was learnt is lost.
    drawn = [bandit.draw(log_weights, 1, np.random.default_rng(seed), feedback=4)[0] for seed in range(100)]
    assert drawn.count(0) > 30


def test_a_nan_gain_is_a_play_that_did_not_happen() -> None:
    bandit = TVEXP3M(arms=5, horizon=50)
    with_nan = bandit.update(bandit.initial(), np.array([3, 1, 4]), np.array([0.5, np.nan, 0.9]))
    without = bandit.update(bandit.initial(), np.array([3, 4]), np.array([0.5, 0.9]))
    assert with_nan.tolist() == without.tolist()


@pytest.mark.parametrize("gains", [[], [np.nan, np.nan]])
def test_a_round_without_feedback_only_shares(gains: list[float]) -> None:
    arms, uneven = np.arange(len(gains)), np.log([0.7, 0.2, 0.1])
    kept = TVEXP3M(arms=3, sharing=0.0).update(uneven, arms, np.array(gains))
    assert shares(kept) == pytest.approx([0.7, 0.2, 0.1])
    shared = TVEXP3M(arms=3, sharing=0.3).update(uneven, arms, np.array(gains))
    assert shares(shared) == pytest.approx((np.array([0.7, 0.2, 0.1]) + 0.1 * e) / (1.0 + 0.3 * e))


@pytest.mark.parametrize("gain", [0.0, 0.5, 1.0])
def test_equal_gains_of_all_arms_leave_them_equal(gain: float) -> None:
    log_weights = TVEXP3M(arms=3, horizon=20).replay([(np.array([0, 1, 2]), np.full(3, gain))] * 20)
    assert shares(log_weights) == pytest.approx(np.full(3, 1.0 / 3.0))


def test_an_arm_never_played_keeps_its_share_of_the_exploration() -> None:
    bandit = TVEXP3M(arms=5, horizon=100)
    log_weights = bandit.replay([(np.array([0, 1, 2]), np.ones(3))] * 100)
    assert np.all(bandit.expected_plays(log_weights, 3)[3:] >= 3.0 * bandit.gamma(3) / 5.0)


def test_a_single_arm_is_always_played() -> None:
    bandit, rng = TVEXP3M(arms=1, horizon=10), np.random.default_rng(0)
    for plays in (0, 1, 4):
        assert bandit.draw(bandit.initial(), plays, rng).tolist() == [0] * plays
    assert bandit.replay([(np.zeros(4, dtype=np.int64), np.ones(4))] * 10).tolist() == [0.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arms": 0}, r"'arms': must be at least 1, got 0"),
        ({"arms": 3, "horizon": 0}, r"'horizon': must be at least 1, got 0"),
        ({"arms": 3, "changes": 0}, r"'changes': must be at least 1, got 0"),
        ({"arms": 3, "exploration": 0.0}, r"'exploration': must be above 0 and at most 1, got 0.0"),
        ({"arms": 3, "exploration": 1.01}, r"'exploration': must be above 0 and at most 1, got 1.01"),
        ({"arms": 3, "exploration": "papers"}, r"'exploration': must be one of .*, got 'papers'"),
        ({"arms": 3, "sharing": 1.01}, r"'sharing': must be in \[0, 1\], got 1.01"),
        ({"arms": 3, "sharing": math.nan}, r"'sharing': must be in \[0, 1\], got nan"),
    ],
)
def test_a_bandit_that_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        TVEXP3M(**arguments)


@pytest.mark.parametrize(
    ("arm", "gain", "message"),
    [
        (2, -0.1, r"'gains': must be in \[0, 1\], got -0.1 for arm 2"),
        (2, 1.5, r"'gains': must be in \[0, 1\], got 1.5 for arm 2"),
        (2, math.inf, r"'gains': must be in \[0, 1\], got inf for arm 2"),
        (-1, 0.5, "'arms': must be from 0 to 2, got -1"),
        (3, 0.5, "'arms': must be from 0 to 2, got 3"),
    ],
)
def test_feedback_that_makes_no_sense_is_refused(arm: int, gain: float, message: str) -> None:
    bandit = TVEXP3M(arms=3)
    with pytest.raises(ArgumentError, match=message):
        bandit.update(bandit.initial(), np.array([0, arm]), np.array([0.5, gain]))


def test_a_number_of_plays_that_makes_no_sense_is_refused() -> None:
    bandit = TVEXP3M(arms=3)
    with pytest.raises(ArgumentError, match="'plays': must be at least 0, got -1"):
        bandit.draw(bandit.initial(), -1, np.random.default_rng(0))
    with pytest.raises(ArgumentError, match="'plays': must be at least 1, got 0"):
        bandit.gamma(0)
