"""Numbers that only fall or only rise along a lineage, whatever the method."""

from itertools import product
from pathlib import Path
from typing import Any

import ConfigSpace as cs
import numpy as np
import pytest

from popbandits import (
    Explorer,
    History,
    Observation,
    Picks,
    Population,
    Selection,
    Space,
    SpaceError,
    cosine,
    linear,
    log,
    only_falls,
    only_rises,
    resume,
    tune,
    warm_up,
)
from popbandits.methods import METHODS
from tests.climber import Climber

NUMBERS = {
    "lr": only_falls(log(1e-5, 1e-1)),
    "clip": only_falls((0.0, 1.0)),
    "batch": only_rises(log(8, 512)),
    "size": only_rises(cs.OrdinalHyperparameter("size", ["small", "middle", "large"])),
    "act": ["relu", "tanh"],
}


def with_rules() -> cs.ConfigurationSpace:
    """Return a space in which a limited number is active for one label, and others exclude one another."""
    optimizer = cs.Categorical("optimizer", ["adam", "sgd"])
    momentum = cs.Float("momentum", (0.0, 1.0), meta={"only": "falls"})
    lr, batch = cs.Float("lr", (0.0, 1.0), meta={"only": "falls"}), cs.Integer("batch", (1, 9), meta={"only": "rises"})
    space = cs.ConfigurationSpace(space=[optimizer, momentum, lr, batch])
    space.add(cs.EqualsCondition(momentum, optimizer, "sgd"))
    small, large = cs.ForbiddenLessThanClause(lr, 0.5), cs.ForbiddenGreaterThanClause(batch, 5)
    space.add(cs.ForbiddenAndConjunction(small, large))
    return space


def play(population: Population, seed: int = 0, failures: float = 0.1) -> History:
    """Train in any order, with scores by which all that only falls should rise, and the other way round."""
    rng, open_ = np.random.default_rng(seed), []
    while not population.done:
        open_ += population.ask()
        assignment = open_.pop(rng.integers(len(open_)))
        wanted = population.space.encode([assignment.config]).x[0]
        signs = [-1 if number.only == "rises" else 1 for number in population.space.numerical]
        score = float(np.nansum(wanted * signs) + 0.3 * rng.normal())
        population.tell(assignment, None if rng.random() < failures else score)
    return population.history


def passed(history: History) -> list[str]:
    """List where a value passes the last one of its lineage."""
    found = []
    for observation in history:
        now = history.space.flatten(history.applied(observation))
        ancestors = [history.space.flatten(history.applied(each)) for each in history.ancestors(observation)][1:]
        for number in history.space.limited:
            before = next((each[number.name] for each in ancestors if number.name in each), None)
            if before is not None and number.name in now:
                change = number.code(now[number.name]) - number.code(before)
                if change * (1 if number.only == "falls" else -1) > 0:
                    found.append(f"{observation.key} {number.name}: {before} -> {now[number.name]}")
    return found


def some_of_all() -> list[Any]:
    """Every method, who explores, scheduler and start; of the eight cases of a method two opposite ones, in turn, and
    the others slow: each method meets every value."""
    starts = {"": None, "schedule": {"lr": cosine(0.05, 1e-4), "batch": linear(16, 256)}}
    every = product(enumerate(METHODS), enumerate(("replaced", "all")), enumerate((True, False)), enumerate(starts))
    return [
        pytest.param(
            *(method, explore, synchronous, starts[start]),
            id=f"{method}-{explore}-{synchronous}-{start}",
            marks=() if (i + j + k) % 2 == (i // 2 + k + m) % 2 == 0 else pytest.mark.slow,
        )
        for (i, method), (j, explore), (k, synchronous), (m, start) in every
    ]


@pytest.mark.parametrize(("method", "explore", "synchronous", "start"), some_of_all())
def test_no_value_passes_its_parents(method: str, explore: Any, synchronous: bool, start: Any) -> None:
    population = Population(NUMBERS, method, 4, 12, explore=explore, synchronous=synchronous, start=start)
    history = play(population)
    assert passed(history) == []
    free = {name: getattr(values, "values", values) for name, values in NUMBERS.items()}
    without = play(Population(free, method, 4, 12, explore=explore, synchronous=synchronous, start=start))
    unlimited = History(Space(NUMBERS).with_schedules(population.space.schedules), without, size=4, rounds=12)
    assert passed(unlimited) or not METHODS[method].make().exploits  # The limits are what holds them.


@pytest.mark.parametrize("synchronous", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_they_hold_beside_conditions_and_forbidden_clauses(method: str, synchronous: bool) -> None:
    population = Population(with_rules(), method, 4, 10, explore="all", synchronous=synchronous)
    assert passed(play(population)) == []


class Highest(Explorer):
    """Proposes the highest value."""

    def explore(self, space: Any, history: Any, pending: Any, parent: Any, rng: Any) -> dict[str, Any]:
        return {"x": 1.0}


def test_what_would_rise_stays_at_the_parents_value() -> None:
    history = [Observation(0, 0, {"x": 0.3}, score=1.0), Observation(1, 0, {"x": 0.7}, score=0.0)]
    settings: dict[str, Any] = {"size": 2, "rounds": 2, "explore": "all", "history": history, "quantile": 0.5}
    limited = Population({"x": only_falls((0.0, 1.0))}, Highest(), **settings)
    assert [each.config["x"] for each in limited.ask()] == [0.3, 0.3]
    other_way = Population({"x": only_rises((0.0, 1.0))}, Highest(), **settings)
    assert [each.config["x"] for each in other_way.ask()] == [1.0, 1.0]


class Crossed(Selection):
    """Gives each of two members its own weights and the other's configuration."""

    def select(self, history: History, members: Any, rng: Any) -> Picks:
        latest = history.member_states().latest[members]
        return Picks(latest, latest[::-1], np.array([True, False]))


def test_the_weights_limit_a_configuration_that_a_selection_took_from_another_member() -> None:
    history = [Observation(0, 0, {"x": 0.3}, score=1.0), Observation(1, 0, {"x": 0.7}, score=0.0)]
    settings: dict[str, Any] = {"size": 2, "rounds": 2, "history": history, "selection": Crossed()}
    limited = Population({"x": only_falls((0.0, 1.0))}, Highest(), **settings)
    assert [each.config["x"] for each in limited.ask()] == [0.3, 0.3]
    other_way = Population({"x": only_rises((0.0, 1.0))}, Highest(), **settings)
    assert [each.config["x"] for each in other_way.ask()] == [1.0, 0.7]


def test_with_a_schedule_the_value_that_trains_is_limited_and_not_the_deviation() -> None:
    history = [Observation(0, 0, {"x": 0.6}, score=1.0)]
    space = {"x": only_falls((0.0, 1.0))}
    start = {"x": linear(0.8, 0.4)}
    settings: dict[str, Any] = {"size": 1, "rounds": 3, "explore": "all", "history": history, "start": start}
    population = Population(space, Highest(), **settings)
    [assignment] = population.ask()
    # Without a limit it would be 1.0 - 0.2. The parent trained with 0.6.
    assert assignment.config["x"] == pytest.approx(0.6, abs=1e-12)
    population.tell(assignment, 1.0)
    assert population.history[1].config["x"] == pytest.approx(0.8, abs=1e-12)


def cornered(**more: Any) -> cs.ConfigurationSpace:
    """Return a space in which x, which only falls, and y exclude one another."""
    x = cs.Float("x", (0.0, 1.0), meta={"only": "falls"})
    y = cs.Float("y", (0.0, 1.0))
    space = cs.ConfigurationSpace(space=[x, y, *more.values()])
    clauses = cs.ForbiddenLessThanClause(x, 0.5), cs.ForbiddenGreaterThanClause(y, 0.5)
    space.add(cs.ForbiddenAndConjunction(*clauses))
    return space


class Corner(Explorer):
    """Proposes 0.9 for every number."""

    def explore(self, space: Any, history: Any, pending: Any, parent: Any, rng: Any) -> dict[str, Any]:
        return {number.name: 0.9 for number in space.numerical}


def test_where_a_rule_of_the_space_forbids_the_limited_value_the_parents_configuration_stays() -> None:
    history = [Observation(0, 0, {"x": 0.2, "y": 0.1}, score=1.0)]
    population = Population(cornered(), Corner(), size=1, rounds=2, explore="all", history=history)
    assert population.ask()[0].config == {"x": 0.2, "y": 0.1}


def test_a_parents_configuration_is_limited_for_a_member_in_an_earlier_round_of_the_schedule() -> None:
    space = cornered(lr=cs.Float("lr", (0.0, 1.0), meta={"only": "falls"}))
    config = {"x": 0.2, "y": 0.1, "lr": 0.9}
    settings: dict[str, Any] = {"size": 2, "rounds": 5, "synchronous": False, "start": {"lr": linear(0.9, 0.1), "y": 0}}
    history = [Observation(0, round_, config, (0, round_ - 1) if round_ else None, score=1.0) for round_ in range(3)]
    history.append(Observation(1, 0, config, score=0.0))
    population = Population(space, Corner(), history=history, **settings)
    slow = population.ask()[1]
    assert (slow.key, slow.parent) == ((1, 1), (0, 2))
    assert slow.config == {"x": 0.2, "y": 0.1, "lr": pytest.approx(0.5)}  # What member 0 trained with in round 2.


def test_a_stopped_run_goes_on_with_its_limits(tmp_path: Path) -> None:
    space = {"step": only_falls((0.0, 0.5)), "noise": only_rises((0.0, 0.1)), "way": ["up", "down"]}
    whole = tune(Climber, space, "pbt", rounds=6, explore="all", directory=tmp_path / "whole", progress=False)
    tune(Climber, space, "pbt", rounds=3, explore="all", directory=tmp_path / "run", progress=False)
    resumed = resume(tmp_path / "run", rounds=6, progress=False)
    assert list(resumed.history) == list(whole.history)
    assert [number.only for number in resumed.history.space.limited] == ["rises", "falls"]
    assert passed(resumed.history) == []


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"x": only_falls(["a", "b"])}, r"^'x': only a number or an ordinal can be one that only falls, got x: one of"),
        ({"x": only_rises(3)}, r"^'x': only a number or an ordinal can be one that only rises, got x: always 3; drop"),
        (
            cs.ConfigurationSpace(space=[cs.Float("x", (0.0, 1.0), meta={"only": "down"})]),
            r"^'x': a number only 'falls' or only 'rises', got 'down'; write one of the two$",
        ),
        (
            cs.ConfigurationSpace({"x": only_rises((0.0, 1.0))}),
            r"^'x': only_rises\(\) belongs in a dict, got only_rises\(\(0.0, 1.0\)\) in a ConfigurationSpace; write Fl",
        ),
        ({"x": only_falls((1.0, 0.0))}, r"^'x': the lower bound comes first, got \(1.0, 0.0\); swap the two$"),
    ],
)
def test_a_limit_that_cannot_be_is_refused(space: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        Space(space)


def test_a_schedule_against_the_limit_is_refused() -> None:
    message = r"^'x': a number that only falls needs a schedule that only falls, got the values 0.1, 0.5, 0.3, "
    with pytest.raises(SpaceError, match=message):
        Population({"x": only_falls((0.0, 1.0))}, rounds=3, start={"x": warm_up(0.1, linear(0.5, 0.3), share=0.5)})
