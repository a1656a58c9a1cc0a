"""Evidence that scores accumulate: positive for running totals, not for noisy levels, and 0 without comparisons."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from popbandits.basics.typing import FloatArray
from popbandits.history import History, Mode, Observation
from popbandits_experiments.methods import Patient
from popbandits_experiments.methods.accumulation import CHANCE, EVIDENCE_WINDOW, MIN_ROUNDS, accumulation
from popbandits_experiments.methods.patient_pbt import TRUSTED
from tests.selection.histories import SPACE


def history_of(
    scores: FloatArray, configs: Callable[[int, int], float] = lambda member, round_: member / 100, mode: Mode = "max"
) -> History:
    """Members that keep their weights, with these (rounds, members) scores."""
    made = History(SPACE, mode=mode, size=scores.shape[1], rounds=100)
    for round_, row in enumerate(scores):
        for member, score in enumerate(row.tolist()):
            fresh = round_ == 0 or math.isnan(scores[round_ - 1, member])
            parent, before = (None, math.nan) if fresh else ((member, round_ - 1), scores[round_ - 1, member])
            status = "failed" if math.isnan(score) else "completed"
            config = {"x": configs(member, round_)}
            made.append(Observation(member, round_, config, parent, before, score, status=status))
    return made


def totals(rounds: int, members: int = 4) -> FloatArray:
    """Each member gains its own amount in every round."""
    return np.cumsum(np.tile(np.arange(1.0, members + 1), (rounds, 1)), axis=0)


def test_a_noiseless_total_is_full_evidence() -> None:
    assert accumulation(history_of(totals(6))) == 1.0


def test_where_less_is_better_a_falling_total_is_the_same_evidence() -> None:
    assert accumulation(history_of(-totals(6), mode="min")) == 1.0
    assert accumulation(history_of(-totals(6), mode="max")) == 1.0  # Losses repeat, and the leader loses least.


def test_levels_with_noise_are_evidence_against() -> None:
    rng = np.random.default_rng(0)
    levels = [accumulation(history_of(rng.normal(size=(30, 4)))) for _ in range(20)]
    assert max(levels) < -0.1
    assert np.mean(levels) < -0.25


def test_leaders_must_pull_away_too() -> None:
    """Members that rise at their own pace, the last fastest, repeat their gains, but nobody who leads gains most."""
    catching_up = totals(6) + np.array([1000.0, 500.0, 200.0, 0.0])
    assert accumulation(history_of(catching_up)) == -1.0


def test_gains_must_be_steady_too() -> None:
    """The leader gains most in every round, but every second round hardly anything."""
    gains = np.outer([1000.0 if round_ % 2 else 1.0 for round_ in range(8)], np.arange(1.0, 5.0))
    assert accumulation(history_of(np.cumsum(gains, axis=0))) < -0.3


def test_members_that_stand_still_do_not_gain_steadily() -> None:
    assert accumulation(history_of(np.tile(np.arange(4.0), (8, 1)))) < -0.3


def test_independent_changes_are_as_steady_as_chance() -> None:
    now, before = np.random.default_rng(0).normal(size=(2, 200_000))
    assert 1 - np.mean(np.abs(now - before) / (np.abs(now) + np.abs(before))) == pytest.approx(CHANCE, abs=2e-3)


def test_a_learning_curve_that_flattens_is_weaker_evidence_than_a_total() -> None:
    """The leaders gain less and less, as in training: their lead shrinks."""
    flattening = 1 - np.exp(-np.outer(np.arange(1.0, 13.0), [0.2, 0.4, 0.6, 0.8]))
    assert accumulation(history_of(flattening)) < 0 < accumulation(history_of(totals(12)))


LANDER = np.array(
    [
        [-75, -109, -163, -170],
        [-55, -106, -144, -164],
        [52, -484, -149, -155],
        [102, -108, -139, -121],
        [138, -43, -127, -104],
        [135, -31, -137, -108],
        [156, -27, -145, -122],
    ],
    dtype=float,
)
"""Scores of a run on the lunar lander: one member learns, one collapses and recovers, two stand still."""


def test_a_population_in_which_some_learn_and_some_do_not_is_weak_evidence() -> None:
    """Its leader pulls away, and gains repeat in rank, but not in size."""
    low, high = TRUSTED
    assert accumulation(history_of(LANDER)) < (low + high) / 2 < accumulation(history_of(totals(len(LANDER))))


def test_too_few_rounds_are_no_evidence() -> None:
    """The first change has no change before it, and the first score no score before it."""
    for rounds in range(MIN_ROUNDS + 2):
        assert accumulation(history_of(totals(rounds))) == 0.0
    assert accumulation(history_of(totals(MIN_ROUNDS + 2))) == 1.0


def test_new_configurations_and_failures_are_not_compared() -> None:
    moving = history_of(totals(8), configs=lambda member, round_: (member + round_) / 20)
    assert accumulation(moving) == 0.0
    scores = totals(8)
    scores[:, :3] = np.nan
    assert accumulation(history_of(scores)) == 0.0


def test_only_recent_rounds_are_looked_at() -> None:
    early, late = totals(30, 16), np.random.default_rng(0).normal(size=(EVIDENCE_WINDOW // 16, 16))
    assert accumulation(history_of(np.concatenate([early, late]))) < 0


def test_one_member_is_never_compared() -> None:
    assert accumulation(history_of(totals(9, members=1))) == 0.0


@pytest.mark.parametrize(("adaptive", "ends"), [(True, MIN_ROUNDS + 2), (False, 25)])
def test_a_warm_up_ends_early_if_scores_accumulate(adaptive: bool, ends: int) -> None:
    """A quarter of 100 rounds is 25."""
    for rounds in (ends - 1, ends):
        history = history_of(totals(rounds))
        picks = Patient(adaptive=adaptive).select(history, np.arange(4), np.random.default_rng(0))
        assert picks.explores.any() == (rounds == ends)
