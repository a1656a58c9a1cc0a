"""Statistics of real training equal slow, plain ones, and say nothing that the runs do not."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import trim_mean

from popbandits_experiments.ground.statistics import (
    RESAMPLES,
    FloatArray,
    draw,
    estimate,
    improvement,
    iqm,
    mean,
    profile,
    resample,
)


def sample(*sizes: int, seed: int = 0) -> list[FloatArray]:
    rng = np.random.default_rng(seed)
    return [place + rng.standard_exponential(size) for place, size in enumerate(sizes)]


@pytest.mark.parametrize("sizes", [(4,), (64,), (8, 8, 8), (10, 10)])
def test_the_interquartile_mean_is_scipys_where_a_quarter_is_a_whole_number(sizes: tuple[int, ...]) -> None:
    scores = sample(*sizes)
    assert estimate(iqm, scores).value == pytest.approx(trim_mean(np.concatenate(scores), 0.25))


@pytest.mark.parametrize("sizes", [(1,), (5,), (3, 7), (64, 10, 9)])
def test_tasks_count_alike_however_many_seeds_they_have(sizes: tuple[int, ...]) -> None:
    scores = sample(*sizes)
    # The same with copies: every task as often, and a quarter of all a whole number.
    often = 4 * math.lcm(*sizes)
    copies = [np.repeat(task, often // len(task)) for task in scores]
    assert estimate(iqm, scores).value == pytest.approx(trim_mean(np.concatenate(copies), 0.25))
    assert estimate(mean, scores).value == pytest.approx(np.mean([task.mean() for task in scores]))


def test_bootstrap_intervals_are_those_of_a_plain_loop() -> None:
    scores = sample(16, 12, seed=1)
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(2000):
        picked = [rng.choice(task, len(task)) for task in scores]
        draws.append(trim_mean(np.concatenate([np.repeat(picked[0], 3), np.repeat(picked[1], 4)]), 0.25))
    found = estimate(iqm, scores)
    width = np.std(draws)
    assert (found.low, found.high) == pytest.approx(np.quantile(draws, (0.025, 0.975)), abs=0.15 * width)
    assert draw(iqm, scores)[1:].std() == pytest.approx(width, rel=0.05)


def test_small_samples_are_resampled_as_often_as_they_should_be() -> None:
    # The 27 ways to draw three runs out of three are equally likely.
    scores = [np.array([0.0, 1.0, 10.0])]
    exact: dict[float, float] = {}
    for picks in itertools.product(scores[0], repeat=3):
        exact[round(float(np.mean(picks)), 6)] = exact.get(round(float(np.mean(picks)), 6), 0) + 1 / 27
    draws = np.round(draw(mean, scores)[1:], 6)
    assert set(draws) == set(exact)
    for value, chance in exact.items():
        assert np.mean(draws == value) == pytest.approx(chance, abs=5 * (chance / RESAMPLES) ** 0.5)


def test_resamples_keep_to_their_task() -> None:
    w = resample((5, 3))
    assert w[:, :5].sum(axis=1) == pytest.approx(0.5)
    assert w[:, 5:].sum(axis=1) == pytest.approx(0.5)
    assert w[0] == pytest.approx([0.1] * 5 + [1 / 6] * 3)


def test_tasks_are_resampled_independently() -> None:
    w = resample((6, 6))[1:]
    correlations = np.corrcoef(w.T)[:6, 6:]
    assert np.abs(correlations).max() < 5 / RESAMPLES**0.5


def test_a_single_run_has_no_interval() -> None:
    found = estimate(iqm, [np.array([7.0])])
    assert found.value == 7
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_a_method_that_always_wins_by_one_improves_for_certain() -> None:
    theirs = np.random.default_rng(0).normal(scale=100, size=64)
    found = improvement([(theirs + 1, theirs)])
    assert (found.value, found.high, found.count) == (1, 1, 64)
    assert 0.9 < found.low < 1
    assert found.verdict == "ahead"
    lost = improvement([(theirs, theirs + 1)])
    assert (lost.value, lost.low, lost.verdict) == (0, 0, "behind")
    assert lost.high == pytest.approx(1 - found.low)


def test_ties_count_half_and_decide_nothing() -> None:
    theirs = np.arange(8.0)
    tied = improvement([(theirs, theirs)])
    assert (tied.value, tied.low, tied.high, tied.verdict) == (0.5, 0.5, 0.5, "undecided")
    ours = theirs + np.array([1, 1, 1, -1, 0, 0, 0, 0])
    assert improvement([(ours, theirs)]).value == (3 + 4 * 0.5) / 8


@pytest.mark.parametrize(
    ("wins", "losses", "ties", "verdict"),
    [
        (3, 0, 0, "undecided"),  # Every resample of three wins is three wins.
        (3, 0, 1, "undecided"),  # No interval of resamples holds a half here.
        (5, 0, 0, "undecided"),
        (6, 0, 0, "ahead"),
        (0, 6, 0, "behind"),
        (40, 24, 0, "undecided"),
        (45, 19, 0, "ahead"),
        (19, 45, 0, "behind"),
    ],
)
def test_few_or_mixed_pairs_leave_it_open(wins: int, losses: int, ties: int, verdict: str) -> None:
    ours = np.array([1.0] * wins + [-1.0] * losses + [0.0] * ties)
    found = improvement([(ours, np.zeros(len(ours)))])
    assert found.verdict == verdict
    assert found.low <= found.value <= found.high


def test_one_run_on_each_of_many_tasks_decides_nothing() -> None:
    pairs = [(np.array([float(win)]), np.array([0.5])) for win in [1] * 9 + [0]]
    assert improvement(pairs).verdict == "undecided"


def test_equal_methods_are_told_apart_about_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(3)
    told = [improvement([(rng.normal(size=32), rng.normal(size=32))]).verdict != "undecided" for _ in range(300)]
    assert np.mean(told) < 0.08


def test_the_mean_improvement_is_over_tasks_not_over_pairs() -> None:
    always, never = np.ones(30), np.zeros(10)
    found = improvement([(always, np.zeros(30)), (never, np.ones(10))])
    assert (found.value, found.count) == (0.5, 40)


def test_a_profile_is_the_share_of_runs_above_each_score() -> None:
    scores = [np.array([0.0, 1.0]), np.array([0.5, 0.5, 0.5, 2.0])]
    at = np.array([-1.0, 0.0, 0.5, 1.5, 2.0])
    shares, low, high = profile(scores, at)
    slow = [np.mean([np.mean([score > threshold for score in task]) for task in scores]) for threshold in at]
    assert shares == pytest.approx(slow)
    assert np.all((low <= shares) & (shares <= high))
    assert (low[0], high[-1]) == (1, 0)
