"""The noise of scores: it is found in the scores of a run, and a lucky last score is seen through."""

import math

import numpy as np
import pytest

from popbandits.history import History, Observation
from popbandits.history.noise import Trend, estimate
from popbandits.selection import Truncation
from tests.history.noisy_runs import SPACE, trained


def line(*scores: float, errors: float | None = None, configs: str = "") -> list[Observation]:
    """One lineage; a letter of `configs` names each interval's configuration."""
    metrics = {} if errors is None else {"standard_error": errors}
    return [
        Observation(
            0,
            t,
            {"x": configs[t] if configs else "a"},
            parent=(0, t - 1) if t else None,
            score_before=scores[t - 1] if t else math.nan,
            score=score,
            metrics=metrics,
        )
        for t, score in enumerate(scores)
    ]


def test_gains_whose_variance_is_no_number_are_not_modelled() -> None:
    assert estimate(line(*(1e200 * (t % 3) for t in range(30))), 1.0, None) is None


@pytest.mark.parametrize("noise", [0.0, 1.0, 3.0])
def test_the_noise_is_found_in_the_scores_of_a_run(noise: float) -> None:
    found = []
    for seed in range(6):
        history, _ = trained(Truncation(), seed, noise)
        model = estimate(history[-96:], history.sign, None)
        found.append(0.0 if model is None else math.sqrt(model.r))
    assert np.median(found) == pytest.approx(noise, rel=0.3, abs=0.05)


def test_noise_is_taken_for_real_only_with_evidence() -> None:
    """A walk without noise is a little likelier with some in half of all cases, and much likelier in hardly any."""
    found = 0
    for seed in range(40):
        walk = np.cumsum(np.random.default_rng(seed).normal(size=20))
        found += estimate(line(*walk, configs="abcdefghijklmnopqrst"), 1.0, None) is not None
    assert found <= 4


def test_collapses_are_not_taken_for_noise() -> None:
    rng = np.random.default_rng(0)
    history = History(SPACE, size=4)
    for round_ in range(20):
        for member in range(4):
            before = history.latest(member)
            score = (0.0 if before is None else before.score) + 1.0 + 0.1 * float(rng.normal())
            collapsed = rng.random() < 0.1
            history.append(
                Observation(
                    member,
                    round_,
                    {"x": 0.5, "z": 0.5},
                    parent=None if before is None else before.key,
                    score_before=math.nan if before is None else before.score,
                    score=score - 50 * collapsed,
                )
            )
    model = estimate(history[:], 1.0, None)
    assert model is None or math.sqrt(model.r) < 0.2


def test_the_skill_is_nearer_to_the_truth_than_the_score() -> None:
    raw: list[float] = []
    smoothed: list[float] = []
    for seed in range(4):
        history, skill = trained(Truncation(), seed, noise=1.0)
        model = estimate(history[-96:], history.sign, None)
        assert model is not None
        levels, _ = model.follow(history[-96:])
        last = [(member, 19) for member in range(6)]
        true = np.array([skill[key] for key in last])
        for found, values in ((raw, [o.score for o in history[-6:]]), (smoothed, [levels[key] for key in last])):
            error = np.array(values) - true
            found.append(float(np.var(error)))  # What all have in common does not rank them.
    assert np.mean(smoothed) < 0.5 * np.mean(raw)


def test_a_lucky_last_score_does_not_decide() -> None:
    steady, lucky = line(*[5.0] * 12), line(*[4.0] * 11, 6.0)
    model = Trend(1.0, d=0.0, v=0.01, q=0.01, r=1.0)
    assert model.follow(lucky)[0][0, 11] < 4.7 < 4.99 < model.follow(steady)[0][0, 11]


def test_a_collapse_counts_at_once() -> None:
    model = Trend(1.0, d=0.0, v=0.01, q=0.01, r=1.0)
    assert model.follow(line(*[5.0] * 11, -50.0))[0][0, 11] == -50.0


def test_told_standard_errors_stand_above_the_estimate() -> None:
    model = Trend(1.0, d=0.0, v=0.01, q=0.01, r=1.0)
    trusted, doubted = (model.follow(line(*[0.0] * 8, 2.0, errors=e))[0][0, 8] for e in (0.01, 5.0))
    assert trusted == pytest.approx(2.0, abs=0.05)
    assert doubted < 0.5
    assert model.follow(line(*[0.0] * 8, 2.0, errors=0.0))[0][0, 8] == 2.0


def test_the_filter_is_the_posterior_mean_of_the_model() -> None:
    d, v, q, r = 0.3, 0.5, 0.2, 1.5
    scores, configs = [1.0, 0.4, 2.1, 2.0, 3.5, 2.2], "aabbbc"
    # Theta relative to the first skill: sums of slopes (one a configuration) and steps; the first skill is unknown.
    n = len(scores)
    slopes, steps = np.zeros((n, 4)), np.tril(np.ones((n, n)))[:, 1:]
    for t in range(1, n):
        # A slope that goes on is that of the letter; the first interval's is that of its own configuration.
        slopes[t:, "abc".index(configs[t])] += 1
    prior = v * slopes @ slopes.T + q * steps @ steps.T + 1e8
    mean = d * np.arange(n)
    weights = np.linalg.solve(prior + r * np.eye(n), np.array(scores) - mean)
    expected = mean + prior @ weights
    found, _ = Trend(1.0, d, v, q, r).follow(line(*scores, configs=configs))
    assert found[0, n - 1] == pytest.approx(expected[-1], abs=1e-5)
