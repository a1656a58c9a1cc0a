"""The control: a member that trains with the start to the end."""

from typing import Any

import numpy as np
import pytest

from popbandits import ArgumentError, History, Population, log

SPACE = {"lr": log(1e-5, 1e-1), "act": ["relu", "tanh"]}
START = {"lr": 3e-4, "act": "tanh"}


def play(population: Population, failures: float = 0.0) -> History:
    rng = np.random.default_rng(0)
    while not population.done:
        for assignment in population.ask():
            score = -abs(np.log(assignment.config["lr"] / 1e-2)) + 0.1 * rng.normal()
            population.tell(assignment, None if rng.random() < failures else score)
    return population.history


@pytest.mark.parametrize("failures", [0.0, 0.3])
@pytest.mark.parametrize("synchronous", [True, False])
@pytest.mark.parametrize("settings", [{}, {"explore": "all"}])
@pytest.mark.parametrize("method", ["pbt", "near-pbt", "pb2-mix", "random"])
def test_it_trains_with_the_start_and_its_own_weights(
    method: str, settings: dict[str, Any], synchronous: bool, failures: float
) -> None:
    population = Population(SPACE, method, rounds=8, start=START, control=True, synchronous=synchronous, **settings)
    history = play(population, failures)
    own = [o for o in history if o.member == 0]
    assert [o.config for o in own] == [START] * 8
    for o in own[1:]:
        completed = [each.key for each in own[: o.round] if not each.failed]
        assert o.parent == (completed[-1] if completed else None)


def test_if_it_is_the_worst_the_worst_of_the_others_is_replaced() -> None:
    population = Population(SPACE, "pbt", size=4, rounds=2, start=START, control=True)
    for assignment in population.ask():
        population.tell(assignment, float(assignment.member))  # The control is the worst, then member 1.
    parents = {assignment.member: assignment.parent for assignment in population.ask()}
    assert parents == {0: (0, 0), 1: (3, 0), 2: (2, 0), 3: (3, 0)}


def test_others_may_load_its_weights() -> None:
    population = Population(SPACE, "pbt", size=4, rounds=2, start=START, control=True)
    for assignment in population.ask():
        population.tell(assignment, -float(assignment.member))
    parents = {assignment.member: assignment.parent for assignment in population.ask()}
    assert parents == {0: (0, 0), 1: (1, 0), 2: (2, 0), 3: (0, 0)}


def test_a_population_of_one_is_its_control() -> None:
    assert [o.config for o in play(Population(SPACE, "pbt", size=1, rounds=3, start=START, control=True))] == [
        START
    ] * 3


def test_it_needs_a_start() -> None:
    with pytest.raises(
        ArgumentError, match=r"^the control trains with the start, got control=True without one; give st"
    ):
        Population(SPACE, control=True)
