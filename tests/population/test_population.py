"""Ask and tell: who trains next, from whose weights, with what."""

import math
from typing import Any

import numpy as np
import pytest

from popbandits.errors import ArgumentError, HistoryError, SpaceError
from popbandits.explorers import (
    PBT,
    CoCaBO,
    Explorer,
    PB2Fuse,
    PB2Mix,
    PB2Mult,
    PB2Rand,
    Proposal,
    RandomSearch,
)
from popbandits.history import Assignment
from popbandits.population import Population
from popbandits_experiments.contracts import toy_score
from tests.population.driving import MIXED, SPACE, play, score


@pytest.mark.parametrize("history", [None, 5])
def test_a_history_that_is_none_is_refused_by_name(history: Any) -> None:
    with pytest.raises(ArgumentError, match="history must be observations, a History, or the Store of a run, got"):
        Population(SPACE, history=history)


# Rounds


def test_everyone_starts_afresh_in_round_0() -> None:
    assigned = Population(SPACE, size=5).ask()
    assert [a.key for a in assigned] == [(member, 0) for member in range(5)]
    assert all(a.parent is None and a.decision == {} for a in assigned)


def test_nothing_is_asked_while_a_round_is_incomplete() -> None:
    population = Population(SPACE, PBT(), size=3, rounds=2)
    first = population.ask()
    assert population.ask() == []
    for assignment in first[:2]:
        population.tell(assignment, 1.0)
        assert population.ask() == []
    population.tell(first[2], 1.0)
    assert [a.key for a in population.ask()] == [(0, 1), (1, 1), (2, 1)]


def test_a_run_is_done_when_every_member_has_finished_its_last_round() -> None:
    population = Population(SPACE, PBT(), size=2, rounds=2)
    for _ in range(2):
        assert not population.done
        for assignment in population.ask():
            population.tell(assignment, 1.0)
    assert population.done
    assert population.ask() == []
    assert len(population.history) == 4


def test_a_run_without_a_last_round_goes_on() -> None:
    population = Population(SPACE, PB2Mix(), size=2, rounds=None)
    for _ in range(8):
        for assignment in population.ask():
            population.tell(assignment, score(population, assignment))
    assert not population.done
    assert len(population.ask()) == 2


def test_the_weakest_explores_from_the_strongest_and_the_others_go_on() -> None:
    population = Population(SPACE, PBT(), size=4, rounds=2)
    first = population.ask()
    for assignment, told in zip(first, [3.0, 1.0, 4.0, 2.0], strict=True):
        population.tell(assignment, told)
    second = population.ask()
    assert [a.parent for a in second] == [(0, 0), (2, 0), (2, 0), (3, 0)]
    assert [a.config == b.config for a, b in zip(first, second, strict=True)] == [True, False, True, True]


def test_in_min_mode_the_largest_score_is_the_weakest() -> None:
    population = Population(SPACE, PBT(), size=4, rounds=2, mode="min")
    for assignment, told in zip(population.ask(), [3.0, 1.0, 4.0, 2.0], strict=True):
        population.tell(assignment, told)
    assert [a.parent for a in population.ask()] == [(0, 0), (1, 0), (1, 0), (3, 0)]
    assert population.best is not None
    assert population.best.score == 1.0


def test_half_the_population_is_replaced_at_a_quantile_of_a_half() -> None:
    population = Population(SPACE, PBT(), size=4, rounds=2, quantile=0.5)
    for assignment, told in zip(population.ask(), [3.0, 1.0, 4.0, 2.0], strict=True):
        population.tell(assignment, told)
    parents = [a.parent for a in population.ask()]
    assert (parents[0], parents[2]) == ((0, 0), (2, 0))
    assert {parents[1], parents[3]} <= {(0, 0), (2, 0)}


def test_everyone_explores_each_round_if_told_to_and_weights_are_kept_all_the_same() -> None:
    population = Population(SPACE, PBT(), size=4, rounds=2, explore="all")
    first = population.ask()
    for assignment, told in zip(first, [3.0, 1.0, 4.0, 2.0], strict=True):
        population.tell(assignment, told)
    second = population.ask()
    assert [a.parent for a in second] == [(0, 0), (2, 0), (2, 0), (3, 0)]
    assert all(a.config["x"] != b.config["x"] for a, b in zip(first, second, strict=True))


def test_one_member_alone_goes_on_with_its_own_weights() -> None:
    history = play(Population(SPACE, PB2Fuse(), size=1, rounds=5)).history
    assert [o.parent for o in history] == [None, (0, 0), (0, 1), (0, 2), (0, 3)]
    assert len({o.config["x"] for o in history}) == 1
    explored = play(Population(SPACE, PB2Fuse(), size=1, rounds=5, explore="all")).history
    assert len({o.config["x"] for o in explored}) == 5


@pytest.mark.parametrize("method", [PBT, PB2Mult, PB2Fuse, CoCaBO, RandomSearch])
@pytest.mark.parametrize("synchronous", [True, False])
def test_the_score_before_is_the_score_of_the_weights_that_were_loaded(
    method: type[Explorer], synchronous: bool
) -> None:
    history = play(Population(MIXED, method(), size=4, rounds=5, synchronous=synchronous)).history
    for observation in history:
        parent = None if observation.parent is None else history.find(observation.parent)
        assert parent is None or parent.score == observation.score_before
        assert parent is not None or math.isnan(observation.score_before)
    if method().exploits:
        assert any(o.parent is not None and o.parent[0] != o.member for o in history), "somebody was replaced"


def test_what_is_known_before_any_training_is_the_score_before_of_round_0() -> None:
    population = Population(SPACE, PBT(), size=2, rounds=1, initial_score=10.0)
    for assignment in population.ask():
        population.tell(assignment, 12.0)
    assert [o.change for o in population.history] == [2.0, 2.0]
    assert not population.history.recent().guessed.any()


def test_the_winning_schedule_replays_the_best_run() -> None:
    population = play(Population(SPACE, PBT(), size=4, rounds=6, seed=1))
    best = population.best
    assert best is not None
    replayed = sum(toy_score(population.space, config) for config in population.history.schedule())
    assert replayed == pytest.approx(best.score)
    assert len(population.history.schedule()) == 6


def test_what_is_told_is_kept() -> None:
    population = Population(SPACE, PBT(), size=1)
    [assignment] = population.ask()
    population.tell(assignment, np.float32(0.5), steps=100, metrics={"loss": np.float64(2.0)}, seconds=1.5)
    [observation] = population.history
    assert (observation.score, observation.steps, observation.seconds) == (0.5, 100, 1.5)
    assert observation.metrics == {"loss": 2.0}
    assert observation.config == assignment.config


def test_changing_what_was_handed_out_changes_nothing() -> None:
    population = Population({"net": {"x": (0.0, 1.0)}}, PBT(), size=1)
    [assignment] = population.ask()
    kept = assignment.config["net"]["x"]
    assignment.config["net"]["x"] = -1.0
    population.tell(assignment, 1.0)
    assert population.history[0].config == {"net": {"x": kept}}


# Failures


@pytest.mark.parametrize("told", [math.nan, math.inf, -math.inf, None, np.nan, np.float32("inf")])
@pytest.mark.parametrize("mode", ["max", "min"])
def test_a_score_that_is_no_number_is_a_failure_that_ranks_last(told: Any, mode: Any) -> None:
    population = Population(SPACE, PBT(), size=4, rounds=2, mode=mode)
    for assignment, given_ in zip(population.ask(), [1.0, told, 2.0, 3.0], strict=True):
        population.tell(assignment, given_)
    failed = population.history[1]
    assert failed.failed
    assert math.isnan(failed.score)
    second = population.ask()
    best = (3, 0) if mode == "max" else (0, 0)
    assert [a.parent for a in second] == [(0, 0), best, (2, 0), (3, 0)]


def test_everyone_who_failed_is_replaced() -> None:
    population = Population(SPACE, PBT(), size=4, rounds=2)
    for assignment, told in zip(population.ask(), [None, 1.0, None, None], strict=True):
        population.tell(assignment, told)
    assert [a.parent for a in population.ask()] == [(1, 0)] * 4


@pytest.mark.parametrize("method", [PBT, PB2Mult, PB2Fuse, CoCaBO, RandomSearch])
def test_if_everyone_failed_at_once_all_start_afresh_elsewhere(method: type[Explorer]) -> None:
    population = Population(SPACE, method(), size=4, rounds=3)
    first = population.ask()
    for assignment in first:
        population.tell(assignment, None)
    second = population.ask()
    assert [a.parent for a in second] == [None] * 4
    assert not {a.config["x"] for a in first} & {a.config["x"] for a in second}
    for assignment in second:
        population.tell(assignment, 1.0)
    assert len(population.ask()) == 4


def test_if_everyone_failed_later_all_go_back_to_the_best_that_survived() -> None:
    population = Population(SPACE, PBT(), size=4, rounds=3)
    for assignment, told in zip(population.ask(), [3.0, 1.0, 4.0, 2.0], strict=True):
        population.tell(assignment, told)
    for assignment in population.ask():
        population.tell(assignment, math.nan)
    assert [a.parent for a in population.ask()] == [(2, 0)] * 4


def test_without_exploits_a_failed_member_goes_back_to_its_own_last_checkpoint_with_a_new_configuration() -> None:
    population = Population(SPACE, RandomSearch(), size=2, rounds=3)
    first = population.ask()
    for assignment in first:
        population.tell(assignment, 1.0)
    for assignment, told in zip(population.ask(), [2.0, None], strict=True):
        population.tell(assignment, told)
    third = population.ask()
    assert [a.parent for a in third] == [(0, 1), (1, 0)]
    assert third[0].config == first[0].config
    assert third[1].config != first[1].config


@pytest.mark.parametrize("method", [PBT, PB2Rand, PB2Mult, PB2Mix, PB2Fuse, CoCaBO])
def test_a_run_in_which_most_things_fail_reaches_its_end(method: type[Explorer]) -> None:
    for synchronous in (True, False):
        population = Population(MIXED, method(), size=3, rounds=5, synchronous=synchronous)
        while not population.done:
            for assignment in population.ask():
                lucky = (7 * assignment.round + assignment.member) % 4 == 2
                population.tell(assignment, score(population, assignment) if lucky else math.nan)
        assert sum(o.failed for o in population.history) == 11


# What is refused


def test_an_assignment_is_told_once() -> None:
    population = Population(SPACE, PBT(), size=2)
    assignment, _ = population.ask()
    population.tell(assignment, 1.0)
    with pytest.raises(HistoryError, match="an assignment is told once, got round 0 of member 0 again; ask"):
        population.tell(assignment, 1.0)
    assert len(population.history) == 1


@pytest.mark.parametrize("key", [(0, 1), (9, 0)])
def test_only_what_was_asked_for_can_be_told(key: Any) -> None:
    population = Population(SPACE, PBT(), size=2)
    population.ask()
    with pytest.raises(
        HistoryError, match=f"only an assignment that ask returned can be told, got round {key[1]} of member {key[0]}"
    ):
        population.tell(Assignment(*key, {"x": 0.5, "h": "a"}), 1.0)


def test_nothing_can_be_told_before_it_was_asked_for() -> None:
    population = Population(SPACE, PBT(), size=2)
    [assignment, _] = Population(SPACE, PBT(), size=2).ask()
    with pytest.raises(HistoryError, match="call ask first"):
        population.tell(assignment, 1.0)


def test_a_tell_that_is_refused_can_be_put_right() -> None:
    population = Population(SPACE, PBT(), size=1)
    [assignment] = population.ask()
    for bad in ({"score": "high"}, {"score": 1.0, "steps": -1}, {"score": 1.0, "metrics": {"model": object()}}):
        with pytest.raises(ValueError, match="got"):
            population.tell(assignment, **bad)  # type: ignore[arg-type]
    population.tell(assignment, 1.0)
    assert len(population.history) == 1


class Proposes(Explorer):
    """Whatever it is told to."""

    def __init__(self, *proposals: Any) -> None:
        self.proposals = list(proposals)

    def explore_round(self, *arguments: Any) -> Any:
        return self.proposals


def explored(method: Explorer, space: Any = SPACE) -> Assignment:
    population = Population(space, method, size=1, rounds=2, explore="all")
    population.tell(population.ask()[0], 1.0)
    return population.ask()[0]


def test_an_explorers_numbers_become_native() -> None:
    config = {"x": np.float64(0.5), "h": np.str_("b")}
    assigned = explored(Proposes(Proposal(config))).config
    assert assigned == {"x": 0.5, "h": "b"}
    assert [type(value) for value in (assigned["x"], assigned["h"])] == [float, str]


def test_an_illegal_proposal_is_refused_with_the_name_of_its_explorer() -> None:
    with pytest.raises(ValueError, match=r"Proposes proposed an illegal configuration: 'x': the value must be in \[0"):
        explored(Proposes(Proposal({"x": 2.0, "h": "a"})))


def test_so_is_that_of_an_object_which_is_no_explorer() -> None:
    class Outside:
        def explore(self, space: Any, history: Any, pending: Any, parent: Any, rng: Any) -> dict[str, Any]:
            return {"x": 2.0, "h": "a"}

    method: Any = Outside()
    with pytest.raises(SpaceError, match=r"^Outside proposed an illegal configuration"):
        explored(method)


@pytest.mark.parametrize("proposals", [[], [Proposal({"x": 0.5, "h": "a"})] * 2, [{"x": 0.5, "h": "a"}]])
def test_an_explorer_must_answer_for_every_member(proposals: list[Any]) -> None:
    with pytest.raises(ArgumentError, match="Proposes must return a Proposal for each of 1 members, got"):
        explored(Proposes(*proposals))


def test_an_explorers_record_is_made_plain_or_refused_before_anybody_trains() -> None:
    config = {"x": 0.5, "h": "a"}
    assert explored(Proposes(Proposal(config, {"mean": np.zeros(2)}))).decision == {"mean": [0.0, 0.0]}
    with pytest.raises(HistoryError, match=r"Proposes's decision\['model'\]: a record holds numbers, .*, got <object"):
        explored(Proposes(Proposal(config, {"model": object()})))


def test_numpy_integers_are_integers() -> None:
    population = Population(SPACE, PBT(), size=np.int64(2), rounds=np.int32(1), seed=np.uint8(3))  # type: ignore[arg-type]
    assert len(play(population).history) == 2
    assert type(population.history.size) is int
