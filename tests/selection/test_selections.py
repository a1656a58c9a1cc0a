"""The contract of selections: every strategy keeps it, and the suite finds who does not."""

import random
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from popbandits.errors import ArgumentError
from popbandits.explorers import PBT, RandomSearch
from popbandits.history import History
from popbandits.history.memory import NO_INDEX
from popbandits.population import Population
from popbandits.selection import Picks, Selection, Truncation
from popbandits_experiments.contracts import SELECTION_CHECKS, check_selection

SPACE = {"x": (0.0, 1.0)}
STRATEGIES = [
    Truncation(),
]


def some_of_all() -> list[Any]:
    """Every strategy and rule; with other arguments than a strategy's own, every other rule is slow."""
    usual = [type(strategy)() for strategy in STRATEGIES]
    every = product(enumerate(STRATEGIES), enumerate(SELECTION_CHECKS))
    return [
        pytest.param(
            each, check, id=f"{each!r}-{check}", marks=() if each in usual or (i + j) % 2 else pytest.mark.slow
        )
        for (i, each), (j, check) in every
    ]


@pytest.mark.parametrize(("selection", "check"), some_of_all())
def test_every_selection_keeps_every_rule(selection: Selection, check: str) -> None:
    SELECTION_CHECKS[check](selection)


class Spoilt(Truncation):
    """Correct, for the others below to spoil."""

    def spoil(self, picks: Picks, history: History, members: Any, rng: Any) -> Any:
        return picks

    def select(self, history: History, members: Any, rng: np.random.Generator) -> Picks:
        return self.spoil(super().select(history, members, rng), history, members, rng)  # type: ignore[no-any-return]


class ForgetsAMember(Spoilt):
    def spoil(self, picks: Picks, history: History, members: Any, rng: Any) -> Any:
        return picks[np.arange(len(members))[1:]]


class LoadsLostOrFailedWeights(Spoilt):
    def spoil(self, picks: Picks, history: History, members: Any, rng: Any) -> Any:
        return replace(picks, weights=history.member_states().latest[members])


class LoadsRemovedWeights(Spoilt):
    def spoil(self, picks: Picks, history: History, members: Any, rng: Any) -> Any:
        return replace(picks, weights=np.zeros_like(picks.weights))


class KeepsNoConfiguration(Spoilt):
    def spoil(self, picks: Picks, history: History, members: Any, rng: Any) -> Any:
        return replace(picks, config=np.full_like(picks.config, NO_INDEX))


class GivesUpOnFailures(Spoilt):
    def spoil(self, picks: Picks, history: History, members: Any, rng: Any) -> Any:
        failed = np.array([history[int(place)].failed for place in history.member_states().latest[members]], dtype=bool)
        weights = np.where(failed, NO_INDEX, picks.weights)
        return Picks(weights, weights, picks.explores)


class LoadsFromTheBestEver(Spoilt):
    """Also for a population of one."""

    def spoil(self, picks: Picks, history: History, members: Any, rng: Any) -> Any:
        best = [] if history.best is None or history.lost else [history.index_of(history.best.key)]
        return picks if not best else replace(picks, weights=np.full_like(picks.weights, best[0]))


class UsesAGlobalGenerator(Spoilt):
    def spoil(self, picks: Picks, history: History, members: Any, rng: Any) -> Any:
        random.random()
        return picks


class Remembers(Spoilt):
    asked: list[int] = []  # noqa: RUF012

    def spoil(self, picks: Picks, history: History, members: Any, rng: Any) -> Any:
        self.asked.append(len(history))
        return replace(picks, explores=np.ones_like(picks.explores)) if len(self.asked) % 2 else picks


class ChangesTheHistory(Spoilt):
    def spoil(self, picks: Picks, history: History, members: Any, rng: Any) -> Any:
        history[0].config["x"] = 0.123
        return picks


class IgnoresTheDirection(Truncation):
    def select(self, history: History, members: Any, rng: np.random.Generator) -> Picks:
        turned = History(history.space, history, mode="max", size=history.size)
        return super().select(turned, members, rng)


class BreaksTiesByNumber(Truncation):
    def select(self, history: History, members: Any, rng: np.random.Generator) -> Picks:
        return super().select(history, members, np.random.default_rng(0))


class Raises(Truncation):
    def select(self, history: History, members: Any, rng: np.random.Generator) -> Picks:
        raise ZeroDivisionError("no failures, please")


@pytest.mark.parametrize(
    ("faulty", "message"),
    [
        (ForgetsAMember, "picks what there is: with some rounds, ForgetsAMember must return Picks for 4 members"),
        (LoadsLostOrFailedWeights, "picks what there is: with a population of one, failing, .* weights that are kept"),
        (LoadsRemovedWeights, "picks what there is: with some rounds, .* weights that are kept.*got index 0"),
        (KeepsNoConfiguration, "picks what there is: .*must pick configurations of the history"),
        (GivesUpOnFailures, "replaces what failed: with .* failed and must load available weights"),
        (LoadsFromTheBestEver, "leaves one member alone: a population of one must continue with its own weights"),
        (UsesAGlobalGenerator, "decides by its arguments alone: .*it used a global one"),
        (Remembers, "decides by its arguments alone: .*equal questions must have equal answers"),
        (ChangesTheHistory, "leaves its arguments alone: with some rounds, a selection must not change its arguments"),
        (IgnoresTheDirection, "turns with the direction: .*it must minimise as it maximises"),
        (BreaksTiesByNumber, "breaks ties at random: ties must be broken at random, got members"),
        (Raises, "picks what there is: Raises must cope with some rounds, got ZeroDivisionError"),
    ],
)
def test_the_suite_finds_what_is_wrong(faulty: type[Selection], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_selection(faulty())


# How a population uses a selection


@dataclass(frozen=True)
class Fixed(Selection):
    """Picks what it is told, for two members after their first round."""

    weights: tuple[int, int]
    config: tuple[int, int]
    explores: tuple[bool, bool]

    def select(self, history: History, members: Any, rng: np.random.Generator) -> Picks:
        return Picks(np.array(self.weights), np.array(self.config), np.array(self.explores))


def second_round(selection: Selection, method: Any = None) -> tuple[Any, list[Any]]:
    population = Population(SPACE, method or PBT(resample=0.0), size=2, rounds=2, seed=1, selection=selection)
    for assignment in population.ask():
        population.tell(assignment, float(assignment.member))
    return population, population.ask()


def test_weights_and_hyperparameters_may_come_from_two_parents() -> None:
    population, (first, second) = second_round(Fixed((1, 1), (0, 1), (False, False)))
    assert first.parent == second.parent == (1, 0)
    assert first.config == population.history[0].config
    assert second.config == population.history[1].config


def test_an_explorer_perturbs_the_configuration_that_was_picked_from_the_weights_that_were() -> None:
    asked = []

    class Asks(PBT):
        def explore(self, space: Any, history: Any, pending: Any, parent: Any, rng: Any) -> Any:
            asked.append(parent)
            return super().explore(space, history, pending, parent, rng)

    population, (first, second) = second_round(Fixed((1, 1), (0, 1), (True, False)), Asks(resample=0.0))
    (parent,) = asked
    assert (parent.key, parent.score, parent.config) == ((1, 0), 1.0, population.history[0].config)
    assert first.parent == (1, 0)
    assert first.config["x"] / population.history[0].config["x"] == pytest.approx(0.8, abs=0.41)
    assert second.config == population.history[1].config


def test_a_fresh_start_may_keep_a_configuration_or_explore() -> None:
    population, (first, second) = second_round(Fixed((NO_INDEX, NO_INDEX), (1, NO_INDEX), (False, True)))
    assert first.parent is second.parent is None
    assert first.config == population.history[1].config
    assert second.config not in [o.config for o in population.history]


@pytest.mark.parametrize(
    ("picks", "message"),
    [
        (((5, 0), (0, 0), (True, True)), "Fixed must pick weights that are kept, .* got index 5"),
        (
            ((0, 1), (0, 2), (False, False)),
            "must pick configurations of the history, indices 0 to 1, got index 2",
        ),
        (
            ((0, NO_INDEX), (0, NO_INDEX), (False, False)),
            "got index -1; NO_INDEX is for fresh starts that explore",
        ),
    ],
)
def test_a_population_refuses_picks_that_cannot_be(picks: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        second_round(Fixed(*picks))


def test_a_method_that_never_exploits_is_not_asked_for_a_selection() -> None:
    _, (first, second) = second_round(Fixed((5, 5), (5, 5), (True, True)), RandomSearch())
    assert first.parent == (0, 0)
    assert second.parent == (1, 0)


def test_a_quantile_changes_that_of_the_methods_selection_and_given_twice_must_agree() -> None:
    assert Population(SPACE, PBT()).selection == Truncation(0.25)
    assert Population(SPACE, PBT(), quantile=0.5).selection == Truncation(0.5)
    assert Population(SPACE, quantile=0.5, selection=Truncation(0.5)).quantile == 0.5
    with pytest.raises(ArgumentError, match=r"quantile must be that of selection, 0.25, got 0.5; leave it out"):
        Population(SPACE, quantile=0.5, selection=Truncation())
    with pytest.raises(ArgumentError, match="selection must be a Selection, got <class"):
        Population(SPACE, selection=Truncation)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Truncation(quantile=0.6), "quantile must be above 0 and at most 0.5, got 0.6"),
    ],
)
def test_a_wrong_setting_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()
