"""A run's record on disk, written as it happens and readable while the run goes on."""

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from popbandits.errors import ArgumentError, HistoryError, PopbanditsError, WriteError
from popbandits.records import Decision, Event, Key, Observation
from popbandits.space import Space
from popbandits.storage import coding, schema
from popbandits.storage.about import check_about
from popbandits.storage.coding import DECISION, EVENT, OBSERVATION
from popbandits.storage.schema import FILE
from popbandits.wording import first_line

Record = TypeVar("Record")

IN_BULK = 8192
"""Rows that are read at a time."""

DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    sqlite3.Error,
)
"""Errors that reading raises where a file does not hold what a run writes."""

LINEAGE = """WITH RECURSIVE line (member, round) AS (
    VALUES (?, ?)
    UNION
    SELECT parent_member, parent_round FROM observation JOIN line USING (member, round) WHERE parent_member IS NOT NULL
    LIMIT ?
)"""
"""An interval and those that it descends from."""


class Store:
    """Appends to a run's file and reads it back: observations, decisions, events, and what is known of the run.

    It belongs to the thread that opened it. `Store.open` and `Store.create` make one.

    Args:
        connection: Connection to the run's file.
        path: Path of that file.
        version: Version of its schema. Default: the newest. Older files are read as they are.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, version: int = schema.VERSION):
        self.connection, self.path, self._version = connection, path, version
        try:
            with self.blamed():
                self.space = Space.from_json(self._run()["space"])
        except BaseException:
            self.close()
            raise

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
        rows = self.ask("SELECT name, value FROM run")
        with self.blamed():
            return check_about({name: json.loads(value) for name, value in rows})

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
            (_insert("observation", OBSERVATION), map(coding.observation_row, observations)),
            (
                f"{_insert('decision', DECISION)} ON CONFLICT (member, round) DO NOTHING",
                map(coding.decision_row, decisions),
            ),
            (_insert("event", EVENT), map(coding.event_row, events)),
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
            raise WriteError(
                f"{self.path} must take what happened, got: {error}; nothing of it was written: "
                "free space or make the folder writable, then resume"
            ) from error
        except sqlite3.DatabaseError as error:
            raise HistoryError(f"{self.path} is damaged: {error}; nothing was written to it") from error

    # Reading

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Raise HistoryError, with the name of this file, for whatever is found wrong inside."""
        try:
            yield
        except PopbanditsError as error:
            if not isinstance(error, ValueError) or str(self.path) in str(error):
                raise
            raise HistoryError(f"{self.path}: {error}") from error
        except DAMAGE as error:
            reason = str(error) if isinstance(error, sqlite3.Error) else f"{type(error).__name__}: {error}"
            raise HistoryError(f"{self.path} is damaged: {first_line(reason)}") from error

    def ask(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows that a query has; their values are of any type, as everything in a file that somebody else wrote."""
        with self.blamed():
            return self.connection.execute(query, values).fetchall()

    def begin(self) -> None:
        """See everything as of this moment from now on, whoever writes meanwhile."""
        self.ask("BEGIN")

    def __len__(self) -> int:
        """How many observations there are; they are numbered without gaps."""
        return int(self._one("SELECT COALESCE(MAX(id), 0) FROM observation"))

    def __getitem__(self, place: int) -> Observation:
        """The observation that was stored after `place` others."""
        rows = self.ask(f"SELECT {OBSERVATION} FROM observation WHERE id = ?", [place + 1])
        if not rows:
            raise IndexError(f"{self.path} holds {len(self)} observations, got a request for number {place}")
        with self.blamed():
            return coding.observation(rows[0])

    def observations(self, after: int = 0) -> Iterator[Observation]:
        """What was stored, in order, without the first `after`."""
        expected = after + 1
        for rows in self._select(f"id, {OBSERVATION} FROM observation", after):
            with self.blamed():
                if [row[0] for row in rows] != list(range(expected, expected + len(rows))):
                    raise HistoryError(f"observations are numbered without gaps, got one missing after {expected - 1}")
                expected += len(rows)
                made = coding.observations([row[1:] for row in rows])
            yield from made

    def keys(self, count: int) -> Iterator[Key]:
        """Member and round of the first `count` observations, in order."""
        with self.blamed():
            yield from self.connection.execute(
                "SELECT member, round FROM observation WHERE id <= ? ORDER BY id", [count]
            )

    def place(self, key: Key) -> int:
        """How many observations were stored before that of (member, round)."""
        found = self._one("SELECT MAX(id) - 1 FROM observation WHERE member = ? AND round = ?", *key)
        if found is None:
            raise IndexError(f"{self.path} holds no observation of {key}, got a request for it")
        return int(found)

    def finished(self, member: int, end: int) -> int:
        """How many of the first `end` observations are of that member."""
        return int(self._one("SELECT COUNT(*) FROM observation WHERE member = ? AND id <= ?", member, end))

    def best(self, after: int = 0) -> Observation | None:
        """Return the completed observation that `records.merit` puts last, without the first `after`."""
        way = "ASC" if self.about.get("mode") == "min" else "DESC"
        found = self.ask(
            f"SELECT {OBSERVATION} FROM observation WHERE id > ? AND status = 'completed' "
            f"ORDER BY score {way}, round DESC, member DESC LIMIT 1",
            [after],
        )
        with self.blamed():
            return coding.observation(found[0]) if found else None

    def lineage(self, key: Key, most: int = -1) -> list[tuple[int, int, float]]:
        """Return member, round and score of those that (member, round) descends from and itself, the oldest first.

        Of a lineage that is longer than `most`, these are the last.
        """
        # CROSS JOIN keeps the order of the tables: SQLite would read every observation to have them by id.
        rows = self.ask(
            f"{LINEAGE} SELECT member, round, score FROM line CROSS JOIN observation USING (member, round) ORDER BY id",
            [*key, most],
        )
        with self.blamed():
            return [(int(m), int(r), math.nan if score is None else float(score)) for m, r, score in rows]

    def generations(self, key: Key) -> int:
        """How long the lineage of (member, round) is, itself included."""
        return int(self._one(f"{LINEAGE} SELECT COUNT(*) FROM line", *key, -1))

    def _one(self, query: str, *values: int) -> Any:
        """The one value that a query has."""
        return self.ask(query, values)[0][0]

    def latest(self, member: int, most: int) -> list[Observation]:
        """The last observations of a member, the latest first."""
        query = f"SELECT {OBSERVATION} FROM observation WHERE member = ? ORDER BY round DESC LIMIT ?"
        with self.blamed():
            return coding.observations(self.ask(query, [member, most]))

    def last_decision(self, member: int) -> Decision | None:
        """Return what was decided for a member last."""
        query = f"SELECT {DECISION} FROM decision WHERE member = ? ORDER BY round DESC LIMIT 1"
        with self.blamed():
            return next(map(coding.decision, self.ask(query, [member]) if self.keeps_log else ()), None)

    def deciding(self) -> dict[Key, float]:
        """Seconds that exploring took, by the interval explored for."""
        query = "SELECT member, round, seconds FROM decision WHERE seconds IS NOT NULL"
        rows = self.ask(query) if self.keeps_log else []
        with self.blamed():
            return {(member, round_): seconds for member, round_, seconds in map(coding.duration, rows)}

    def decisions(self) -> Iterator[Decision]:
        """What was decided, in order."""
        return self._records(f"{DECISION} FROM decision", 0, coding.decision)

    def events(self, after: int = 0) -> Iterator[Event]:
        """What else happened, in order, from the event after that with the id `after`."""
        return self._records(f"{EVENT} FROM event", after, coding.event)

    @property
    def keeps_log(self) -> bool:
        """Tell whether decisions and events are kept; the oldest runs had neither."""
        return self._version > 1

    def _records(self, what: str, after: int, made: Callable[[tuple[Any, ...]], Record]) -> Iterator[Record]:
        for rows in self._select(what, after) if self.keeps_log else ():
            for row in rows:
                with self.blamed():
                    record = made(row)
                yield record

    def _select(self, what: str, after: int) -> Iterator[list[tuple[Any, ...]]]:
        """Rows in the order of their ids, some at a time."""
        with self.blamed():
            cursor = self.connection.execute(f"SELECT {what} WHERE id > ? ORDER BY id", [after])
            while rows := cursor.fetchmany(IN_BULK):
                yield rows

    def copy(self, path: Path) -> None:
        """Write the whole record to one file, without a log beside it."""
        with closing(sqlite3.connect(path)) as connection:
            self.connection.backup(connection)

    def close(self) -> None:
        """Release the file."""
        self.connection.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _insert(table: str, columns: str) -> str:
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(columns.split(',')))})"


@contextmanager
def reading(directory: str | Path) -> Iterator[Store]:
    """Open a run's file to read it. What its reader finds wrong inside is a HistoryError that names the file."""
    with Store.open(directory, readonly=True) as store, store.blamed():
        yield store
