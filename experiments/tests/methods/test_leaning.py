"""Leaning PBT: children near their parents, and a warm-up that spares no member far behind."""

from dataclasses import replace

import numpy as np
import pytest

from popbandits import ArgumentError, Population
from popbandits_experiments.contracts import EXPLORER_CHECKS, SELECTION_CHECKS, spaces
from popbandits_experiments.ground.methods import find
from popbandits_experiments.methods import LeaningPBT, Watchful
from popbandits_experiments.methods.leaning import far_behind

SPACE = {"lr": (0.0, 1.0), "gamma": (0.0, 1.0), "act": ["relu", "tanh", "gelu"]}


@pytest.mark.parametrize("check", EXPLORER_CHECKS.values(), ids=EXPLORER_CHECKS)
@pytest.mark.parametrize("space", ["forbidden clauses", "nested conditions"])
def test_it_keeps_the_contract_of_explorers(check, space) -> None:  # type: ignore[no-untyped-def]
    check(LeaningPBT(keep=0.3), spaces()[space])


@pytest.mark.parametrize("check", SELECTION_CHECKS.values(), ids=SELECTION_CHECKS)
def test_it_keeps_the_contract_of_selections(check) -> None:  # type: ignore[no-untyped-def]
    check(Watchful())


def children_of(explorer: LeaningPBT, count: int = 200) -> list[dict[str, float]]:
    """Explore from a parent near the ends of its ranges."""
    population = Population(SPACE, explorer, size=2, rounds=5, seed=1, start=[{"lr": 0.9, "gamma": 0.1, "act": "gelu"}])
    for assignment in population.ask():
        population.tell(assignment, score=1.0 - assignment.member)
    history, rng = population.history, np.random.default_rng(2)
    return [explorer.explore(history.space, history, (), history[0], rng) for _ in range(count)]


def test_children_lean_to_the_parent() -> None:
    children = children_of(LeaningPBT(crossover=0.0))
    assert np.mean([child["lr"] for child in children]) > 0.75
    assert np.mean([child["gamma"] for child in children]) < 0.25
    assert np.mean([child["act"] == "gelu" for child in children]) > 0.5


def test_children_keep_as_many_values_as_asked_for() -> None:
    children = children_of(LeaningPBT(crossover=0.0, keep=0.7))
    assert 0.6 < np.mean([child["lr"] == 0.9 for child in children]) < 0.8


def test_first_configurations_are_as_concentrated_as_asked_for() -> None:
    def spread(first: float) -> float:
        population = Population({"lr": (0.0, 1.0)}, LeaningPBT(first=first), size=64, rounds=5, seed=1, start="random")
        return float(np.std([assignment.config["lr"] for assignment in population.ask()]))

    assert spread(20.0) < spread(4.0) < spread(1.0)


@pytest.mark.parametrize(
    ("scores", "behind"),
    [
        ([[1, 1, 1, 1], [2, 2, 2, 2]], [True, False]),
        ([[1, 1, 1, 1], [1, 2, 2, 2]], [False, False]),  # Not below everything of the second quarter.
        ([[1, 1, 1, 3], [2, 2, 2, 2]], [False, False]),  # A slow starter that took off.
        ([[1, 1, 1, 1], [2, np.nan, 2, 2]], [False, False]),  # A failure is no mark.
        ([[np.nan] * 4, [2, 2, 2, 2]], [True, False]),
        ([[1, 1, 1], [2, 2, 2]], [False, False]),  # Too early to tell.
        ([[1, 1, 1, 1]], [False]),
    ],
)
def test_who_is_far_behind(scores: list[list[float]], behind: list[bool]) -> None:
    found = far_behind(np.array(scores, dtype=float), np.full(len(scores), len(scores[0])))
    assert found.tolist() == behind


def test_members_at_their_own_pace_are_judged_by_as_many_intervals() -> None:
    """A slow member has finished 4 intervals, of which 1 and 2 of the others count; a quick one has finished 8."""
    slow, quick = [1.0] * 4 + [np.nan] * 4, [0.5, 0.5, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]
    assert not far_behind(np.array([slow, quick]), np.array([4, 8])).any()
    assert far_behind(np.array([[1.0] * 8, quick]), np.array([8, 8])).tolist() == [False, False]
    assert far_behind(np.array([[1.0] * 8, [2.0, *quick[1:]]]), np.array([8, 8])).tolist() == [False, False]
    assert far_behind(np.array([[1.0] * 8, [0.5, 2.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]]), np.array([8, 8])).any()


@pytest.mark.parametrize(("intervals", "at_most"), [(4, 0.2), (8, 0.03)])
def test_noise_alone_seldom_leaves_a_member_behind(intervals: int, at_most: float) -> None:
    draws = np.random.default_rng(3).standard_normal((2000, 4, intervals))
    finished = np.full(4, intervals)
    assert np.mean([far_behind(scores, finished) for scores in draws]) < at_most


def test_a_member_far_behind_is_replaced_in_the_warm_up() -> None:
    def copies(selection: Watchful) -> list[int]:
        population = Population(SPACE, LeaningPBT(), size=4, rounds=40, seed=0, selection=selection, start="random")
        rounds = []
        for _ in range(8):
            for assignment in population.ask():
                if assignment.parent is not None and assignment.parent[0] != assignment.member:
                    rounds.append(assignment.round)
                own = assignment.parent is None or assignment.parent[0] == assignment.member
                stuck = assignment.member == 2 and own and not rounds
                population.tell(assignment, score=0.0 if stuck else 1.0 + assignment.round)
        return rounds

    assert copies(Watchful(adaptive=False))[0] == 4
    assert not copies(Watchful(adaptive=False, lag=False))


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"first must be between 1 and 100.*got 0.5"):
        LeaningPBT(first=0.5)
    with pytest.raises(ArgumentError, match=r"keep must be.*got 2"):
        replace(LeaningPBT(), keep=2.0)
    with pytest.raises(ArgumentError, match="lag must be"):
        Watchful(lag="yes")  # type: ignore[arg-type]


def test_methods_can_be_spelled_with_settings() -> None:
    method = find("leaning-pbt/start:first=2,lag=false,quantile=0.5,start=3")
    assert method.make() == LeaningPBT(first=2)
    assert method.make_selection() == Watchful(quantile=0.5, lag=False)
    assert method.start == [{}] * 3
    assert find("leaning-pbt/start:first=2").start == "defaults"
    for name, rule in [
        ("nothing:first=2", "methods must be of the benchmark, got 'nothing:first=2'"),
        ("leaning-pbt:second=2", "must be of its explorer or selection, got 'second'"),
        ("sha:eta=2", "only methods of the library can be spelled with settings, got 'sha:eta=2'"),
    ]:
        with pytest.raises(ArgumentError, match=rule):
            find(name)
