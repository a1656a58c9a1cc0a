"""A run's file: everything comes back as it was, and nothing is half written."""

import json
import math
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from popbandits.errors import ArgumentError, HistoryError, SpaceError
from popbandits.history import Assignment, Decision, Event, History, Observation
from popbandits.space import Space
from popbandits.storage import Store
from popbandits.storage.schema import RUN_FILE
from popbandits_experiments.contracts import spaces, toy_history

SPACES = spaces()
SPACE = Space({"x": (0.0, 1.0)})


def one(member: int = 0, round_: int = 0, **known: Any) -> Observation:
    return Observation(member, round_, {"x": 0.1}, **{"score": 1.0} | known)


@pytest.mark.parametrize("space", SPACES)
def test_a_history_on_any_space_comes_back_as_it_was(space: str, tmp_path: Path) -> None:
    history = toy_history(SPACES[space], score=lambda value, place: math.nan if place == 4 else value)
    history.save(tmp_path)
    again = History.load(tmp_path)
    for each in (history, again):
        each.save(tmp_path)  # Nothing is new: it is the same run.
    assert again == History.load(tmp_path) == history
    assert (again.mode, again.size, again.rounds) == (history.mode, history.size, history.rounds)
    assert repr(again.space) == repr(history.space)
    for before, after in zip(history, again, strict=True):
        assert repr(before.config) == repr(after.config), "types included: 1, 1.0 and True are not the same"
    assert again.recent().change.tobytes() == history.recent().change.tobytes()


def test_every_field_comes_back(tmp_path: Path) -> None:
    told = [
        one(score=-0.1, steps=5, seconds=0.25, metrics={"loss": [0.1, math.nan, math.inf], "note": "é"}),
        one(1, status="failed", score=math.nan),
        one(0, 1, parent=(0, 0), score_before=-0.1, score=1e-300, decision={"theta": [1 / 3], "fallback": None}),
    ]
    History(SPACE, told, mode="min").save(tmp_path)
    again = History.load(tmp_path)
    assert list(again) == told
    assert [o.seconds for o in again] == [0.25, None, None]
    assert again.mode == "min"
    assert again[2].decision == {"theta": [1 / 3], "fallback": None}
    assert again[2].parent == (0, 0)
    assert again[0].parent is None


def test_observations_are_appended_as_they_happen_and_can_be_read_meanwhile(tmp_path: Path) -> None:
    with Store.create(tmp_path / "deep" / "run", SPACE, {"mode": "max", "size": 2, "rounds": None}) as store:
        assert len(History.load(tmp_path / "deep" / "run")) == 0
        store.extend([one(0)])
        assert [o.key for o in History.load(tmp_path / "deep" / "run")] == [(0, 0)]
        store.extend([one(1), one(0, 1)])
        assert [o.key for o in History.load(tmp_path / "deep" / "run")] == [(0, 0), (1, 0), (0, 1)]


def test_a_file_may_say_more_of_a_run_than_its_history_needs(tmp_path: Path) -> None:
    about = {"mode": "min", "size": 2, "seed": 3, "engine": "threads"}
    with Store.create(tmp_path, SPACE, about) as store:
        assert store.about == about
    history = History.load(tmp_path)
    assert (history.mode, history.size, history.rounds) == ("min", 2, None)


def test_decisions_and_events_come_back(tmp_path: Path) -> None:
    fallback = Assignment(1, 2, {"x": 0.5}, (0, 1), {"fallback": "too few", "theta": [1 / 3]})
    decisions = [
        Decision(Assignment(0, 0, {"x": 0.1}), known=0, time=1.5),
        Decision(fallback, known=7, training=((0, 2), (2, 1)), seconds=0.25, time=2.5, explored=True),
    ]
    events = [Event("started", time=0.5), Event("failed", "boom", 1, 2, {"traceback": ["é", 1.0]}, 3.5)]
    with Store.create(tmp_path, SPACE, {}) as store:
        store.write([one()], decisions, events)
    with Store.open(tmp_path, readonly=True) as store:
        assert list(store.observations()) == [one()]
        assert list(store.decisions()) == decisions
        assert list(store.events()) == [replace(event, id=place + 1) for place, event in enumerate(events)]
        reasons = store.connection.execute("SELECT fallback FROM decision").fetchall()
        assert reasons == [(None,), ("too few",)], "it can be asked for in SQL"


def test_an_event_without_a_time_happened_when_it_was_stored(tmp_path: Path) -> None:
    with Store.create(tmp_path, SPACE, {}) as store:
        before = time.time()
        store.write(events=[Event("now")])
        [event] = store.events()
        assert before <= event.time <= time.time()


def test_an_event_holds_plain_values_only() -> None:
    assert Event("told", data={"shape": (2, 3)}).data == {"shape": [2, 3]}
    with pytest.raises(HistoryError, match=r"data\['agent'\]: a record holds numbers, strings, .*, got <object"):
        Event("told", data={"agent": object()})


def test_the_first_decision_for_an_interval_stays(tmp_path: Path) -> None:
    first, again = (Decision(Assignment(0, 0, {"x": 0.1}), known=0, time=when) for when in (1.0, 2.0))
    with Store.create(tmp_path, SPACE, {}) as store:
        store.write(decisions=[first])
        store.write([one()], decisions=[again])
        assert list(store.decisions()) == [first]
        assert len(store) == 1


def test_a_reader_goes_on_from_where_it_was(tmp_path: Path) -> None:
    with Store.create(tmp_path, SPACE, {}) as store:
        store.write([one(member) for member in range(3)], events=[Event(kind) for kind in "abc"])
        assert [o.member for o in store.observations(after=2)] == [2]
        last = [event.id for event in store.events()][1] or 0
        assert [event.kind for event in store.events(after=last)] == ["c"]
        assert list(store.observations(after=3)) == list(store.events(after=3)) == []
        assert store[1] == one(1)
        with pytest.raises(IndexError, match="holds 3 observations, got a request for number 3"):
            store[3]


def test_what_is_known_of_a_run_can_be_put_right(tmp_path: Path) -> None:
    with Store.create(tmp_path, SPACE, {"rounds": 3, "size": 2}) as store:
        store.describe(rounds=5, status="resumed")
        assert store.about == {"rounds": 5, "size": 2, "status": "resumed"}
        for name in ("space", "version"):
            with pytest.raises(ArgumentError, match=f"a run keeps its {name}, got a new one"):
                store.describe(**{name: 1})
    assert History.load(tmp_path).rounds == 5


def test_a_transaction_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    with Store.create(tmp_path, SPACE, {}) as store:
        store.extend([one(0)])
        decision = Decision(Assignment(1, 1, {"x": {1, 2}}), known=1)
        with pytest.raises(SpaceError, match=r"'configuration of \(1, 1\)': JSON holds"):
            store.write([one(1)], [decision], [Event("told")])
        assert ([o.key for o in store.observations()], list(store.events())) == ([(0, 0)], [])


def test_a_batch_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    with Store.create(tmp_path, SPACE, {"mode": "max"}) as store:
        store.extend([one(0)])
        with pytest.raises(HistoryError, match=r"holds each \(member, round\) once: UNIQUE.*append what is new"):
            store.extend([one(1), one(0)])
        assert [o.key for o in store.observations()] == [(0, 0)]


def test_saving_again_writes_what_is_new_and_only_that(tmp_path: Path) -> None:
    history = History(SPACE, [one()])
    for _ in range(2):
        history.save(tmp_path)
    assert History.load(tmp_path) == history
    history.append(replace(one(), member=one().member + 1))
    history.save(tmp_path)
    assert History.load(tmp_path) == history


@pytest.mark.parametrize("rounds", [3, None])
def test_a_history_with_another_number_of_rounds_goes_on_in_its_folder(rounds: int | None, tmp_path: Path) -> None:
    history = History(SPACE, [one()], rounds=1)
    history.save(tmp_path)
    longer = History(SPACE, history, rounds=rounds)
    longer.save(tmp_path)
    longer.append(replace(one(), member=one().member + 1))
    longer.save(tmp_path)
    assert History.load(tmp_path) == longer
    assert History.load(tmp_path).rounds == rounds


def test_a_run_is_never_overwritten_by_another(tmp_path: Path) -> None:
    history = History(SPACE, [one()])
    history.save(tmp_path)
    others = [
        History(SPACE),
        History(SPACE, [replace(one(), score=99.0)]),
        History(SPACE, [one()], size=7),
        History({"other": (0.0, 1.0)}),
    ]
    for other in others:
        with pytest.raises(HistoryError, match=r"holds another run, or one that went further; give another directory"):
            other.save(tmp_path)
    assert History.load(tmp_path) == history


def test_a_folder_without_a_run_is_said_to_hold_none(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"holds no run: it has no run.sqlite; give the folder of a run"):
        History.load(tmp_path)
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing behind"


def test_a_file_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / RUN_FILE).write_bytes(b"not a database, but long enough to look at" * 9)
    with pytest.raises(HistoryError, match="is not a popbandits run: file is not a database"):
        History.load(tmp_path)


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / RUN_FILE) as other:
        other.execute("CREATE TABLE contacts (name TEXT)")
    other.close()
    with pytest.raises(HistoryError, match="is not a popbandits run: no such table: run"):
        History.load(tmp_path)


@pytest.mark.parametrize(("version", "said"), [(99, "99"), (None, "none")])
def test_a_run_of_another_version_is_refused(version: int | None, said: str, tmp_path: Path) -> None:
    History(SPACE, [one()]).save(tmp_path)
    with sqlite3.connect(tmp_path / RUN_FILE) as file:
        if version is None:
            file.execute("DELETE FROM run WHERE name = 'version'")
        else:
            file.execute("UPDATE run SET value = ? WHERE name = 'version'", [json.dumps(version)])
    file.close()
    with pytest.raises(HistoryError, match=f"has schema version {said}, this popbandits reads 2, 3; install"):
        History.load(tmp_path)


def test_labels_that_json_cannot_hold_are_refused_before_a_file_is_made(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="'f': JSON holds strings, numbers, booleans, None and tuples"):
        History({"f": [min, max]}).save(tmp_path)
    assert not (tmp_path / RUN_FILE).exists()
