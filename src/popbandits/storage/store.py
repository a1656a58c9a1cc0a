"""A run's record on disk, written during the run and readable at any time."""

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from popbandits.basics.deprecation import present_name
from popbandits.basics.records import Decision, Event, Key, Observation
from popbandits.basics.settings import Mode
from popbandits.basics.typing import Directory
from popbandits.basics.wording import first_line
from popbandits.errors import ArgumentError, HistoryError, PopbanditsError, WriteError
from popbandits.history.archive import Archive
from popbandits.space import Space
from popbandits.storage import coding, schema
from popbandits.storage.coding import DECISION_COLUMNS, EVENT_COLUMNS, OBSERVATION_COLUMNS
from popbandits.storage.disk import readable, remedy
from popbandits.storage.schema import RUN_FILE

Record = TypeVar("Record")

ROWS_PER_READ = 8192
"""Number of rows read at a time."""

DAMAGE_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    sqlite3.Error,
)
"""Errors raised while reading a damaged file."""

LINEAGE_QUERY = """WITH RECURSIVE line (member, round) AS (
    VALUES (?, ?)
    UNION
    SELECT parent_member, parent_round FROM observation JOIN line USING (member, round) WHERE parent_member IS NOT NULL
    LIMIT ?
)"""
"""Query of an interval and all its ancestors."""


class Store(Archive):
    """The file of a run: observations, decisions, events, and metadata. Records are appended and read back.

    It can only be used in the thread that opened it. `Store.open` and `Store.create` make one.

    Args:
        connection: Connection to the run's file.
        path: Path of that file.
        version: Version of its schema. Default: the newest. Older files are read as they are.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, version: int = schema.VERSION):
        self.connection, self.path, self._version = connection, path, version
        try:
            self._run()
        except BaseException:
            self.close()
            raise

    @cached_property
    def space(self) -> Space:
        """The search space of the run."""
        with self.blamed():
            return Space.from_json(self._run()["space"])

    @staticmethod
    def create(directory: Directory, space: Space, about: dict[str, Any]) -> "Store":
        """Create the file of a run on `space`, with its metadata `about`, and open it."""
        path = Path(directory) / RUN_FILE
        if schema.holds_run(path):
            raise HistoryError(f"{path} holds a run already; give another directory, or load that one")
        schema.make(path, {**about, "space": space.to_json()})
        return Store.open(directory)

    @staticmethod
    def open_or_create(directory: Directory, space: Space, about: dict[str, Any]) -> "Store":
        """Open the file in this folder, whatever run it is of, or create one if there is none."""
        is_there = schema.holds_run(Path(directory) / RUN_FILE)
        return Store.open(directory) if is_there else Store.create(directory, space, about)

    @staticmethod
    def open(directory: Directory, readonly: bool = False) -> "Store":
        """Open the file of an existing run. Any number can be open read-only, even while the run trains."""
        path = Path(directory) / RUN_FILE
        with readable(path):
            connection, version = schema.connect(path, readonly)
            return Store(connection, path, version)

    @property
    def about(self) -> dict[str, Any]:
        """Metadata of the run, as recorded now."""
        return {name: value for name, value in self._run().items() if name not in ("space", "version")}

    @property
    def mode(self) -> Mode | None:
        """Which scores of the run are better; None if that is not recorded."""
        return self._run().get("mode")

    @property
    def space_text(self) -> str:
        """The space of the run, exactly as recorded."""
        return str(self._run()["space"])

    def _run(self) -> dict[str, Any]:
        rows = self.ask("SELECT name, value FROM run")
        with self.blamed():
            return coding.check_about({name: json.loads(value) for name, value in rows})

    def describe(self, **values: Any) -> None:
        """Write metadata of the run; existing values of the same names are replaced."""
        if taken := values.keys() & {"space", "version"}:
            raise ArgumentError(f"a run keeps its {taken.pop()}, got a new one")
        with self._writing():
            schema.describe(self.connection, values)

    # Writing

    def extend(self, observations: Iterable[Observation]) -> None:
        """Append observations, all or none."""
        self.write(observations)

    def write(
        self,
        observations: Iterable[Observation] = (),
        decisions: Iterable[Decision] = (),
        events: Iterable[Event] = (),
        signatures: Mapping[Key, str] | None = None,
    ) -> None:
        """Append all records or none. Decisions already stored are skipped: a resumed run makes the same ones again.

        Signatures are of checkpoints, by member and round; one that is there already is replaced.
        """
        new_decisions = f"{_insert('decision', DECISION_COLUMNS)} ON CONFLICT (member, round) DO NOTHING"
        signed = ((*key, signature) for key, signature in (signatures or {}).items())
        with self._writing():
            write = self.connection.executemany
            write(_insert("observation", OBSERVATION_COLUMNS), map(coding.observation_row, observations))
            write(new_decisions, map(coding.decision_row, decisions))
            write(_insert("event", EVENT_COLUMNS), map(coding.event_row, events))
            write("INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?)", signed)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with schema.transaction(self.connection):
                yield
        except sqlite3.IntegrityError as error:
            raise HistoryError(f"{self.path} holds each (member, round) once: {error}; append what is new") from error
        except sqlite3.OperationalError as error:
            raise WriteError(
                f"could not write to {self.path}: {error}; nothing was saved: {remedy(error)}, then resume"
            ) from error
        except sqlite3.DatabaseError as error:
            raise HistoryError(f"{self.path} is damaged: {error}; nothing was written to it") from error

    # Reading

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Turn any error of the block into a HistoryError that names this file."""
        try:
            with readable(self.path):
                yield
        except PopbanditsError as error:
            if not isinstance(error, ValueError) or str(self.path) in str(error):
                raise
            raise HistoryError(f"{self.path}: {error}") from error
        except DAMAGE_ERRORS as error:
            reason = str(error) if isinstance(error, sqlite3.Error) else f"{type(error).__name__}: {error}"
            raise HistoryError(f"{self.path} is damaged: {first_line(reason)}") from error

    def ask(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query; values may have any type, since the file may come from anyone."""
        with self.blamed():
            return self.connection.execute(query, values).fetchall()

    def begin(self) -> None:
        """Read the file as of this moment from now on, even if it is written to."""
        self.ask("BEGIN")

    def __len__(self) -> int:
        """Return the number of observations; they are numbered without gaps."""
        return int(self._one("SELECT COALESCE(MAX(id), 0) FROM observation"))

    def __getitem__(self, index: int) -> Observation:
        """Return the observation at an index, from 0."""
        rows = self.ask(f"SELECT {OBSERVATION_COLUMNS} FROM observation WHERE id = ?", [index + 1])
        if not rows:
            raise IndexError(f"{self.path} holds {len(self)} observations, got a request for number {index}")
        with self.blamed():
            return coding.observation(rows[0])

    def observations(self, after: int = 0) -> Iterator[Observation]:
        """Yield the observations in order, without the first `after`."""
        expected = after + 1
        for rows in self._select(f"id, {OBSERVATION_COLUMNS} FROM observation", after):
            with self.blamed():
                if [row[0] for row in rows] != list(range(expected, expected + len(rows))):
                    raise HistoryError(f"observations are numbered without gaps, got one missing after {expected - 1}")
                expected += len(rows)
                found = coding.observations([row[1:] for row in rows])
            yield from found

    def keys(self, count: int) -> Iterator[Key]:
        """Yield member and round of the first `count` observations, in order."""
        with self.blamed():
            yield from self.connection.execute(
                "SELECT member, round FROM observation WHERE id <= ? ORDER BY id", [count]
            )

    def index_of(self, key: Key) -> int:
        """Return the index of the observation of (member, round)."""
        found = self._one("SELECT MAX(id) - 1 FROM observation WHERE member = ? AND round = ?", *key)
        if found is None:
            raise IndexError(f"{self.path} holds no observation of {key}, got a request for it")
        return int(found)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return getattr(self, present_name("Store", {"place": "index_of"}, name))

    def finished(self, member: int, end: int) -> int:
        """Count the observations of a member among the first `end`."""
        return int(self._one("SELECT COUNT(*) FROM observation WHERE member = ? AND id <= ?", member, end))

    def best(self, after: int = 0) -> Observation | None:
        """Return the best completed observation, by `records.merit`, without the first `after`."""
        way = "ASC" if self.mode == "min" else "DESC"
        found = self.ask(
            f"SELECT {OBSERVATION_COLUMNS} FROM observation WHERE id > ? AND status = 'completed' "
            f"ORDER BY score {way}, round DESC, member DESC LIMIT 1",
            [after],
        )
        with self.blamed():
            return coding.observation(found[0]) if found else None

    def lineage(self, key: Key, most: int = -1) -> list[tuple[int, int, float]]:
        """Return member, round and score of the lineage of (member, round), the oldest ancestor first.

        If the lineage is longer than `most`, only the last `most` are returned.
        """
        # CROSS JOIN fixes the order of the tables: SQLite would read every observation to sort by id.
        rows = self.ask(
            f"{LINEAGE_QUERY} SELECT member, round, score "
            "FROM line CROSS JOIN observation USING (member, round) ORDER BY id",
            [*key, most],
        )
        with self.blamed():
            return [(int(m), int(r), math.nan if score is None else float(score)) for m, r, score in rows]

    def generations(self, key: Key) -> int:
        """Return the length of the lineage of (member, round), itself included."""
        return int(self._one(f"{LINEAGE_QUERY} SELECT COUNT(*) FROM line", *key, -1))

    def _one(self, query: str, *values: int) -> Any:
        """Return the single value of a query."""
        return self.ask(query, values)[0][0]

    def latest(self, member: int, most: int) -> list[Observation]:
        """Return the last `most` observations of a member, the latest first."""
        query = f"SELECT {OBSERVATION_COLUMNS} FROM observation WHERE member = ? ORDER BY round DESC LIMIT ?"
        with self.blamed():
            return coding.observations(self.ask(query, [member, most]))

    def last_decision(self, member: int) -> Decision | None:
        """Return the last decision for a member."""
        query = f"SELECT {DECISION_COLUMNS} FROM decision WHERE member = ? ORDER BY round DESC LIMIT 1"
        with self.blamed():
            return next(map(coding.decision, self.ask(query, [member])), None)

    def deciding(self) -> dict[Key, float]:
        """Map each interval to the seconds spent exploring for it."""
        query = "SELECT member, round, seconds FROM decision WHERE seconds IS NOT NULL"
        rows = self.ask(query)
        with self.blamed():
            return {(member, round_): seconds for member, round_, seconds in map(coding.duration, rows)}

    def decisions(self) -> Iterator[Decision]:
        """Yield the decisions in order."""
        return self._records(f"{DECISION_COLUMNS} FROM decision", 0, coding.decision)

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield the events in order, after the one with the id `after`."""
        return self._records(f"{EVENT_COLUMNS} FROM event", after, coding.event)

    def signatures(self) -> dict[tuple[Any, Any], Any]:
        """Map member and round to the signature of their checkpoint, as recorded by anyone."""
        rows = self.ask("SELECT member, round, signed FROM checkpoint") if self._version > 2 else []
        return {(member, round_): signed for member, round_, signed in rows}

    def completed(self) -> set[tuple[Any, Any]]:
        """Return member and round of every completed observation."""
        return set(self.ask("SELECT member, round FROM observation WHERE status = 'completed'"))

    def _records(self, what: str, after: int, read: Callable[[tuple[Any, ...]], Record]) -> Iterator[Record]:
        for rows in self._select(what, after):
            for row in rows:
                with self.blamed():
                    record = read(row)
                yield record

    def _select(self, what: str, after: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield rows in the order of their ids, in batches."""
        with self.blamed():
            cursor = self.connection.execute(f"SELECT {what} WHERE id > ? ORDER BY id", [after])
            while rows := cursor.fetchmany(ROWS_PER_READ):
                yield rows

    def copy(self, path: Path) -> None:
        """Write the whole record to one file, without a separate log."""
        with closing(sqlite3.connect(path)) as connection:
            self.connection.backup(connection)

    def close(self) -> None:
        """Release the file."""
        self.connection.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _insert(table: str, columns: str) -> str:
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(columns.split(',')))})"


@contextmanager
def reading(directory: Directory) -> Iterator[Store]:
    """Open a run's file to read it. Errors of the block become a HistoryError that names the file."""
    with Store.open(directory, readonly=True) as store, store.blamed():
        yield store
