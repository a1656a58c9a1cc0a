"""A run's record on disk: one SQLite file in write-ahead mode, readable while the run goes on."""

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from popbandits.errors import HistoryError
from popbandits.history.records import Observation
from popbandits.space import Space
from popbandits.space.storage import pack, unpack

FILE = "run.sqlite"
VERSION = 1

SCHEMA = """
CREATE TABLE run (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE observation (
    id INTEGER PRIMARY KEY,
    member INTEGER NOT NULL, round INTEGER NOT NULL,
    config TEXT NOT NULL,
    parent_member INTEGER, parent_round INTEGER,
    score_before REAL, score REAL, steps REAL, seconds REAL,
    status TEXT NOT NULL, metrics TEXT NOT NULL, decision TEXT NOT NULL,
    UNIQUE (member, round)
);
"""
COLUMNS = (
    "id, member, round, config, parent_member, parent_round, "
    "score_before, score, steps, seconds, status, metrics, decision"
)


class Store:
    """Appends observations to a run's file and reads them back."""

    def __init__(self, connection: sqlite3.Connection, path: Path):
        self.connection, self.path = connection, path
        run = {name: json.loads(value) for name, value in connection.execute("SELECT name, value FROM run")}
        self.space = Space.from_json(run.pop("space"))
        del run["version"]
        self.about: dict[str, Any] = run
        """What else was said of the run when it was made."""

    @staticmethod
    def create(directory: str | Path, space: Space, about: dict[str, Any]) -> "Store":
        """A new file for a run on `space`, with what should be known about it."""
        path = Path(directory) / FILE
        if path.exists():
            raise HistoryError(f"{path} holds a run already; give another directory, or load that one")
        path.parent.mkdir(parents=True, exist_ok=True)
        run = {**about, "version": VERSION, "space": space.to_json()}
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(SCHEMA)
        connection.executemany(
            "INSERT INTO run VALUES (?, ?)", [(name, json.dumps(value)) for name, value in run.items()]
        )
        connection.commit()
        return Store(connection, path)

    @staticmethod
    def open_or_create(directory: str | Path, space: Space, about: dict[str, Any]) -> "Store":
        """The file of the run in this folder if it is on the same space and for the same purpose, else a new one."""
        if not (Path(directory) / FILE).exists():
            return Store.create(directory, space, about)
        store = Store.open(directory)
        if store.space.to_json() != space.to_json() or {name: store.about.get(name) for name in about} != about:
            store.close()
            raise HistoryError(f"{store.path} holds another run, or one that went further; give another directory")
        return store

    @staticmethod
    def open(directory: str | Path) -> "Store":
        """The file of a run that exists."""
        path = Path(directory) / FILE
        if not path.exists():
            raise HistoryError(f"{Path(directory)} holds no run: it has no {FILE}; give the folder of a run")
        connection = sqlite3.connect(path)
        try:
            row = connection.execute("SELECT value FROM run WHERE name = 'version'").fetchone()
        except sqlite3.DatabaseError as error:
            connection.close()
            raise HistoryError(f"{path} is not a popbandits run: {error}; give the folder of one") from error
        if row is None or json.loads(row[0]) != VERSION:
            connection.close()
            found = "none" if row is None else row[0]
            raise HistoryError(
                f"{path} has schema version {found}, this popbandits reads {VERSION}; install the one that wrote it"
            )
        return Store(connection, path)

    def extend(self, observations: Iterable[Observation]) -> None:
        """Append, all or nothing."""
        try:
            with self.connection:
                self.connection.executemany(
                    f"INSERT INTO observation ({COLUMNS}) VALUES ({', '.join('?' * 13)})", map(self._row, observations)
                )
        except sqlite3.IntegrityError as error:
            raise HistoryError(f"{self.path} holds each (member, round) once: {error}; append what is new") from error

    def _row(self, o: Observation) -> tuple[Any, ...]:
        parent = (None, None) if o.parent is None else map(int, o.parent)
        return (
            None,
            *o.key,
            json.dumps(pack(o.config, f"configuration of {o.key}")),
            *parent,
            _null(o.score_before),
            _null(o.score),
            o.steps,
            o.seconds,
            o.status,
            json.dumps(dict(o.metrics)),
            json.dumps(dict(o.decision)),
        )

    def __len__(self) -> int:
        return int(self.connection.execute("SELECT COUNT(*) FROM observation").fetchone()[0])

    def last(self) -> Observation | None:
        """What was stored last."""
        return next(self._read("ORDER BY id DESC LIMIT 1"), None)

    def observations(self) -> Iterator[Observation]:
        """Everything that was stored, in order."""
        return self._read("ORDER BY id")

    def _read(self, which: str) -> Iterator[Observation]:
        for row in self.connection.execute(f"SELECT {COLUMNS} FROM observation {which}"):
            (
                _,
                member,
                round_,
                config,
                parent_member,
                parent_round,
                before,
                score,
                steps,
                seconds,
                status,
                metrics,
                decision,
            ) = row
            yield Observation(
                member=member,
                round=round_,
                config=unpack(config),
                parent=None if parent_member is None else (parent_member, parent_round),
                score_before=math.nan if before is None else before,
                score=math.nan if score is None else score,
                steps=steps,
                seconds=seconds,
                status=status,
                metrics=json.loads(metrics),
                decision=json.loads(decision),
            )

    def close(self) -> None:
        """Release the file."""
        self.connection.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _null(value: float) -> float | None:
    """SQLite turns NaN into NULL; say so."""
    return value if math.isfinite(value) else None
