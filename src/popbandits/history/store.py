"""A run's record on disk, written as it happens and readable while the run goes on."""

import json
import math
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from popbandits.errors import ArgumentError, HistoryError
from popbandits.history import schema
from popbandits.history.records import Assignment, Decision, Event, Key, Observation
from popbandits.history.schema import FILE
from popbandits.space import Space
from popbandits.space.storage import pack, unpack

OBSERVATION = (
    "member, round, config, parent_member, parent_round, score_before, score, steps, seconds, status, metrics, decision"
)
DECISION = "member, round, config, parent_member, parent_round, given, seconds, decision, fallback, time"
EVENT = "id, time, kind, member, round, text, data"

LINEAGE = """WITH RECURSIVE line (member, round) AS (
    VALUES (?, ?)
    UNION ALL
    SELECT parent_member, parent_round FROM observation JOIN line USING (member, round) WHERE parent_member IS NOT NULL
) SELECT COUNT(*) FROM line"""


class Store:
    """Appends to a run's file and reads it back: observations, decisions, events, and what is known of the run.

    It belongs to the thread that opened it.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, version: int = schema.VERSION):
        self.connection, self.path, self._version = connection, path, version
        self.space = Space.from_json(self._run().pop("space"))

    @staticmethod
    def create(directory: str | Path, space: Space, about: dict[str, Any]) -> "Store":
        """A new file for a run on `space`, with what should be known about it."""
        path = Path(directory) / FILE
        if schema.holds_run(path):
            raise HistoryError(f"{path} holds a run already; give another directory, or load that one")
        schema.make(path, {**about, "space": space.to_json()})
        return Store.open(directory)

    @staticmethod
    def open_or_create(directory: str | Path, space: Space, about: dict[str, Any]) -> "Store":
        """The file of the run in this folder if it is on the same space and for the same purpose, else a new one."""
        if not schema.holds_run(Path(directory) / FILE):
            return Store.create(directory, space, about)
        store = Store.open(directory)
        known = store.about
        if store.space.to_json() != space.to_json() or {name: known.get(name) for name in about} != about:
            store.close()
            raise HistoryError(f"{store.path} holds another run, or one that went further; give another directory")
        return store

    @staticmethod
    def open(directory: str | Path, readonly: bool = False) -> "Store":
        """The file of a run that exists. Any number can be open read-only, also while the run goes on."""
        path = Path(directory) / FILE
        connection, version = schema.connect(path, readonly)
        return Store(connection, path, version)

    @property
    def about(self) -> dict[str, Any]:
        """What else is known of the run, as it stands now."""
        return {name: value for name, value in self._run().items() if name not in ("space", "version")}

    def _run(self) -> dict[str, Any]:
        return {name: json.loads(value) for name, value in self.connection.execute("SELECT name, value FROM run")}

    def describe(self, **values: Any) -> None:
        """Put on record what should be known about the run, in place of what was said before."""
        if taken := values.keys() & {"space", "version"}:
            raise ArgumentError(f"a run keeps its {taken.pop()}, got a new one; say something else about it")
        with self._writing():
            schema.describe(self.connection, values)

    # Writing

    def extend(self, observations: Iterable[Observation]) -> None:
        """Append, all or nothing."""
        self.write(observations)

    def write(
        self,
        observations: Iterable[Observation] = (),
        decisions: Iterable[Decision] = (),
        events: Iterable[Event] = (),
    ) -> None:
        """Append all or nothing. A decision that is there already stays: a resumed run decides the same again."""
        parts = (
            (_insert("observation", OBSERVATION), map(_observation_row, observations)),
            (f"{_insert('decision', DECISION)} ON CONFLICT (member, round) DO NOTHING", map(_decision_row, decisions)),
            (_insert("event", EVENT), map(_event_row, events)),
        )
        with self._writing():
            for statement, rows in parts:
                self.connection.executemany(statement, rows)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with schema.transaction(self.connection):
                yield
        except sqlite3.IntegrityError as error:
            raise HistoryError(f"{self.path} holds each (member, round) once: {error}; append what is new") from error
        except sqlite3.OperationalError as error:
            raise HistoryError(
                f"{self.path} must take what happened, got: {error}; nothing of it was written: "
                "free space or make the folder writable, then resume"
            ) from error

    # Reading

    def __len__(self) -> int:
        """How many observations there are; they are numbered without gaps."""
        return int(self.connection.execute("SELECT COALESCE(MAX(id), 0) FROM observation").fetchone()[0])

    def __getitem__(self, place: int) -> Observation:
        """The observation that was stored after `place` others."""
        row = self.connection.execute(f"SELECT {OBSERVATION} FROM observation WHERE id = ?", [place + 1]).fetchone()
        if row is None:
            raise IndexError(f"{self.path} holds {len(self)} observations, got a request for number {place}")
        return _observation(row)

    def observations(self, after: int = 0) -> Iterator[Observation]:
        """What was stored, in order, without the first `after`."""
        return map(_observation, self._select(f"{OBSERVATION} FROM observation", after))

    def keys(self, count: int) -> Iterator[Key]:
        """Member and round of the first `count` observations, in order."""
        return self.connection.execute("SELECT member, round FROM observation WHERE id <= ? ORDER BY id", [count])

    def place(self, key: Key) -> int:
        """How many observations were stored before that of (member, round)."""
        found = self._one("SELECT MAX(id) - 1 FROM observation WHERE member = ? AND round = ?", *key)
        if found is None:
            raise IndexError(f"{self.path} holds no observation of {key}, got a request for it")
        return int(found)

    def finished(self, member: int, end: int) -> int:
        """How many of the first `end` observations are of that member."""
        return int(self._one("SELECT COUNT(*) FROM observation WHERE member = ? AND id <= ?", member, end))

    def generations(self, key: Key) -> int:
        """How long the lineage of (member, round) is, itself included."""
        return int(self._one(LINEAGE, *key))

    def _one(self, query: str, *values: int) -> Any:
        """The one value that a query has."""
        return self.connection.execute(query, values).fetchone()[0]

    def decisions(self) -> Iterator[Decision]:
        """What was decided, in order."""
        return map(_decision, self._select(f"{DECISION} FROM decision", 0) if self._version > 1 else ())

    def events(self, after: int = 0) -> Iterator[Event]:
        """What else happened, in order, from the event after that with the id `after`."""
        return map(_event, self._select(f"{EVENT} FROM event", after) if self._version > 1 else ())

    def _select(self, what: str, after: int) -> Iterator[tuple[Any, ...]]:
        return self.connection.execute(f"SELECT {what} WHERE id > ? ORDER BY id", [after])

    def close(self) -> None:
        """Release the file."""
        self.connection.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# Rows of the tables, in the order of the columns above


def _insert(table: str, columns: str) -> str:
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(columns.split(',')))})"


def _observation_row(o: Observation) -> tuple[Any, ...]:
    return (
        *o.key,
        json.dumps(pack(o.config, f"configuration of {o.key}")),
        *_pair(o.parent),
        _null(o.score_before),
        _null(o.score),
        o.steps,
        o.seconds,
        o.status,
        json.dumps(dict(o.metrics)),
        json.dumps(dict(o.decision)),
    )


def _observation(row: tuple[Any, ...]) -> Observation:
    member, round_, config, parent_member, parent_round, before, score, steps, seconds, status, metrics, decision = row
    return Observation(
        member=member,
        round=round_,
        config=unpack(config),
        parent=_key(parent_member, parent_round),
        score_before=math.nan if before is None else before,
        score=math.nan if score is None else score,
        steps=steps,
        seconds=seconds,
        status=status,
        metrics=json.loads(metrics),
        decision=json.loads(decision),
    )


def _decision_row(d: Decision) -> tuple[Any, ...]:
    a = d.assignment
    fallback = a.decision.get("fallback")
    return (
        *a.key,
        json.dumps(pack(a.config, f"configuration of {a.key}")),
        *_pair(a.parent),
        json.dumps({"known": d.known, "training": d.training}),
        d.seconds,
        json.dumps(dict(a.decision)),
        None if fallback is None else str(fallback),
        d.time,
    )


def _decision(row: tuple[Any, ...]) -> Decision:
    member, round_, config, parent_member, parent_round, given, seconds, decision, _, when = row
    known = json.loads(given)
    parent = _key(parent_member, parent_round)
    return Decision(
        assignment=Assignment(member, round_, unpack(config), parent, json.loads(decision)),
        known=known["known"],
        training=tuple((m, r) for m, r in known["training"]),
        seconds=seconds,
        time=when,
    )


def _event_row(e: Event) -> tuple[Any, ...]:
    return None, e.time or time.time(), e.kind, e.member, e.round, e.text, json.dumps(dict(e.data))


def _event(row: tuple[Any, ...]) -> Event:
    id_, when, kind, member, round_, text, data = row
    return Event(kind, text, member, round_, json.loads(data), when, id_)


def _pair(key: Key | None) -> tuple[int | None, int | None]:
    return (None, None) if key is None else (int(key[0]), int(key[1]))


def _key(member: int | None, round_: int | None) -> Key | None:
    return None if member is None or round_ is None else (member, round_)


def _null(value: float) -> float | None:
    """SQLite turns NaN into NULL; say so."""
    return value if math.isfinite(value) else None
