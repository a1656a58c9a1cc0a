"""The record of a population: committed before anybody builds on it."""

import time
from pathlib import Path

import pytest

from popbandits import PBT, Event, Population, Store
from popbandits.errors import DiskError, HistoryError
from popbandits.run.recorder import Recorder


def recorded(directory: Path) -> tuple[list[str], list[tuple[int, int]], list[tuple[int, int]]]:
    """What another process reads: events, decisions and observations."""
    with Store.open(directory, readonly=True) as store:
        decisions = [decision.assignment.key for decision in store.decisions()]
        return [event.kind for event in store.events()], decisions, [o.key for o in store.observations()]


def test_what_is_asked_told_and_said_is_on_disk_when_the_call_returns(tmp_path: Path) -> None:
    commits = []
    population = Population({"lr": (0.0, 1.0)}, PBT(), size=2)
    with Store.create(tmp_path, population.space, {}) as store:
        recorder = Recorder(population, store, lambda store: commits.append(recorded(tmp_path)))
        recorder.say(Event("started"))
        assert recorded(tmp_path) == (["started"], [], [])
        first, second = recorder.ask()
        assert recorded(tmp_path)[1] == [first.key, second.key]
        assert recorder.ask() == []
        told = recorder.tell(first, 1.0, steps=5.0, seconds=2.0, metrics={"loss": 0.5})
        assert (told.key, told.steps, told.seconds, told.metrics) == ((0, 0), 5.0, 2.0, {"loss": 0.5})
        assert recorder.tell(second, None, event=Event("failed", "it fell", *second.key)).failed
        assert recorded(tmp_path) == (["started", "failed"], [(0, 0), (1, 0)], [(0, 0), (1, 0)])
    lengths = [sum(len(part) for part in commit) for commit in commits]
    assert lengths == [1, 3, 4, 6]  # Each commit is there when it is announced.


def test_decisions_are_recorded_with_their_times(tmp_path: Path) -> None:
    population = Population({"lr": (0.0, 1.0)}, PBT(), size=4, explore="all")
    with Store.create(tmp_path, population.space, {}) as store:
        recorder, began = Recorder(population, store), time.time()
        for assignment in recorder.ask():
            recorder.tell(assignment, 1.0)
        assert {decision.seconds for decision in recorder.decided} == {None}, "the explorer was not called"
        recorder.ask()
        [seconds] = {decision.seconds for decision in recorder.decided}
        assert seconds is not None
        assert 0 < 4 * seconds <= time.time() - began, "shared by those that it explored for"
        decisions = list(store.decisions())
    assert decisions[4:] == recorder.decided
    assert all(began <= decision.time <= time.time() for decision in decisions)


def test_an_event_of_a_lost_checkpoint_makes_a_lost_observation(tmp_path: Path) -> None:
    population = Population({"lr": (0.0, 1.0)}, PBT(), size=1)
    with Store.create(tmp_path, population.space, {}) as store:
        recorder = Recorder(population, store)
        recorder.tell(recorder.ask()[0], 1.0)
        [assignment] = recorder.ask()
        assert recorder.tell(assignment, None, event=Event("lost", "", *assignment.key)).status == "lost"


def test_a_disk_that_refuses_is_told_from_a_history_that_does_not_fit(tmp_path: Path) -> None:
    population = Population({"lr": (0.0, 1.0)}, PBT(), size=1)
    with Store.create(tmp_path, population.space, {}) as store:
        recorder = Recorder(population, store)
        recorder.tell(recorder.ask()[0], 1.0)
        with pytest.raises(HistoryError, match=r"holds each \(member, round\) once") as twice:
            store.extend([population.history[0]])
        assert not isinstance(twice.value, DiskError)
    with Store.open(tmp_path, readonly=True) as store:
        recorder = Recorder(Population({"lr": (0.0, 1.0)}, PBT(), size=1, history=population.history), store)
        with pytest.raises(DiskError, match="nothing was saved: allow this user to read and write there"):
            recorder.ask()
