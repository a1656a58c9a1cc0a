"""Restarts: everybody starts afresh when progress ends, and selects less often from then on."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from popbandits.errors import ArgumentError
from popbandits.explorers import PBT
from popbandits.history import History
from popbandits.population import Population
from popbandits.selection import Selection, Truncation
from popbandits_experiments.methods import Restarts, Smoothed, TTest
from popbandits_experiments.methods.ipbt import is_stuck, posterior, smooth
from tests.selection.histories import SPACE, history_of

Score = Callable[[Any, float, int], float]
"""(assignment, score of its parent or 0, intervals since the fresh start) -> score."""


def play(selection: Selection, score: Score, rounds: int = 20, synchronous: bool = True) -> History:
    population = Population(SPACE, PBT(), 4, rounds, seed=1, selection=selection, synchronous=synchronous)
    history, chance = population.history, np.random.default_rng(0)
    waiting: list[Any] = []
    while not population.done:
        waiting += population.ask()
        assignment = waiting.pop(0 if synchronous else int(chance.integers(len(waiting))))
        before = 0.0 if assignment.parent is None else history[history.index_of(assignment.parent)].score
        population.tell(assignment, score(assignment, before, history.stage(assignment.parent)))
    return history


def stalling(assignment: Any, before: float, age: int) -> float:
    """Rise for two intervals after a fresh start, and fall from then on; the higher, the larger x was at the start."""
    return float(assignment.config["x"]) if age == 0 else before + (1.0 if age <= 2 else -0.5)


def rising(assignment: Any, before: float, age: int) -> float:
    return before + float(assignment.config["x"])


def starts(history: History) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for o in history:
        if o.parent is None and o.round:
            found.setdefault(o.round, []).append(o.member)
    return found


def test_everybody_starts_afresh_after_three_intervals_without_improvement_and_the_interval_doubles() -> None:
    history = play(Restarts(), stalling, rounds=60)
    first, second = list(starts(history))[:2]
    assert first == 6  # Three rounds rise, three do not.
    assert (second - first) % 2 == 0
    assert second - first >= 2 * 4
    assert all(sorted(members) == [0, 1, 2, 3] for members in starts(history).values())
    moved = [o.round for o in history if o.parent is not None and o.parent[0] != o.member]
    assert any(round_ % 2 for round_ in moved if round_ < first)
    assert {(round_ - first) % 2 for round_ in moved if first < round_ < second} == {0}
    kept = play(Restarts(growth=1), stalling, rounds=60)
    assert [after - before for before, after in pairwise(starts(kept))] == [6] * (len(starts(kept)) - 1)


def test_half_of_a_new_start_keeps_the_first_configurations_that_came_furthest() -> None:
    history = play(Restarts(), stalling)
    [first] = starts(history)
    before = history[: 4 * first]
    again = [history[history.index_of((member, first))].config for member in range(4)]
    reached = {o.key: max(each.score for each in before if history.lineage(each)[0] == o) for o in before[:4]}
    best = sorted(reached, key=lambda key: -reached[key])
    assert again[1::2] == [history[history.index_of(key)].config for key in best[:2]]
    assert not [config for config in again[::2] if config in [o.config for o in before]]


def test_a_run_that_gets_ahead_selects_as_the_selection_within() -> None:
    history = play(Restarts(), rising)
    assert not starts(history)
    assert history == play(Truncation(), rising)


def test_nobody_starts_afresh_without_time_for_two_more_intervals() -> None:
    assert list(starts(play(Restarts(), stalling, rounds=10))) == [6]
    assert not starts(play(Restarts(), stalling, rounds=9))


def test_asynchronous_members_follow_one_by_one_and_leave_the_old_weights_behind() -> None:
    history = play(Restarts(), stalling, rounds=40, synchronous=False)
    begun: dict[tuple[int, int], int] = {}  # by observation: how often its weights, or its member, had started afresh
    for o in history:
        own = begun.get((o.member, o.round - 1), 0)
        begun[o.key] = begun[o.parent] if o.parent else own + (o.round > 0)
        assert begun[o.key] >= own, f"member {o.member} went back to weights from before a start in round {o.round}"
    assert len(starts(history)) > 1  # not in the same round
    assert {begun[member, 39] for member in range(4)} in ({1}, {2})


def test_failures_are_replaced_between_two_selections_too() -> None:
    fresh = {(member, 4): None for member in range(4)}
    scores = [[1.0, 2.0, 3.0, 4.0]] * 4 + [[4.0, 3.0, np.nan, 1.0]]
    history = history_of(scores, fresh)  # After a start the interval is two rounds, of which one is over.
    picks = Restarts().select(history, np.arange(4), np.random.default_rng(0))
    assert picks.weights.tolist() == [16, 17, 16, 19]
    assert picks.explores.tolist() == [False, False, True, False]


def test_noise_is_smoothed_before_progress_is_judged() -> None:
    rng = np.random.default_rng(0)
    line = np.arange(14) / 4
    noisy = [line + 0.3 * rng.normal(size=14) for _ in range(40)]
    assert sum(is_stuck(y, 1) for y in noisy) <= 4
    assert sum(y[-1] < y[-2] for y in noisy) >= 8
    falling = [np.append(y, y[-1] - 0.5 * np.arange(1, 6)) for y in noisy]
    assert sum(is_stuck(y, 3) for y in falling) >= 36
    scale = [y.std() for y in noisy]
    errors = [np.abs(smooth(y) - (line - y.mean()) / s).mean() for y, s in zip(noisy, scale, strict=True)]
    assert np.mean(errors) < 0.8 * np.mean([np.abs(y - line).mean() / s for y, s in zip(noisy, scale, strict=True)])


@pytest.mark.parametrize(("length", "noise"), [(0.1, 0.03), (0.8, 0.3), (1.6, 3.0)])
def test_the_smoother_is_scikit_learns(length: float, noise: float) -> None:
    gaussian_process = pytest.importorskip("sklearn.gaussian_process")
    kernels = gaussian_process.kernels
    x, y = np.linspace(0, 1, 9)[:, None], np.random.default_rng(1).normal(size=9)
    log, mean = posterior(y, length, noise)
    k = kernels.Matern(length, nu=2.5)
    s = y @ np.linalg.solve(k(x) + noise * np.eye(9), y) / 9
    theirs = gaussian_process.GaussianProcessRegressor(s * k + kernels.WhiteKernel(s * noise), optimizer=None).fit(x, y)
    assert mean == pytest.approx(theirs.predict(x), rel=1e-6)
    assert log - 4.5 * (1 + np.log(2 * np.pi)) == pytest.approx(theirs.log_marginal_likelihood(), rel=1e-6)


def test_slow_progress_ends_a_start_at_once() -> None:
    creeping = np.concatenate([[0.0, 5.0, 9.0], 10 + 0.01 * np.arange(17)])
    assert is_stuck(creeping, patience=100)
    assert not is_stuck(creeping[:14], patience=100)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Restarts(patience=0), "patience must be a whole number of at least 1, got 0"),
        (lambda: Restarts(growth=0.5), "growth must be a whole number of at least 1, got 0.5"),
        (lambda: Restarts(within="t-test"), "within must be a Selection, or None for truncation, got 't-test'"),
        (lambda: Restarts(0.3, within=TTest()), "quantile must be that of within, 0.25, got 0.3; leave it out"),
        (lambda: Restarts(quantile=0.7), "quantile must be above 0 and at most 0.5, got 0.7"),
    ],
)
def test_a_wrong_setting_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


def test_the_quantile_is_that_of_the_selection_within() -> None:
    assert Restarts().quantile == 0.25
    assert Restarts(within=Smoothed(0.5)).quantile == 0.5
    assert Restarts(within=Smoothed(0.5)) == Restarts(0.5, within=Smoothed(0.5))
