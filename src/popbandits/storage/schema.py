"""The schema of a run's file, and how it is created and opened: one versioned SQLite file in write-ahead mode."""

import json
import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from popbandits.basics.wording import first_line
from popbandits.errors import HistoryError
from popbandits.storage.disk import remedy

RUN_FILE = "run.sqlite"
VERSION = 3
BUSY_TIMEOUT_SECONDS = 30.0
"""Maximum seconds to wait for another process that is writing."""

MAX_NAMED_RUNS = 5
"""Maximum number of runs that an error names."""

TABLES = {number: Path(__file__).with_name(f"schema-{number}.sql").read_text("utf-8").split(";") for number in (2, 3)}
"""Tables added by each version, from that of the first release on. A file is created or upgraded by creating the tables
that it lacks."""


class Connection(sqlite3.Connection):
    """A connection that reports all damage as sqlite3.DatabaseError.

    SQLite quotes a damaged schema in its messages, and Python may fail to decode them.
    """

    def execute(self, *args: Any) -> sqlite3.Cursor:
        """Execute a statement."""
        try:
            return super().execute(*args)
        except UnicodeDecodeError as error:
            raise sqlite3.DatabaseError("its schema is damaged, and quoted in a message that is no text") from error


def holds_run(path: Path) -> bool:
    """Tell whether the file of a run exists; an empty one was left by a process killed too early."""
    return bool((found := _look(path)) and found.st_size > 0)


def _look(path: Path) -> os.stat_result | None:
    """Return what is at the path itself, or None for nothing: a disk that fails is no missing file."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        raise HistoryError(f"{path} cannot be read: {error.strerror}; {remedy(error)}, then try again") from error


def is_plain(path: Path) -> bool:
    """Tell whether the path is a regular file: not a link, nor a pipe that would block its reader."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def companions(path: Path) -> list[Path]:
    """List the files that SQLite opens with another: its write-ahead log, the log's index, and a journal."""
    return [path.with_name(f"{path.name}-{end}") for end in ("wal", "shm", "journal")]


def _require_plain(path: Path, readonly: bool) -> None:
    """Raise HistoryError if a run's file, or one that SQLite opens with it, is a link, a pipe or the like.

    To write, raise it for a journal too: SQLite would obey it, and remove any file that it names. Runs have a log
    instead, from the moment their file has its name.
    """
    if (found := _look(path)) and not stat.S_ISREG(found.st_mode):
        kind = "a link" if path.is_symlink() else "not a file"
        raise HistoryError(f"{path} is {kind}, so it holds no run; give the folder of one")
    *_, journal = companions(path)
    for companion in companions(path):
        if (found := _look(companion)) and not stat.S_ISREG(found.st_mode):
            raise HistoryError(f"{companion} must be a regular file, as SQLite opens it; remove it")
    if not readonly and os.path.lexists(journal):
        raise HistoryError(
            f"{journal} is not part of a run, and SQLite would remove the files that it names; if you know that nobody "
            "else put it there, remove it"
        )


def make(path: Path, run: Mapping[str, Any]) -> None:
    """Create a run's file, complete or not at all: it is written under another name, then renamed."""
    new = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for leftover in (new, *companions(new), *companions(path)):
            leftover.unlink(missing_ok=True)  # SQLite would apply another file's log to this one.
        with closing(_connect(new)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")  # Under the final name there is never a journal.
            with transaction(connection):
                upgrade(connection, 0)
                describe(connection, run)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # Closing does it too, and says nothing if it fails.
        os.replace(new, path)
    except (OSError, sqlite3.OperationalError) as error:
        raise HistoryError(
            f"a run needs a folder that can be written to, got {path.parent}: {error}; {remedy(error)}, or give another"
        ) from error


def connect(path: Path, readonly: bool) -> tuple[sqlite3.Connection, int]:
    """Open the file of an existing run, and return its version too; upgrade it unless it is read-only."""
    _require_plain(path, readonly)
    if not holds_run(path):
        raise HistoryError(_why_no_run(path))
    connection = _reading(path) if readonly else _connect(path)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")  # No code in the file is run.
        connection.execute("PRAGMA cell_size_check = ON")
        _require_tables(connection, path)
        row = connection.execute("SELECT value FROM run WHERE name = 'version'").fetchone()
        version = next((number for number in TABLES if row is not None and row[0] == str(number)), None)
        if version is None:
            said = "none" if row is None else first_line(str(row[0]), 40)
            raise HistoryError(
                f"{path} has schema version {said}, this popbandits reads "
                f"{', '.join(map(str, TABLES))}; install the one that wrote it"
            )
        _require_columns(connection, path, version)
        if not readonly:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # Commits survive a power cut.
            if version < VERSION:
                with transaction(connection):
                    upgrade(connection, version)
                version = VERSION
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error):
            raise HistoryError(
                f"{path} must be open to this user, got: {error}; copy its folder to one that you own"
            ) from error
        if isinstance(error, sqlite3.DatabaseError):
            raise HistoryError(f"{path} is not a popbandits run: {error}; give the folder of one") from error
        raise
    return connection, version


def _why_no_run(path: Path) -> str:
    """Say why there is no run at a path, and name runs one folder below."""
    folder = path.parent
    if not os.path.lexists(folder):
        return f"{folder} holds no run: there is no such folder; give the folder of a run"
    runs = sorted(str(each.parent) for each in folder.glob(f"*/{path.name}"))
    if not runs:
        return f"{folder} holds no run: it has no {path.name}; give the folder of a run"
    more = f" and {len(runs) - MAX_NAMED_RUNS} more" if len(runs) > MAX_NAMED_RUNS else ""
    return f"{folder} holds no run: folders in it do; give one of {', '.join(runs[:MAX_NAMED_RUNS])}{more}"


@cache
def _columns(version: int) -> dict[str, set[str]]:
    """Return the columns of each table of a version."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in (text for number, texts in TABLES.items() if number <= version for text in texts):
            connection.execute(statement)
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: {row[1] for row in connection.execute(f"PRAGMA table_info({name})")} for name in names}


def _require_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Raise HistoryError for a file with anything that computes, such as a view: reading it could take for ever."""
    for kind, name, page in connection.execute("SELECT type, name, rootpage FROM sqlite_master"):
        if kind not in ("table", "index") or not page:
            raise HistoryError(f"{path} is damaged: a run's file holds tables, got the {kind} {name!r:.60}")


def _require_columns(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Raise HistoryError unless the file has the tables of its version, with their columns."""
    for name, columns in _columns(version).items():
        if missing := columns - {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}:
            what = f"the columns {', '.join(sorted(missing))}" if len(missing) < len(columns) else "all of it"
            raise HistoryError(f"{path} is damaged: of its table {name!r}, {what} is missing")


def _connect(path: Path | str) -> sqlite3.Connection:
    """Open a connection to a file, by its path or by a URI with options."""
    is_uri = isinstance(path, str)
    return sqlite3.connect(path, BUSY_TIMEOUT_SECONDS, isolation_level=None, uri=is_uri, factory=Connection)


def _reading(path: Path) -> sqlite3.Connection:
    """Open a connection that cannot write; read-only media and users without write access work too."""
    uri = path.resolve().as_uri()
    connection = _connect(f"{uri}?mode=ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master")
    except sqlite3.DatabaseError:
        # SQLite wants to create the log's index. Without a log no process is writing, and none is needed.
        if not holds_run(Path(f"{path}-wal")):
            connection.close()
            return _connect(f"{uri}?immutable=1")
    return connection


def upgrade(connection: sqlite3.Connection, version: int) -> None:
    """Create the tables that a file of this version lacks (0: a new file); within a transaction."""
    for table in (text for newer, texts in TABLES.items() if newer > version for text in texts):
        connection.execute(table)
    describe(connection, {"version": VERSION})


def describe(connection: sqlite3.Connection, values: Mapping[str, Any]) -> None:
    """Write metadata of the run; within a transaction."""
    connection.executemany(
        "INSERT OR REPLACE INTO run VALUES (?, ?)", [(name, json.dumps(value)) for name, value in values.items()]
    )


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit at the end, or roll back on any exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # A full disk may have ended it already.
            connection.execute("ROLLBACK")
        raise
