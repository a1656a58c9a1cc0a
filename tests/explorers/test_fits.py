"""How models are fitted in a run: once a round, from the last fit, on a bounded part of the history, or not at all."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits.explorers import CoCaBO, PB2Fuse, PB2Mix, PB2Mult, PB2Rand, surrogate
from popbandits.explorers.surrogate import Arms
from popbandits.history import History, Observation
from popbandits.models.gp import NotFittedError, Posterior
from popbandits.population import Population
from tests.explorers.histories import ask, peak, trained

MIXED = {"h": ["a", "b", "c"], "x": (0.0, 1.0)}
MODELS = (PB2Rand, PB2Mult, PB2Mix, PB2Fuse, CoCaBO)


def play(population: Population, until: int | None = None) -> Population:
    while not population.done and (until is None or len(population.history) < until):
        for assignment in population.ask():
            config = assignment.config
            gain = peak(config["x"], 0.3) + 0.2 * (config.get("h") == "b")
            population.tell(assignment, assignment.round + gain)
    return population


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every call of `fit` from now on: (likelihood, guesses)."""
    calls: list[Any] = []
    original = surrogate.fit

    def watched(likelihood: Any, guesses: Any, *rest: Any) -> Any:
        calls.append((likelihood, guesses))
        return original(likelihood, guesses, *rest)

    monkeypatch.setattr(surrogate, "fit", watched)
    return calls


@pytest.mark.parametrize("method", [PB2Rand, PB2Mix, PB2Fuse, CoCaBO])
def test_one_fit_serves_all_members_of_a_round(method: type[PB2Mix], fits: list[Any]) -> None:
    population = Population(MIXED, method(), size=5, rounds=6, explore="all")
    play(population, until=15)
    fits.clear()
    assert len(population.ask()) == 5
    assert len(fits) == 1


def test_pb2_mult_fits_once_for_each_label_that_is_drawn(fits: list[Any]) -> None:
    population = Population(MIXED, PB2Mult(), size=8, rounds=9, explore="all")
    play(population, until=56)
    fits.clear()
    labels = {assignment.config["h"] for assignment in population.ask()}
    assert len(fits) == len(labels) == 3


@pytest.mark.parametrize("method", MODELS)
def test_what_was_fitted_is_in_the_recorded_decision(method: type[PB2Mix]) -> None:
    history = play(Population(MIXED, method(), rounds=7, explore="all")).history
    last = [observation for observation in history if observation.round == 6]
    assert all(o.fallback is None and np.isfinite(o.decision["theta"]).all() for o in last)
    assert all(np.isfinite(o.decision["log_posterior"]) for o in last)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("method", MODELS)
def test_the_next_fit_starts_from_the_last(method: type[PB2Mix], stored: bool, fits: list[Any], tmp_path: Path) -> None:
    population = play(Population(MIXED, method(), rounds=8, explore="all"), until=24)
    if stored:
        population.history.save(tmp_path)
        population = Population(MIXED, method(), rounds=8, explore="all", history=History.load(tmp_path))
    recorded = [o.decision["theta"] for o in reversed(population.history) if "theta" in o.decision]
    fits.clear()
    population.ask()
    assert fits
    for likelihood, guesses in fits:
        assert guesses[0][likelihood.structure.free].tolist() in recorded
    if method is not PB2Mult:
        assert guesses[0][likelihood.structure.free].tolist() == recorded[0]


def test_a_first_fit_has_cold_starts_alone_and_later_ones_take_them_up_now_and_then(fits: list[Any]) -> None:
    play(Population(MIXED, PB2Mix(), rounds=30, explore="all", size=2))
    starts = [len(guesses) for _, guesses in fits]
    cold = starts[0]
    assert cold >= 2
    assert set(starts[1:]) == {1, 1 + cold}, "warm alone, or warm and cold"
    assert 2 < starts.count(1 + cold) < len(starts) - 2


def test_cold_starts_are_taken_up_when_a_tenth_of_the_rows_is_new(fits: list[Any]) -> None:
    play(Population(MIXED, PB2Mix(window=None), rounds=40, explore="all", size=2))
    rows = [likelihood.pairs.n for likelihood, _ in fits]
    assert rows == list(range(rows[0], 80, 2))
    taken, last = [], None
    for count in rows:
        if last is None or 10 * (count - last) >= count:
            last = count
        taken.append(last == count)
    assert [len(guesses) > 1 for _, guesses in fits] == taken
    assert taken[rows.index(20)], "2 of 20 are a tenth exactly"


WINDOWS = [
    pytest.param(method, window, marks=() if method is PB2Mix or window in (1, 7, 13) else pytest.mark.slow)
    for method in MODELS
    for window in (1, 2, 3, 7, 12, 13)
]
"""One method has every window; the others share the code that cuts, and have some."""


@pytest.mark.parametrize(("method", "window"), WINDOWS)
def test_the_window_bounds_what_a_decision_looks_at(
    method: type[PB2Mix], window: int, fits: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watched(space: Any, rows: Any, *rest: Any, **named: Any) -> Arms:
        seen.append(len(rows))
        return Arms(space, rows, *rest, **named)

    monkeypatch.setattr("popbandits.explorers.surrogate.Arms", watched)  # what a model explorer makes
    play(Population(MIXED, method(window=window), rounds=10, explore="all"))
    assert all(likelihood.pairs.n <= window for likelihood, _ in fits)
    assert all(count <= window for count in seen)
    if method is not PB2Rand:
        assert max(seen) >= min(window, 4), "and it looks at something"
    if window >= 7:
        assert max(likelihood.pairs.n for likelihood, _ in fits) >= 4


def test_without_a_window_everything_is_used(fits: list[Any]) -> None:
    play(Population(MIXED, PB2Mix(window=None), rounds=10, explore="all"))
    assert max(likelihood.pairs.n for likelihood, _ in fits) == 36


def test_the_model_predicts_for_the_round_about_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    history = trained(MIXED, lambda config, _: config["x"], rounds=6)
    times = []
    original = surrogate.maximise

    def watched(bound: Any, *rest: Any, **named: Any) -> Any:
        times.append(bound.time)
        return original(bound, *rest, **named)

    monkeypatch.setattr(surrogate, "maximise", watched)
    ask(PB2Mix(), history, members=2)
    assert times == [6.0, 6.0]


def test_the_score_before_can_be_what_decides() -> None:
    """Weak members gain at 0.2, strong ones at 0.8."""

    def gain(config: Any, member: int) -> float:
        return peak(config["x"], 0.2 if member < 2 else 0.8)

    history = History({"x": (0.0, 1.0)}, size=4, rounds=50)
    rng = np.random.default_rng(0)
    for round_ in range(10):
        for member in range(4):
            config = {"x": float(rng.random())}
            before = 0.0 if member < 2 else 100.0
            parent = None if round_ == 0 else (member, round_ - 1)
            history.append(Observation(member, round_, config, parent, before, before + gain(config, member)))
    for member, best in ((0, 0.2), (3, 0.8)):
        parent = history.latest(member)
        assert parent is not None
        start = Observation(member, 9, parent.config, score=parent.score_before)
        config = PB2Mix(c1=0.0, score_before=True).explore(history.space, history, [], start, np.random.default_rng(0))
        assert config["x"] == pytest.approx(best, abs=0.15)


def test_where_scores_begin_does_not_matter_where_the_score_before_is_an_input() -> None:
    chosen = []
    for begin in (0.0, 1000.0):
        history = History({"x": (0.0, 1.0)}, size=4, rounds=50)
        rng = np.random.default_rng(0)
        for round_ in range(8):
            for member in range(4):
                config, before = {"x": float(rng.random())}, begin + 10.0 * round_ + member
                parent = None if round_ == 0 else (member, round_ - 1)
                after = before + peak(config["x"], 0.2 + 0.1 * round_)
                history.append(Observation(member, round_, config, parent, before, after))
        proposals = ask(PB2Mix(c1=0.0, score_before=True), history, members=3)
        chosen.append([proposal.config["x"] for proposal in proposals])
    assert chosen[0] == pytest.approx(chosen[1], abs=1e-3)


@pytest.mark.parametrize("before", [math.nan, 7.0])
def test_without_a_range_of_scores_before_the_parents_score_is_not_taken_as_it_is(before: float) -> None:
    history = History({"x": (0.0, 1.0)}, size=4, rounds=50)
    for member in range(4):
        history.append(Observation(member, 0, {"x": member / 4}, None, before, 1000.0 + member))
    models = surrogate.Models(PB2Mix(score_before=True), history.space, history)
    bound = models.at(np.zeros(0, dtype=np.int64)).bound(history, history.latest(3))
    assert bound.context is not None
    assert bound.context.tolist() == [[0.5]]


def test_a_new_score_is_at_most_one_range_outside_those_before() -> None:
    scale = surrogate.BeforeScale.of(np.array([10.0, math.nan, 12.0]), edition=2)
    assert scale(np.array([10.0, 11.0, 13.0, 500.0, -500.0, math.nan])).tolist() == [0.0, 0.5, 1.5, 2.0, -1.0, 0.5]
    old = surrogate.BeforeScale.of(np.array([math.nan]), edition=1)
    assert old(np.array([1000.0])).tolist() == [1000.0]


def test_where_training_failed_is_kept_away_from() -> None:
    history = trained({"x": (0.0, 1.0)}, lambda config, _: np.nan if config["x"] > 0.5 else config["x"], rounds=10)
    x = [ask(PB2Mix(c1=0.0), history, seed=seed)[0].config["x"] for seed in range(5)]
    assert max(x) < 0.55


# When there is no model


@pytest.mark.parametrize("method", MODELS)
def test_a_model_that_cannot_be_fitted_never_stops_a_run_and_the_observations_say_so(
    method: type[PB2Mix], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: Any) -> Any:
        raise NotFittedError("the matrix is singular")

    monkeypatch.setattr(surrogate, "fit", fails)
    history = play(Population(MIXED, method(), rounds=4, explore="all")).history
    assert len(history) == 16
    late = [observation for observation in history if observation.round > 1]
    assert {observation.fallback for observation in late if observation.fallback} >= {"the matrix is singular"}
    assert all(observation.fallback for observation in late)
    assert len({observation.config["x"] for observation in late}) == len(late), "drawn, not repeated"


@pytest.mark.parametrize("method", MODELS)
def test_a_posterior_that_cannot_be_extended_never_stops_a_run(
    method: type[PB2Mix], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(posterior: Any, pending: Any) -> Any:
        if len(pending):
            raise NotFittedError("the factor cannot be extended")
        return posterior

    monkeypatch.setattr(Posterior, "condition", fails)
    history = play(Population(MIXED, method(), rounds=7, explore="all")).history
    assert len(history) == 28
    assert "the factor cannot be extended" in {observation.fallback for observation in history}


def test_too_few_observations_are_no_model_and_the_observation_says_so() -> None:
    space = dict.fromkeys("xabcd", (0.0, 1.0))
    history = play(Population(space, PB2Mix(), rounds=3, explore="all")).history
    assert {o.fallback for o in history if o.round == 0} == {None}
    assert {o.fallback for o in history if o.round == 1} == {"4 observations are too few for 5 numerical parameters"}
    assert {o.fallback for o in history if o.round == 2} == {None}


@pytest.mark.parametrize(("numbers", "enough"), [("xabc", False), ("xab", True)])
def test_one_observation_more_than_there_are_numbers_is_enough_for_a_model(numbers: str, enough: bool) -> None:
    history = play(Population(dict.fromkeys(numbers, (0.0, 1.0)), PB2Mix(), rounds=2, explore="all")).history
    assert all((o.fallback is None) == enough for o in history if o.round == 1)


def test_a_fallback_survives_storage(tmp_path: Path) -> None:
    space = dict.fromkeys("xabcd", (0.0, 1.0))
    history = play(Population(space, PB2Mix(), rounds=2, explore="all")).history
    history.save(tmp_path)
    assert [o.fallback for o in History.load(tmp_path)] == [o.fallback for o in history]


@pytest.mark.parametrize("name", ["theta", "scope", "fallback", "refreshed", "probabilities"])
def test_a_variable_may_have_the_name_of_something_recorded(name: str, fits: list[Any]) -> None:
    history = play(Population({name: ["a", "b"], "x": (0.0, 1.0)}, PB2Mix(), rounds=5, explore="all")).history
    assert all(o.fallback is None for o in history if o.round > 1)
    assert len(history[-1].decision["probabilities"][name]) == 2
    likelihood, guesses = fits[-1]
    theta = next(o.decision["theta"] for o in reversed(history.prefix(16)))
    assert guesses[0][likelihood.structure.free].tolist() == theta, "the last fit was found"


def test_a_model_of_continued_intervals_does_not_blame_a_new_value_for_its_parents_luck() -> None:
    """More is better, but whoever takes a new value was copied from a lucky member, and falls first."""
    history = History({"x": (0.0, 1.0)}, size=4, rounds=50)
    rng = np.random.default_rng(0)
    x = [0.0, 0.05, 0.1, 0.15]
    score = [0.0] * 4
    for round_ in range(12):
        for member in range(4):
            copied = round_ % 2 == 1 and member > 1
            if copied:
                x[member] = 0.2 + 0.8 * rng.random()
            before, score[member] = score[member], score[member] + x[member] - 5.0 * copied
            parent = None if round_ == 0 else (member, round_ - 1)
            history.append(Observation(member, round_, {"x": x[member]}, parent, before, score[member]))
    chosen = {
        only: ask(PB2Mix(c1=0.0, continued_only=only), history, members=1)[0].config["x"] for only in (False, True)
    }
    assert chosen[False] < 0.3
    assert chosen[True] > 0.8
    models = surrogate.Models(PB2Mix(continued_only=True), history.space, history)
    assert len(models.rows) == len(history) - 4 - 2 * 6
