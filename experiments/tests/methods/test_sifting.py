"""Sifting: more first configurations than members, judged at the same age, before anything is copied."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from popbandits import ArgumentError, Population
from popbandits.history import Assignment
from popbandits_experiments.contracts import EXPLORER_CHECKS, SELECTION_CHECKS, spaces
from popbandits_experiments.methods import Sifting, SiftingPBT

SPACE = {"lr": (0.0, 1.0), "gamma": (0.0, 1.0), "act": ["relu", "tanh", "gelu"]}


@pytest.mark.parametrize("check", EXPLORER_CHECKS.values(), ids=EXPLORER_CHECKS)
def test_it_keeps_the_contract_of_explorers(check) -> None:  # type: ignore[no-untyped-def]
    check(SiftingPBT(), spaces()["forbidden clauses"])


# A failed trial starts afresh (below), where the contract would have it load the weights of another.
KEPT = [name for name in SELECTION_CHECKS if name != "replaces what failed"]


@pytest.mark.parametrize("check", [SELECTION_CHECKS[name] for name in KEPT], ids=KEPT)
def test_it_keeps_the_contract_of_selections(check) -> None:  # type: ignore[no-untyped-def]
    check(Sifting())


def ran(
    score: Callable[[Population, Assignment], float], size: int = 4, rounds: int = 30, **settings: float
) -> Population:
    population = Population(SPACE, SiftingPBT(), size=size, rounds=rounds, seed=1, selection=Sifting(**settings))
    while not population.done:
        for assignment in population.ask():
            population.tell(assignment, score(population, assignment))
    return population


def starts(population: Population) -> list[tuple[int, int]]:
    """List round and member of every fresh start."""
    return [(o.round, o.member) for o in population.history if o.parent is None]


def by_lr(population: Population, assignment: Assignment) -> float:
    """Score a configuration by its learning rate, more with age."""
    return float(assignment.config["lr"]) + 10 * population.history.stage(assignment.parent)


@pytest.mark.parametrize(("settings", "tried"), [({}, 14), ({"trial": 3, "warm_up": 0.4}, 10), ({"trial": 100}, 4)])
def test_a_warm_up_tries_as_many_first_configurations_as_fit(settings: dict[str, float], tried: int) -> None:
    assert len(starts(ran(by_lr, **settings))) == tried


def test_half_of_the_members_go_on_and_they_have_the_best_scores_at_the_same_age() -> None:
    population = ran(by_lr)
    firsts = {key[::-1]: population.history.find(key[::-1]) for key in starts(population)}
    best = sorted(firsts, key=lambda key: -firsts[key].config["lr"])[:2]  # type: ignore[union-attr]
    sixth = {o.member: population.history.lineage(o)[0].key for o in population.history if o.round == 6}
    assert set(best) <= set(sixth.values())
    assert all(o.parent is None or o.parent[0] == o.member for o in population.history if o.round < 6)  # no copies


def test_a_failed_trial_starts_afresh() -> None:
    population = ran(lambda p, a: math.nan if (a.member, a.round) == (2, 0) else by_lr(p, a))
    assert (1, 2) in starts(population)


def test_after_the_warm_up_weak_members_copy_strong_ones() -> None:
    late = [o for o in ran(by_lr).history if o.round >= 6 and o.parent is not None and o.parent[0] != o.member]
    assert len(late) >= 10


def test_trials_last_a_share_of_a_long_run() -> None:
    assert [Sifting().trial_rounds(rounds) for rounds in (10, 30, 100, None)] == [1, 1, 3, 1]


def test_draws_lean_to_the_start_or_else_to_the_parent() -> None:
    def mean_child(start: object) -> float:
        explorer = SiftingPBT(crossover=0.0)
        population = Population(SPACE, explorer, size=2, rounds=5, seed=1, start=start)  # type: ignore[arg-type]
        for assignment in population.ask():
            population.tell(assignment, score=assignment.config["lr"])
        best, rng = population.history.best, np.random.default_rng(2)
        space = population.space
        return float(np.mean([explorer.explore(space, population.history, (), best, rng)["lr"] for _ in range(200)]))

    assert mean_child({"lr": 0.1, "gamma": 0.5, "act": "relu"}) < mean_child("random")


def test_a_trial_that_means_nothing_is_refused() -> None:
    with pytest.raises(ArgumentError, match="trial must be above 0, got 0"):
        Sifting(trial=0)
