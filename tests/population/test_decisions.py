"""What was decided from what is on record, and a lost checkpoint is nobody's parent again."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits.errors import HistoryError
from popbandits.explorers import PBT, CoCaBO, Explorer, PB2Fuse, PB2Mix, RandomSearch
from popbandits.history import Assignment, History, Observation
from popbandits.population import Population
from popbandits.population.population import RECORDED
from popbandits.space import Space
from popbandits.storage import Store
from tests.population.driving import MIXED, SPACE, play, score

# What is on record


def test_a_round_is_decided_from_the_rounds_before_it() -> None:
    population = Population(SPACE, PBT(), size=4, rounds=2)
    first = population.ask()
    assert [d.assignment for d in population.decided] == first
    assert [(d.known, d.training, d.explored) for d in population.decided] == [(0, (), False)] * 4
    for assignment, told in zip(first, [3.0, 1.0, 4.0, 2.0], strict=True):
        population.tell(assignment, told)
    second = population.ask()
    assert [d.assignment for d in population.decided] == second
    assert {d.known for d in population.decided} == {4}
    assert [d.training for d in population.decided] == [(), ((0, 1), (2, 1), (3, 1)), (), ()]
    assert [d.explored for d in population.decided] == [False, True, False, False], "the others go on as they were"
    assert {(d.seconds, d.time) for d in population.decided} == {(None, 0.0)}, "a population reads no clock"
    assert population.ask() == population.decided == []


def test_an_asynchronous_member_is_decided_for_beside_those_in_training() -> None:
    population = Population(SPACE, PBT(), size=3, rounds=2, synchronous=False, explore="all")
    first = population.ask()
    population.tell(first[2], 1.0)
    [again] = population.ask()
    assert [(d.known, d.training) for d in population.decided] == [(1, ((0, 0), (1, 0)))]
    population.tell(first[0], 1.0)
    population.tell(again, 1.0)
    population.ask()
    assert [(d.known, d.training) for d in population.decided] == [(2, ((1, 0), (2, 1)))]
    population.tell(first[1], 1.0)
    population.ask()
    assert [(d.known, d.training) for d in population.decided] == [(4, ((0, 1),))], "member 2 has finished"


def test_what_is_recorded_of_a_large_population_stays_small() -> None:
    size = RECORDED + 20
    population = Population(SPACE, PBT(), size=size, rounds=2, synchronous=False, explore="all")
    population.tell(population.ask()[0], 1.0)
    population.ask()
    assert population.decided[0].training == tuple((member, 0) for member in range(size - RECORDED, size))


def test_changing_what_was_handed_out_leaves_the_record_alone() -> None:
    population = Population(SPACE, PBT(), size=1)
    [assignment] = population.ask()
    assignment.config["x"] = -1.0
    assert population.decided[0].assignment.config["x"] != -1.0


@pytest.mark.parametrize("synchronous", [True, False])
def test_what_others_train_with_is_a_sequence_for_any_explorer(synchronous: bool) -> None:
    seen: list[Any] = []

    class Looks(PBT):
        def explore_round(self, space: Any, history: Any, pending: Any, parents: Any, rng: Any) -> Any:
            seen.append((len(pending), pending[:], list(pending), [pending[i] for i in range(len(pending))]))
            assert not pending or (pending[-1] == pending[-1:][0] and pending[0] in pending)
            return super().explore_round(space, history, pending, parents, rng)

    play(Population(SPACE, Looks(), size=5, rounds=4, synchronous=synchronous))
    assert seen
    for count, sliced, listed, indexed in seen:
        assert sliced == listed == indexed
        assert count == len(listed)


# The order of asynchronous members


def test_asynchronous_members_are_asked_for_in_the_order_in_which_they_became_idle() -> None:
    population = Population(SPACE, PBT(), size=4, rounds=3, synchronous=False)
    first = population.ask()
    assert [a.member for a in first] == [0, 1, 2, 3]
    for member in (2, 0, 3):
        population.tell(first[member], 1.0)
    assert [a.key for a in population.ask()] == [(2, 1), (0, 1), (3, 1)]
    resumed = Population(SPACE, PBT(), size=4, rounds=3, synchronous=False, history=population.history)
    assert [a.key for a in resumed.ask()] == [(1, 0), (2, 1), (0, 1), (3, 1)]


@pytest.mark.parametrize("method", [PBT, PB2Fuse, CoCaBO])
def test_a_queue_of_asynchronous_members_goes_on_in_the_same_order_wherever_it_was_killed(
    method: type[Explorer],
) -> None:
    """First come, first served; some fail, some find their checkpoint lost."""

    def run(history: Any = ()) -> History:
        population = Population(MIXED, method(), size=5, rounds=4, seed=3, synchronous=False, history=history)
        queue: list[Assignment] = []
        while not population.done:
            queue += population.ask()
            assignment = queue.pop(0)
            luck = (7 * assignment.member + 3 * assignment.round) % 10
            lost = luck == 6 and assignment.parent is not None
            population.tell(assignment, None if luck == 4 or lost else score(population, assignment), lost=lost)
        return population.history

    whole = run()
    assert {o.status for o in whole} == (
        {"completed", "failed"} if method is CoCaBO else {"completed", "failed", "lost"}
    )
    # With a model every third: test_same_run has every point of runs that fit one.
    for cut in range(0, len(whole) + 1, 1 if method is PBT else 3):
        assert list(run(whole.prefix(cut))) == list(whole), f"killed after {cut}"


# Lost checkpoints


def lose(population: Population, assignment: Assignment) -> None:
    population.tell(assignment, None, lost=True)


def round_of(population: Population, *scores: float | None) -> None:
    for assignment, told in zip(population.ask(), scores, strict=True):
        population.tell(assignment, told)


@pytest.mark.parametrize("mode", ["max", "min"])
def test_a_lost_checkpoint_is_never_a_parent_again(mode: Any) -> None:
    sign = 1.0 if mode == "max" else -1.0
    population = Population(SPACE, PBT(), size=4, rounds=4, mode=mode)
    round_of(population, 3.0 * sign, 1.0 * sign, 4.0 * sign, 2.0 * sign)
    second = population.ask()
    assert [a.parent for a in second] == [(0, 0), (2, 0), (2, 0), (3, 0)]
    population.tell(second[0], 5.0 * sign)
    lose(population, second[1])
    lose(population, second[2])
    population.tell(second[3], 2.5 * sign)
    assert population.history.lost == {(2, 0)}
    assert [o.status for o in population.history][4:] == ["completed", "lost", "lost", "completed"]
    assert [a.parent for a in population.ask()] == [(0, 1), (0, 1), (0, 1), (3, 1)]


def test_a_member_whose_last_checkpoint_is_lost_is_replaced_even_if_it_was_the_best() -> None:
    population = Population(SPACE, PBT(), size=3, rounds=4, synchronous=False)
    first = population.ask()
    population.tell(first[0], 9.0)
    population.tell(first[1], 1.0)
    going_on, copying = population.ask()
    assert [(a.key, a.parent) for a in (going_on, copying)] == [((0, 1), (0, 0)), ((1, 1), (0, 0))]
    population.tell(first[2], 2.0)
    lose(population, copying)
    [third, again] = population.ask()
    assert (third.key, third.parent) == ((2, 1), (2, 0))
    assert (again.key, again.parent) == ((1, 2), (2, 0)), "not (0, 0), which has the best score"
    population.tell(going_on, 10.0)
    assert population.ask()[0].parent == (0, 1), "a later checkpoint of the same member is as good as any"


def test_without_exploits_a_member_whose_checkpoint_is_lost_starts_afresh_elsewhere() -> None:
    population = Population(SPACE, RandomSearch(), size=2, rounds=4)
    round_of(population, 1.0, 2.0)
    going_on, lost = population.ask()
    population.tell(going_on, 1.5)
    lose(population, lost)
    third = population.ask()
    assert [a.parent for a in third] == [(0, 1), None]
    assert third[0].config == going_on.config
    assert third[1].config != lost.config


def test_if_everyone_fails_all_go_back_to_what_is_not_lost() -> None:
    population = Population(SPACE, PBT(), size=3, rounds=5)
    round_of(population, 3.0, 1.0, 2.0)
    for assignment in population.ask():
        lose(population, assignment)  # (0, 0), twice, and (2, 0)
    assert population.history.lost == {(0, 0), (2, 0)}
    third = population.ask()
    assert [a.parent for a in third] == [(1, 0)] * 3
    for assignment in third:
        lose(population, assignment)
    assert [a.parent for a in population.ask()] == [None] * 3, "nothing is left"


def test_if_everyone_fails_the_best_is_among_the_survivors() -> None:
    """Its score is no member's last one: all went on from it, and got worse."""
    population = Population(SPACE, PBT(), size=2, rounds=5)
    round_of(population, 9.0, 1.0)
    round_of(population, 2.0, 3.0)
    round_of(population, None, None)
    fourth = population.ask()
    assert [a.parent for a in fourth] == [(0, 0)] * 2
    for assignment in fourth:
        lose(population, assignment)
    assert [a.parent for a in population.ask()] == [(1, 1)] * 2


@pytest.mark.parametrize("method", [PBT, PB2Mix, PB2Fuse, RandomSearch])
@pytest.mark.parametrize("synchronous", [True, False])
def test_a_run_in_which_checkpoints_are_lost_reaches_its_end_without_touching_one_twice(
    method: type[Explorer], synchronous: bool
) -> None:
    rng = np.random.default_rng(0)
    population = Population(MIXED, method(), size=3, rounds=8, synchronous=synchronous)
    training: list[Assignment] = []
    while not population.done:
        training += population.ask()
        for decision in population.decided:
            assert decision.assignment.parent not in population.history.prefix(decision.known).lost
        assignment = training.pop(int(rng.integers(len(training))))
        lost = assignment.parent is not None and rng.random() < 0.3
        population.tell(assignment, None if lost or rng.random() < 0.2 else score(population, assignment), lost=lost)
    assert population.history.lost
    assert len(population.history.recent()) == sum(o.status != "lost" for o in population.history)


def test_what_is_lost_has_neither_a_score_nor_is_it_a_fresh_start() -> None:
    population = Population(SPACE, PBT(), size=1, rounds=3)
    [assignment] = population.ask()
    with pytest.raises(HistoryError, match=r"a lost observation must have a parent, got \(0, 0\) without one"):
        lose(population, assignment)
    population.tell(assignment, 1.0)
    [assignment] = population.ask()
    with pytest.raises(HistoryError, match=r"a lost observation has no score, got 2.0"):
        population.tell(assignment, 2.0, lost=True)
    lose(population, assignment)
    assert math.isnan(population.history[-1].score)


# A run's file behind the population


@pytest.mark.parametrize("window", [6, None])
@pytest.mark.parametrize("synchronous", [True, False])
def test_a_population_made_from_a_runs_file_goes_on_from_it_and_holds_little(
    synchronous: bool, window: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds more if it looks at everything, and decides the same."""
    sizes = {
        "history.MIN_IN_MEMORY": 4,
        "history.EXTRA_ROUNDS": 1,
        "rows.MAX_LOOK_BACK": 4,
        "rows.EARLY_OBSERVATIONS": 4,
    }
    for name, size in sizes.items():
        monkeypatch.setattr(f"popbandits.history.{name}", size)

    def population(history: Any = ()) -> Population:
        return Population(SPACE, PB2Fuse(window=window), size=2, rounds=20, synchronous=synchronous, history=history)

    whole = play(population()).history
    whole.prefix(11).save(tmp_path)
    with Store.open(tmp_path) as store:
        resumed = population(store)
        while not resumed.done:
            for assignment in resumed.ask():
                resumed.tell(assignment, score(resumed, assignment))
                store.write([resumed.history[-1]], resumed.decided)
        assert len(resumed.history._observations._held) <= 8
        assert resumed.history._columns._dropped_count > 10
        assert resumed.history._columns._tail == (10 if window else 20)
        assert resumed.history == whole
        decided = {d.assignment.key: d for d in store.decisions()}
    told: dict[Any, Observation] = {o.key: o for o in whole}
    for key, decision in decided.items():
        assert (decision.assignment.config, decision.assignment.parent) == (told[key].config, told[key].parent)


def test_the_file_of_a_run_in_the_other_direction_is_refused(tmp_path: Path) -> None:
    with (
        Store.create(tmp_path, Space(SPACE), {"mode": "min"}) as store,
        pytest.raises(HistoryError, match="mode must be the history's, 'min', got 'max'; make the two equal"),
    ):
        Population(SPACE, PBT(), history=store)
