"""A long run: what decisions need is kept up, and a run's file holds what memory need not."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from popbandits.errors import HistoryError
from popbandits.history import History, Observation
from popbandits.history import history as module
from popbandits.history.memory import NO_INDEX
from popbandits.storage import Store

SPACE = {"x": (0.0, 1.0), "h": ["a", "b"]}


def told(order: list[int], statuses: list[str] | None = None, scores: list[float] | None = None) -> list[Observation]:
    """Observations of members in this order; each goes on from its own last one."""
    rounds: dict[int, int] = {}
    observations = []
    for place, member in enumerate(order):
        round_ = rounds.get(member, 0)
        rounds[member] = round_ + 1
        parent = (member, round_ - 1) if round_ else None
        status: Any = "completed" if statuses is None else statuses[place % len(statuses)]
        status = "failed" if status == "lost" and parent is None else status
        score = math.nan if status != "completed" else float(place) if scores is None else scores[place % len(scores)]
        config = {"x": (place % 7) / 10, "h": "ab"[place % 2]}
        observations.append(Observation(member, round_, config, parent, score=score, status=status))
    return observations


# What is kept up


@settings(deadline=None, max_examples=60)
@given(
    order=st.lists(st.integers(0, 3), max_size=25),
    statuses=st.lists(st.sampled_from(["completed", "completed", "failed", "lost"]), min_size=1, max_size=25),
    scores=st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=1, max_size=25),
    mode=st.sampled_from(["max", "min"]),
)
def test_any_state_of_a_history_knows_what_a_walk_over_it_would_find(
    order: list[int], statuses: list[str], scores: list[float], mode: Any
) -> None:
    observations = told(order, statuses, scores)
    history = History(SPACE, observations, mode=mode, size=4)
    for length in range(len(observations) + 1):
        view, seen = history.prefix(length), observations[:length]
        for member in range(4):
            mine = [place for place, o in enumerate(seen) if o.member == member]
            completed = [place for place in mine if not seen[place].failed]
            standing = view.member_states()
            assert standing.finished[member] == view.finished(member) == len(mine)
            assert standing.latest[member] == (mine[-1] if mine else NO_INDEX)
            assert standing.completed[member] == (completed[-1] if completed else NO_INDEX)
            assert view.last_completed(member) == (seen[completed[-1]] if completed else None)
        done = [o for o in seen if not o.failed]
        best = max(done, key=lambda o: (history.sign * o.score, o.round, o.member), default=None)
        assert view.best is best
        assert view.lost == {o.parent for o in seen if o.status == "lost"}
        assert [each.tolist() for each in view.intervals()] == [[o.member for o in seen], [o.round for o in seen]]


# Lost observations


def test_what_is_lost_is_no_evidence_of_anything() -> None:
    """Models and bandits see a history as if the lost observation were not there."""
    history = History(SPACE, told([0, 1, 0, 1, 0, 1]), size=2)
    lost = Observation(0, 3, {"x": 0.9, "h": "b"}, (0, 2), 4.0, status="lost")
    for member, round_ in ((0, 4), (1, 3), (1, 4)):
        parent = None if member == 0 else (1, round_ - 1)
        other = Observation(member, round_, {"x": 0.9, "h": "b"}, parent, score=9.0)
        history.append(lost) if member == 0 else None
        history.append(other)
    for rows in (history.recent(), history.recent(6), history.informative(8), history.informative(4)):
        assert (0, 3) not in list(zip(rows.member.tolist(), rows.round.tolist(), strict=True))
        assert not rows.failed.any()
    assert len(history.recent()) == len(history) - 1
    assert history.lost == {(0, 2)}
    assert history.prefix(6).lost == set()


def test_a_configuration_that_was_lost_is_new_when_it_is_tried_at_last() -> None:
    config = {"x": 0.9, "h": "b"}
    history = History(SPACE, told([0]), size=1)
    history.append(Observation(0, 1, config, (0, 0), 1.0, status="lost"))
    history.append(Observation(0, 2, config, score=1.0))
    history.append(Observation(0, 3, config, (0, 2), score=1.0))
    assert history._columns.arrays["new"][:4].tolist() == [True, False, True, False]


def test_a_lost_observation_has_failed_has_no_score_and_has_a_parent() -> None:
    lost = Observation(0, 1, {"x": 0.5}, (0, 0), 1.0, status="lost")
    assert lost.failed
    assert math.isnan(lost.score)
    with pytest.raises(HistoryError, match=r"a lost observation has no score, got 2.0; leave it out"):
        Observation(0, 1, {"x": 0.5}, (0, 0), score=2.0, status="lost")
    with pytest.raises(HistoryError, match=r"a lost observation must have a parent, got \(0, 0\) without one"):
        Observation(0, 0, {"x": 0.5}, status="lost")
    with pytest.raises(HistoryError, match="status must be 'completed', 'failed' or 'lost', got 'gone'"):
        Observation(0, 0, {"x": 0.5}, status="gone")  # type: ignore[arg-type]


def test_a_lost_observation_survives_storage(tmp_path: Path) -> None:
    history = History(SPACE, told([0, 0, 0], ["completed", "lost"]))
    history.save(tmp_path)
    again = History.load(tmp_path)
    assert list(again) == list(history)
    assert again.lost == {(0, 0)}


# A run's file behind the history


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """An empty file, of a run that keeps little in memory."""
    monkeypatch.setattr(module, "MIN_IN_MEMORY", 10)
    history = History(SPACE, size=3)
    history.save(tmp_path)
    with Store.open(tmp_path) as opened:
        yield opened


def held(history: History) -> int:
    return len(history._observations._held)


def test_with_a_file_behind_it_a_history_holds_a_bounded_number_of_observations(store: Store) -> None:
    history, plain = History(SPACE, size=3), History(SPACE, size=3)
    history.attach_archive(store)
    for observation in told([0, 1, 2, 2, 1] * 40, ["completed", "failed", "completed"]):
        history.append(observation)
        plain.append(observation)
        store.extend([observation])
        assert held(history) <= 20
    assert len(history) == 200
    assert list(history) == list(plain)
    assert list(reversed(history)) == list(plain)[::-1]
    assert (history[3], history[-1], history[5:9]) == (plain[3], plain[-1], plain[5:9])
    assert history.find((1, 2)) == plain.find((1, 2))
    assert history.lineage() == plain.lineage()
    assert history.best == plain.best
    assert history.prefix(40) == plain.prefix(40)
    assert history.prefix(40).best == plain.prefix(40).best
    assert np.array_equal(history.informative(30).change, plain.informative(30).change, equal_nan=True)


def test_nothing_is_dropped_before_the_file_has_it(store: Store) -> None:
    history, observations = History(SPACE, size=3), told([0, 1, 2] * 30)
    history.attach_archive(store)
    for observation in observations:
        history.append(observation)
    assert held(history) == 90
    store.extend(observations[:50])
    history.append(told([0, 1, 2] * 30 + [0])[-1])
    assert held(history) == 41
    assert list(history)[:90] == observations


def test_a_file_that_has_observations_already_fills_the_history(store: Store) -> None:
    observations = told([0, 1, 2] * 30)
    store.extend(observations)
    for known in (0, 1, 47, 90):
        history = History(SPACE, observations[:known], size=3)
        history.attach_archive(store)
        assert list(history) == observations
        assert held(history) <= 20


def test_the_file_of_another_run_is_refused(store: Store) -> None:
    store.extend(told([0, 1, 2]))
    with pytest.raises(HistoryError, match=r"run.sqlite: it holds another run; give the file of this one"):
        History(SPACE, told([1, 2])).attach_archive(store)


def test_many_labels_and_members_fit_into_narrow_columns() -> None:
    space = {"h": [f"label {i}" for i in range(300)], "few": ["a", "b"]}
    history = History(space)
    for place, label in enumerate([0, 127, 128, 299]):
        history.append(Observation(100_000 + place, 0, {"h": f"label {label}", "few": "b"}, score=1.0))
    rows = history.recent()
    assert rows.points.h.tolist() == [[1, 0], [1, 127], [1, 128], [1, 299]]
    assert rows.member.tolist() == [100_000, 100_001, 100_002, 100_003]
    assert {rows.points.h.dtype, rows.member.dtype, rows.round.dtype, rows.stage.dtype} == {np.dtype(np.int64)}
