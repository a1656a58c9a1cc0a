"""A run depends on the history and the seed alone, however and in whatever order it is driven."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from popbandits.explorers import (
    PBT,
    CoCaBO,
    Explorer,
    PB2Fuse,
    PB2Mix,
    PB2Mult,
    PB2Rand,
)
from popbandits.history import Assignment, History
from popbandits.population import Population
from popbandits_experiments.contracts import check_explorer, toy_score
from tests.population.driving import MIXED, SPACE, play, score


def by_key(history: History) -> dict[Any, Any]:
    return {o.key: (o.config, o.parent, o.score_before, o.score, o.decision) for o in history}


# The same run, however it is driven

METHODS = (PBT, PB2Rand, PB2Mult, PB2Mix, PB2Fuse, CoCaBO)


@pytest.mark.parametrize("method", METHODS)
def test_minimising_mirrors_maximising_exactly(method: type[Explorer]) -> None:
    for synchronous in (True, False):
        up, down = (
            play(Population(MIXED, method(), size=3, rounds=4, mode=mode, synchronous=synchronous)).history
            for mode in ("max", "min")  # type: ignore[assignment]
        )
        assert [(o.key, o.config, o.parent, o.score) for o in up] == [
            (o.key, o.config, o.parent, -o.score) for o in down
        ]


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_telling_within_a_round_never_matters(method: type[Explorer]) -> None:
    def told(order: Any) -> Any:
        return by_key(play(Population(MIXED, method(), size=4, rounds=5), order).history)

    rng = np.random.default_rng(0)
    forwards = told(None)
    assert told(lambda training: -1) == forwards
    assert told(lambda training: int(rng.integers(len(training)))) == forwards


def test_seeds_make_different_runs_and_the_same_seed_the_same() -> None:
    one, same, other = (play(Population(MIXED, PB2Fuse(), rounds=4, seed=seed)).history for seed in (1, 1, 2))
    assert one == same
    assert one != other


PROGRAM = """
import json, sys
from popbandits.population import Population
from popbandits import explorers
from popbandits_experiments.contracts import check_explorer, spaces, toy_score
population = Population(spaces()["conditional numbers"], getattr(explorers, sys.argv[1])(), size=3, rounds=5, seed=4)
while not population.done:
    for assignment in population.ask():
        population.tell(assignment, assignment.round + toy_score(population.space, assignment.config))
print(json.dumps([[o.key, o.config, o.parent, o.score, o.decision] for o in population.history]))
"""


def test_the_same_seed_makes_the_same_history_in_another_process() -> None:
    made = []
    for hashing in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hashing, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, "PB2Fuse"], capture_output=True, text=True, check=True, env=environment
        )
        made.append(json.loads(run.stdout))
    here = Population(MIXED, PB2Fuse(), size=3, rounds=5, seed=4)
    while not here.done:
        for assignment in here.ask():
            here.tell(assignment, assignment.round + toy_score(here.space, assignment.config))
    mine = [[list(o.key), o.config, o.parent and list(o.parent), o.score, o.decision] for o in here.history]
    assert made[0] == made[1] == mine


@pytest.mark.parametrize("synchronous", [True, False])
@pytest.mark.parametrize("method", [PBT, PB2Mult, PB2Fuse, CoCaBO])
def test_a_run_resumed_at_any_point_is_the_uninterrupted_one(
    method: type[Explorer], synchronous: bool, tmp_path: Path
) -> None:
    def run(history: Any = ()) -> History:
        """Who is told next depends on what is in training alone, so that it is the same after a resume."""
        population = Population(
            SPACE, method(), size=3, rounds=4, seed=7, synchronous=synchronous, explore="all", history=history
        )
        training: dict[Any, Assignment] = {}
        while not population.done:
            training |= {a.key: a for a in population.ask()}
            speed = {key: (13 * key[0] + 8 * key[1] + 5 * key[0] * key[1]) % 11 for key in training}
            assignment = training.pop(min(speed, key=lambda key: (speed[key], key)))
            population.tell(assignment, score(population, assignment))
        return population.history

    whole = run()
    whole.save(tmp_path)
    stored = History.load(tmp_path)
    for cut in range(len(whole) + 1):
        assert list(run(stored.prefix(cut))) == list(whole), f"resumed after {cut}"


@settings(max_examples=12, deadline=None)
@given(order=st.permutations([0, 0, 0, 1, 1, 1, 2, 2, 2]), cut=st.integers(0, 12))
def test_in_whatever_order_members_finish_a_resumed_run_gives_them_the_same(order: list[int], cut: int) -> None:
    def drive(population: Population) -> Population:
        """Members finish in the given order; whoever is idle is asked for at the latest moment."""
        training: dict[int, Assignment] = {}
        for member in [*order, 0, 1, 2][len(population.history) :]:
            if member not in training:
                training |= {a.member: a for a in population.ask()}
            assignment = training.pop(member)
            population.tell(assignment, score(population, assignment))
        return population

    def population(history: Any = ()) -> Population:
        return Population(SPACE, PB2Mix(c1=5.0), size=3, rounds=4, synchronous=False, explore="all", history=history)

    whole = drive(population())
    again = drive(population(whole.history.prefix(cut)))
    assert list(again.history) == list(whole.history)
    assert again.done


def test_who_is_replaced_among_equals_changes_from_round_to_round() -> None:
    population = Population(SPACE, PBT(), size=4, rounds=30)
    while not population.done:
        for assignment in population.ask():
            population.tell(assignment, 1.0)
    replaced = {o.member for o in population.history if o.parent and o.parent[0] != o.member}
    assert replaced == {0, 1, 2, 3}


# Asynchronous members


def test_a_member_that_is_told_may_go_on_at_once() -> None:
    population = Population(SPACE, PBT(), size=3, rounds=4, synchronous=False)
    first = population.ask()
    assert [a.key for a in first] == [(0, 0), (1, 0), (2, 0)]
    population.tell(first[1], 1.0)
    [next_] = population.ask()
    assert next_.key == (1, 1)
    assert next_.parent == (1, 0), "there is nobody to compare with yet"
    population.tell(next_, 2.0)
    assert [a.key for a in population.ask()] == [(1, 2)]
    assert population.ask() == []


def test_a_weak_member_copies_the_best_latest_score_whatever_its_round() -> None:
    population = Population(SPACE, PBT(), size=2, rounds=9, synchronous=False)
    fast, slow = population.ask()
    for _ in range(3):
        population.tell(fast, 5.0)
        [fast] = population.ask()
    population.tell(slow, 1.0)
    [slow] = population.ask()
    assert (slow.key, slow.parent) == ((1, 1), (0, 2))


def test_an_asynchronous_run_ends_when_all_have_finished() -> None:
    population = Population(SPACE, PBT(), size=2, rounds=2, synchronous=False)
    one, other = population.ask()
    population.tell(one, 1.0)
    population.tell(population.ask()[0], 1.0)
    assert population.ask() == []
    assert not population.done
    population.tell(other, 1.0)
    population.tell(population.ask()[0], 1.0)
    assert population.done


@pytest.mark.parametrize("method", [PBT, PB2Fuse])
@settings(max_examples=15, deadline=None)
@given(order=st.lists(st.integers(0, 2), min_size=12, max_size=12))
def test_what_a_member_is_given_does_not_depend_on_when_it_is_asked_for(
    method: type[Explorer], order: list[int]
) -> None:
    """Members are told in one order, by two drivers: one asks after every tell, one only if it must."""
    members = [m for m, _ in itertools.groupby([*order, 0, 1, 2] * 4, key=lambda m: m)]
    histories = []
    for eager in (True, False):
        population = Population(SPACE, method(), size=3, rounds=4, synchronous=False)
        training = {a.member: a for a in population.ask()}
        for member in itertools.cycle(members):
            if population.done:
                break
            if member not in training and population.history.finished(member) < 4:
                training |= {a.member: a for a in population.ask()}
            if member in training:
                assignment = training.pop(member)
                population.tell(assignment, score(population, assignment))
            if eager:
                training |= {a.member: a for a in population.ask()}
        histories.append(population.history)
    assert histories[0] == histories[1]


def test_what_others_are_training_with_is_pending() -> None:
    seen: list[Any] = []

    class Watches(PBT):
        def explore_round(self, space: Any, history: Any, pending: Any, parents: Any, rng: Any) -> Any:
            seen.append(list(pending))
            return super().explore_round(space, history, pending, parents, rng)

    population = Population(SPACE, Watches(), size=3, rounds=4, synchronous=False, explore="all")
    first = population.ask()
    population.tell(first[0], 1.0)
    [next_] = population.ask()
    assert seen == [[first[1].config, first[2].config]]
    population.tell(first[2], 1.0)
    population.ask()
    assert seen[1:] == [[next_.config, first[1].config]]


def test_members_that_go_on_are_pending_for_those_that_explore() -> None:
    seen: list[Any] = []

    class Watches(PBT):
        def explore_round(self, space: Any, history: Any, pending: Any, parents: Any, rng: Any) -> Any:
            seen.append(list(pending))
            return super().explore_round(space, history, pending, parents, rng)

    population = Population(SPACE, Watches(), size=4, rounds=2)
    first = population.ask()
    for assignment, told in zip(first, [3.0, 1.0, 4.0, 2.0], strict=True):
        population.tell(assignment, told)
    population.ask()
    assert seen == [[first[0].config, first[2].config, first[3].config]]


@pytest.mark.parametrize("window", [9, 13, 22])
def test_the_order_of_telling_does_not_matter_when_the_window_is_full(window: int) -> None:
    """Five members and a window that is no multiple of them: nothing may look at a part of a round."""
    shuffled = np.random.default_rng(0)
    runs = [
        play(Population(SPACE, PB2Mult(window=window), size=5, rounds=14, seed=3, quantile=0.4), order)
        for order in (None, lambda training: int(shuffled.integers(len(training))))
    ]
    assert by_key(runs[0].history) == by_key(runs[1].history)


class Middle:
    """An explorer as a user writes it: a class with one method."""

    def explore(self, space: Any, history: Any, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        return {"x": 0.5, "h": "b"}


def test_any_object_with_explore_is_an_explorer() -> None:
    population = play(Population(SPACE, Middle(), size=4, rounds=3))
    assert sum(o.config == {"x": 0.5, "h": "b"} for o in population.history) >= 2
    check_explorer(Middle(), SPACE)


def test_what_is_in_training_can_be_listed() -> None:
    population = Population(SPACE, size=3, rounds=2)
    asked = population.ask()
    assert population.pending == asked
    population.tell(asked[1], 1.0)
    assert population.pending == [asked[0], asked[2]]
    assert len(set(asked)) == 3
