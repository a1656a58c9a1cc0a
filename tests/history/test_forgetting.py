"""A history that leaves old numbers to its file answers as one that forgot nothing, and its memory is bounded."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from popbandits.errors import HistoryError
from popbandits.history import History, Observation
from popbandits.history import history as module
from popbandits.history import rows as arrays
from popbandits.history.memory import NO_INDEX, Observations
from popbandits.storage import Store
from popbandits_experiments.contracts import spaces

SPACE = spaces()["conditional numbers"]
MEMBERS = 4
EARLY = 8
TAIL = 24
"""What the sizes below come to: MAX_LOOK_BACK + MIN_IN_MEMORY + a round."""
MOST = 2 * TAIL + EARLY + 2 * MEMBERS + 1
"""Rows in memory: twice the tail, the first ones, where members stand, the best."""


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    """Sizes at which a few hundred observations are a long run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "EARLY_OBSERVATIONS", EARLY)
        patch.setattr(arrays, "MAX_LOOK_BACK", 12)
        patch.setattr(module, "MIN_IN_MEMORY", TAIL - 12 - MEMBERS)
        patch.setattr(module, "EXTRA_ROUNDS", 1)
        patch.setattr(module, "MAX_ADDED_AT_ONCE", MEMBERS)
        yield


def run(seed: int, length: int = 160) -> list[Observation]:
    """An asynchronous run with failures, lost checkpoints and fresh starts, whose last member is very slow."""
    rng = np.random.default_rng(seed)
    given: dict[int, Any] = dict.fromkeys(range(MEMBERS))  # whose weights each trains on, since it was last told
    configs = dict(enumerate(SPACE.decode(SPACE.sample(MEMBERS, rng))))
    told: list[Observation] = []
    latest: dict[int, Observation] = {}
    while len(told) < length:
        member = MEMBERS - 1 if rng.random() < 0.02 else int(rng.integers(MEMBERS - 1))
        parent = given[member]
        status: Any = rng.choice(["completed", "failed", "lost"], p=[0.75, 0.15, 0.1])
        status = "failed" if status == "lost" and parent is None else status
        observation = Observation(
            member,
            latest[member].round + 1 if member in latest else 0,
            configs[member],
            None if parent is None else parent.key,
            math.nan if parent is None else parent.score,
            float(rng.integers(5)) if status == "completed" else math.nan,
            steps=None if rng.random() < 0.3 else float(rng.integers(1, 4)),
            status=status,
        )
        told.append(observation)
        latest[member] = observation
        if rng.random() < 0.4:  # it explores, from anybody's weights or none
            [configs[member]] = SPACE.decode(SPACE.sample(1, rng))
            given[member] = None if rng.random() < 0.2 else latest[int(rng.choice(list(latest)))]
        else:
            given[member] = observation
    return told


@contextmanager
def stored(observations: list[Observation]) -> Iterator[Store]:
    """A run's file with these observations."""
    with TemporaryDirectory() as folder, Store.create(folder, SPACE, {}) as store:
        store.extend(observations)
        yield store


def made(mode: Any = "max", size: int | None = MEMBERS) -> History:
    return History(SPACE, mode=mode, size=size)


def kept(store: Store, **about: Any) -> History:
    """All of a run's file, as a history that has forgotten much of it."""
    history = made(**about)
    history.attach_archive(store)
    assert rows(history) < MOST < len(history)
    return history


def rows(history: History) -> int:
    """How many rows are in memory."""
    return len(history) - history._columns._dropped_count


def in_fours(told: list[Observation]) -> Iterator[list[Observation]]:
    return (told[start : start + 4] for start in range(0, len(told), 4))


def bits(value: Any) -> Any:
    """A value that is equal to another if both are, to the last bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return [bits(each) for each in value]
    if hasattr(value, "points") or hasattr(value, "latest"):  # Rows, MemberStates
        return {field.name: bits(getattr(value, field.name)) for field in fields(value)}
    return (bits(value.x), bits(value.h)) if hasattr(value, "h") else value


QUESTIONS: dict[str, Callable[[History], Any]] = {
    "all rows": lambda h: h.recent(),
    "recent rows": lambda h: [h.recent(window) for window in (1, 3, 9, 50, 1000)],
    "remembered rows": lambda h: [h.informative(window) for window in (1, 3, 9, 50, 1000, None)],
    "standing": lambda h: h.member_states() if h.size else None,
    "the best": lambda h: h.best,
    "members": lambda h: [(h.finished(m), h.latest(m), h.last_completed(m)) for m in range(-1, MEMBERS + 1)],
    "stages": lambda h: [h.stage(o.parent) for o in h],
    "places": lambda h: [(h.index_of(o.key), h.find(o.key)) for o in h] + [h.find((0, 10**6)), h.find((99, 0))],
    "scores": lambda h: [h.scores(np.arange(len(h))), h.scores(np.arange(len(h))[::-3])],
    "the score of nothing": lambda h: h.scores(np.array([NO_INDEX])),
    "intervals": lambda h: h.intervals(),
    "lineages": lambda h: [h.lineage(), *(h.lineage(o) for o in h[::9])],
    "a table": lambda h: h.to_pandas().to_json(double_precision=15),
    "what was lost": lambda h: h.lost,
    "itself": lambda h: (list(h), list(reversed(h)), repr(h)),
}


# Whatever is asked


@settings(deadline=None, max_examples=4)
@given(seed=st.integers(0, 10**6), mode=st.sampled_from(["max", "min"]), size=st.sampled_from([MEMBERS, None]))
def test_a_history_answers_as_if_it_had_forgotten_nothing(seed: int, mode: Any, size: Any) -> None:
    told, rng = run(seed, 100), np.random.default_rng(seed)
    plain = History(SPACE, told, mode=mode, size=size)
    with stored(told) as store:
        for question, ask in QUESTIONS.items():
            assert bits(ask(kept(store, mode=mode, size=size))) == bits(ask(plain)), question
            for length in rng.integers(0, len(told) + 1, 2).tolist():
                found = kept(store, mode=mode, size=size).prefix(length)
                assert bits(ask(found)) == bits(ask(plain.prefix(length))), (question, length)


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    batches=st.lists(st.integers(1, 40), min_size=5, max_size=12),
    asked=st.lists(st.tuples(st.sampled_from(sorted(QUESTIONS)), st.integers(0, 100)), min_size=12, max_size=12),
)
def test_it_may_be_asked_for_anything_while_it_grows(seed: int, batches: list[int], asked: Any) -> None:
    """The file lags behind by batches of any size, and what was read back for one question is there for others."""
    plain, history, told = made(), made(), iter(run(seed, sum(batches)))
    with stored([]) as store:
        history.attach_archive(store)
        for batch, (question, percent) in zip(batches, asked, strict=False):
            waiting = [next(told) for _ in range(batch)]
            for observation in waiting:
                plain.append(observation)
                history.append(observation)
            length = len(plain) * percent // 100
            assert bits(QUESTIONS[question](history.prefix(length))) == bits(QUESTIONS[question](plain.prefix(length)))
            store.extend(waiting)


def test_a_view_made_before_something_was_forgotten_is_as_good_as_one_made_afterwards() -> None:
    told = run(5, 60)
    plain, history = (History(SPACE, told, size=MEMBERS) for _ in range(2))
    with stored(told) as store:
        view = history.prefix(50)
        history.attach_archive(store)
        assert rows(history) < 60
        for ask in QUESTIONS.values():
            assert bits(ask(view)) == bits(ask(plain.prefix(50)))


# What it costs


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many observations were read back, each time that all were."""
    counts: list[int] = []
    original = module._read_columns

    def counted(*arguments: Any) -> Any:
        counts.append(arguments[-1])
        return original(*arguments)

    monkeypatch.setattr(module, "_read_columns", counted)
    return counts


def test_memory_is_bounded_and_nothing_is_read_back_while_decisions_look_at_recent_rows(reads: list[int]) -> None:
    history, sizes = made(), []
    with stored([]) as store:
        history.attach_archive(store)
        for told in in_fours(run(1, 3000)):
            for observation in told:
                history.append(observation)
            store.extend(told)
            history.informative(2 * (TAIL - 12 - MEMBERS))
            history.recent(TAIL)
            standing = history.member_states()
            history.scores(np.concatenate([standing.latest, standing.completed]))
            assert rows(history) < MOST + 4
            assert sum(map(len, history._indices._of.values())) < MOST + 4
            sizes.append(sum(column.nbytes for column in history._columns.arrays.values()))
    row = sum(column[:1].nbytes for column in history._columns.arrays.values())
    assert len(history) == 3000
    assert max(sizes) <= 2 * (MOST + 4) * row
    assert reads == []


def test_a_store_knows_what_the_history_left_to_it() -> None:
    told = run(3)
    whole = made()
    with stored(told) as store:
        for end, observation in enumerate(told):
            whole.append(observation)
            assert store.index_of(observation.key) == end
            assert store.generations(observation.key) == len(whole.lineage(observation)) == whole.stage(observation.key)
            assert [store.finished(m, end + 1) for m in range(5)] == [whole.finished(m) for m in range(5)]
            line = [(*o.key, o.score) for o in whole.lineage(observation)]
            assert repr(store.lineage(observation.key)) == repr(line)  # Two NaNs are the same in words.
            assert repr(store.lineage(observation.key, 2)) == repr(line[-2:])
        for after in (0, 40, len(told) - 1, len(told)):
            done = [o for o in told[after:] if not o.failed]
            assert store.best(after) == max(done, key=lambda o: (whole.sign * o.score, o.round, o.member), default=None)
        assert store.best() == whole.best
        assert list(store.keys(70)) == [observation.key for observation in told[:70]]
        with pytest.raises(IndexError, match=r"holds no observation of \(99, 0\)"):
            store.index_of((99, 0))


def test_who_wants_everything_time_and_again_has_it_read_a_few_times_only(reads: list[int]) -> None:
    history = made()
    with stored([]) as store:
        history.attach_archive(store)
        for told in in_fours(run(2, 1200)):
            for observation in told:
                history.append(observation)
            store.extend(told)
            assert len(history.scores(np.arange(len(history)))) == len(history)
    assert 3 <= len(reads) <= math.log2(1200 / TAIL) + 1
    assert all(after >= 1.9 * before for before, after in pairwise(reads))


def test_what_was_read_back_for_a_view_is_there_for_the_history_and_forgotten_again_later(reads: list[int]) -> None:
    told = run(3, 400)
    with stored(told[:300]) as store:
        history = kept(store)
        history.prefix(300 - 2 * TAIL - 5).recent(1)
        assert rows(history) == 300
        assert history._columns._tail == 4 * TAIL
        assert len(reads) == 1
        history.recent()
        assert len(reads) == 1
        store.extend(told[300:])
        for observation in told[300:]:
            history.append(observation)
        assert rows(history) < MOST + 6 * TAIL < 400
        assert len(reads) == 1


def test_reading_back_holds_few_observations_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    original = Observations.extend

    def counted(memory: Observations, observations: Sequence[Observation]) -> None:
        original(memory, observations)
        held.append(len(memory._held))

    with stored(run(9, 300)) as store:
        history = kept(store)
        monkeypatch.setattr(Observations, "extend", counted)
        history.recent()
    assert len(held) >= (300 - 2 * TAIL) / MEMBERS
    assert max(held) < 2 * MEMBERS * 2


def test_a_file_that_lags_behind_does_not_have_the_rows_copied_again_and_again() -> None:
    told, history, copies = run(10, 600), made(), set()
    with stored(told[:4]) as store:
        history.attach_archive(store)
        for place, observation in enumerate(told):
            history.append(observation) if place >= 4 else None
            store.extend([told[place - 100]]) if place >= 104 else None
            copies.add(history._columns.complete_from)
    assert 10 <= len(copies) <= 600 / TAIL


def test_the_first_rows_and_where_members_stand_are_never_read_back(reads: list[int]) -> None:
    told = run(4, 300)
    best = next(place for place in range(2 * EARLY, 300) if not told[place].failed)
    told[best] = replace(told[best], score=100.0)
    with stored(told) as store:
        history = kept(store)
        slow = history.member_states().latest[MEMBERS - 1]
        assert max(slow, best) < 300 - 2 * TAIL
        assert history.best == told[best]
        assert history.scores(np.array([slow, best]))[1] == 100.0
        history.scores(history.member_states().completed)
        assert len(history.prefix(EARLY).recent())
        for state in (history, history.prefix(100)):
            state.intervals()
            assert state.best
        assert all(history.last_completed(member) for member in range(MEMBERS))
        assert reads == []


# The file


def test_nothing_is_forgotten_that_the_file_does_not_have() -> None:
    told, history = run(6, 300), made()
    with stored([]) as store:
        history.attach_archive(store)
        for observation in told[:200]:
            history.append(observation)
        assert rows(history) == 200
        store.extend(told[:100])
        history.append(told[200])
        assert 101 <= rows(history) < 101 + MOST - 2 * TAIL
        assert bits(history.recent()) == bits(History(SPACE, told[:201], size=MEMBERS).recent())


def test_a_closed_file_says_the_same_for_old_numbers_as_for_old_observations() -> None:
    with stored(run(7)) as store:
        history = kept(store)
        store.close()
        assert len(history.recent(9))
        with pytest.raises(Exception, match="closed") as observation:
            history[20]
        with pytest.raises(Exception, match="closed") as numbers:
            history.recent()
        assert (numbers.type, str(numbers.value)) == (observation.type, str(observation.value))
        assert len(history.recent(9))


def test_a_file_that_has_lost_observations_says_so() -> None:
    with stored(run(8)) as store:
        history = kept(store)
        store.connection.execute("DELETE FROM observation WHERE id > 30")
        with pytest.raises(IndexError, match=r"run.sqlite holds 30 observations, got a request for number"):
            history.recent()


@pytest.mark.parametrize("at_a_time", [1, 7, 1000])
def test_a_history_in_bulk_is_to_the_last_bit_what_it_is_one_by_one(
    at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, one_by_one = run(5, 400), made()
    for observation in told:
        one_by_one.append(observation)
    monkeypatch.setattr(module, "MAX_ADDED_AT_ONCE", at_a_time)
    with stored(told) as store:
        read = list(store.observations())
    bulk = made()
    bulk.extend(iter(read))
    assert read == told
    for name, column in one_by_one._columns.arrays.items():
        assert column[:400].tobytes() == bulk._columns.arrays[name][:400].tobytes(), name
    assert bulk.best == one_by_one.best
    assert bulk.lost == one_by_one.lost
    for field in fields(one_by_one.member_states()):
        assert (getattr(bulk.member_states(), field.name) == getattr(one_by_one.member_states(), field.name)).all()


def test_of_observations_in_bulk_none_is_added_if_one_does_not_fit() -> None:
    told, history = run(6, 8), made()
    with pytest.raises(HistoryError, match="append rounds in order"):
        history.extend([*told[:2], told[1]])
    assert len(history) == 0
    history.extend(told)
    assert list(history) == told
