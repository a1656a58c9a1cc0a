"""Ways in which a run's folder can be damaged, by accident or on purpose: each is a function of the folder."""

import json
import os
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from popbandits.storage.schema import VERSION

Damage = Callable[[Path], None]

FILE = "run.sqlite"
DEEP = "[" * 100_000 + "]" * 100_000
ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS name, i AS value FROM n"


def sql(*statements: str, values: tuple[Any, ...] = ()) -> Damage:
    """Statements that somebody with SQLite runs on the record."""

    def damage(run: Path) -> None:
        connection = sqlite3.connect(run / FILE, isolation_level=None)
        for statement in statements:
            connection.execute(statement, values if "?" in statement else ())
        connection.close()

    return damage


def about(name: str, value: Any, raw: bool = False) -> Damage:
    """Another value of what is known of the run."""
    text = value if raw else json.dumps(value)
    return sql("INSERT OR REPLACE INTO run VALUES (?, ?)", values=(name, text))


def replaced(content: bytes) -> Damage:
    """Another file in the place of the record."""
    return lambda run: void((run / FILE).write_bytes(content))


def cut(share: float) -> Damage:
    """A record of which the end is missing."""

    def damage(run: Path) -> None:
        whole = (run / FILE).read_bytes()
        (run / FILE).write_bytes(whole[: int(share * len(whole))])

    return damage


def page(number: int, byte: int) -> Damage:
    """A page of the record that a disk lost."""

    def damage(run: Path) -> None:
        with (run / FILE).open("rb+") as file:
            file.seek(4096 * number)
            file.write(bytes([byte]) * 4096)

    return damage


def flipped(text: bytes, bit: int) -> Damage:
    """A record with one bit changed, in the first letter of a text in it."""

    def damage(run: Path) -> None:
        whole = bytearray((run / FILE).read_bytes())
        whole[whole.index(text)] ^= 1 << bit
        (run / FILE).write_bytes(whole)

    return damage


def beside(name: str, make: Callable[[Path], object]) -> Damage:
    """Something else under a name in the folder."""

    def damage(run: Path) -> None:
        (run / name).unlink(missing_ok=True)
        make(run / name)

    return damage


def void(_: object) -> None:
    """Forget a value."""


def listen(path: Path) -> None:
    """Leave a socket at this path; its name must be short, so it is made from inside the folder."""
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


def observed(column: str, value: Any) -> Damage:
    """Another value in the record of the fourth observation."""
    return sql(f"UPDATE observation SET {column} = ? WHERE id = 4", values=(value,))


def decided(column: str, value: Any) -> Damage:
    """Another value in the record of every decision."""
    return sql(f"UPDATE decision SET {column} = ?", values=(value,))


def happened(column: str, value: Any) -> Damage:
    """Another value in the log."""
    return sql(f"UPDATE event SET {column} = ?", values=(value,))


def evaluated(**values: Any) -> Damage:
    """An evaluation of the 20 observations in the log, with other values."""
    data = {"observations": 20, "chosen": [0, 3], "candidates": [[0, 3, 0.5, None]], "evaluations": 2} | values
    return sql("INSERT INTO event (time, kind, text, data) VALUES (0, 'evaluated', '', ?)", values=(json.dumps(data),))


def unconstrained(table: str) -> list[str]:
    """A table without rules for its values."""
    return [
        f"CREATE TABLE other AS SELECT * FROM {table}",
        f"DROP TABLE {table}",
        f"ALTER TABLE other RENAME TO {table}",
    ]


DAMAGES: dict[str, Damage] = {
    **{
        f"a schema with a letter that is none, in {text.decode()!r}": flipped(text, 7)
        for text in (b"TABLE event", b"event (", b"kind TEXT")
    },
    # The file
    "nothing in it": replaced(b""),
    "some text": replaced(b"a run\n" * 1000),
    "only SQLite's name": replaced(b"SQLite format 3\0"),
    "half of it": cut(0.5),
    "a tenth of it": cut(0.1),
    "all but its end": cut(0.9),  # The last page alone may be one that readers do not need.
    "a database of somebody else": lambda run: (
        replaced(b"")(run),
        sql("CREATE TABLE run (a)")(run),
    )[-1],
    **{f"page {number} is {byte:02x}": page(number, byte) for number in range(6) for byte in (0x00, 0xFF)},
    "a folder": beside(FILE, Path.mkdir),
    "a pipe": beside(FILE, os.mkfifo),
    "a socket": beside(FILE, listen),
    "a link to itself": beside(FILE, lambda path: path.symlink_to(path)),
    "a link to nothing": beside(FILE, lambda path: path.symlink_to("nowhere")),
    "a link to a device": beside(FILE, lambda path: path.symlink_to("/dev/zero")),
    "a pipe for a write-ahead log": beside(f"{FILE}-wal", os.mkfifo),
    "a pipe for shared memory": beside(f"{FILE}-shm", os.mkfifo),
    "a pipe for a journal": beside(f"{FILE}-journal", os.mkfifo),
    # The tables
    **{f"no table {name}": sql(f"DROP TABLE {name}") for name in ("run", "observation", "decision", "event")},
    "no column score": sql("ALTER TABLE observation RENAME COLUMN score TO points"),
    "no column given": sql("ALTER TABLE decision RENAME COLUMN given TO taken"),
    "no column kind": sql("ALTER TABLE event RENAME COLUMN kind TO sort"),
    "an endless view for a table": sql("DROP TABLE run", f"CREATE VIEW run AS {ENDLESS}"),
    "a trigger": sql("CREATE TRIGGER t AFTER INSERT ON observation BEGIN DELETE FROM observation; END"),
    "a virtual table": sql("CREATE VIRTUAL TABLE v USING fts5 (text)"),
    # What is known of the run
    "nothing is known": sql("DELETE FROM run"),
    "everything is {}": sql("UPDATE run SET value = '{}'"),
    "everything is null": sql("UPDATE run SET value = 'null'"),
    "only the version is known": sql("DELETE FROM run WHERE name != 'version'"),
    "of a later version": about("version", VERSION + 1),
    "of no version": sql("DELETE FROM run WHERE name = 'version'"),
    "of version -1": about("version", -1),
    "of a version in words": about("version", "two\x1b[2J"),
    "of a huge version": about("version", 10**400),
    "of a version that is bytes": about("version", b"\xff\x00", raw=True),
    "no space": sql("DELETE FROM run WHERE name = 'space'"),
    "a space that is {}": about("space", "{}"),
    "a space that is []": about("space", "[]"),
    "a space that is a number": about("space", 3),
    "a space without an end": about("space", '{"space": '),
    "a space of another kind": about("space", '{"space": {"hyperparameters": [{"type": "os.system"}]}, "nested": {}}'),
    "a space of numbers": about("space", '{"space": {"hyperparameters": [1, 2]}, "nested": 3}'),
    "a deep space": about("space", DEEP),
    **{f"size {value!r}": about("size", value) for value in (0, -1, "x", 1e308, 10**12, True, [], 2)},
    **{f"rounds {value!r}": about("rounds", value) for value in (-5, "x", 1e308, 10**30, {})},
    "a mode that is none": about("mode", "best"),
    **{f"seed {value!r}": about("seed", value) for value in (-1, "x", 1.5, None)},
    **{f"agent {value!r}": about("agent", value) for value in (3, [], "os:system", {"make": 3}, {"settings": 3})},
    **{f"method {value!r}": about("method", value) for value in (3, [], "os:system", {"import": {}}, {})},
    "begun in words": about("created", "now"),
    "begun at 1e308": about("created", 1e308),
    "a quantile in words": about("quantile", "x"),
    "an engine that is none": about("engine", "steam"),
    "an exploration that is none": about("explore", 3),
    **{f"begun with {value!r}": about("start", value) for value in (3, "x", [{}], [{"config": 3}], {"a": 1})},
    "half a value": about("rounds", "{", raw=True),
    "a deep value": about("note", DEEP, raw=True),
    "a value that is no text": about("note", b"\xff\xfe", raw=True),
    "a value that is bad text": sql("INSERT INTO run VALUES ('note', CAST(x'22fffe22' AS TEXT))"),
    # Observations
    **{f"member {value!r}": observed("member", value) for value in (-1, 10**12, 2**31 - 1, "x", 1.5, b"x")},
    **{f"round {value!r}": observed("round", value) for value in (-1, 10**12, "x", 1.5, 7)},
    **{
        f"config {value!r:.30}": observed("config", value)
        for value in (
            "{",
            "[]",
            "3",
            "null",
            "{}",
            '{"step": "far"}',
            '{"step": 1e308, "way": "up"}',
            b"\xff",
            DEEP,
            "",
        )
    },
    "a parent that is itself": sql("UPDATE observation SET parent_member = member, parent_round = round WHERE id = 4"),
    "parents in a circle": sql(
        "UPDATE observation SET parent_member = 0, parent_round = 2 WHERE member = 0 AND round = 1",
        "UPDATE observation SET parent_member = 0, parent_round = 1 WHERE member = 0 AND round = 2",
    ),
    "a parent in time to come": sql("UPDATE observation SET parent_member = 0, parent_round = 3 WHERE id = 4"),
    "a parent that is none": sql("UPDATE observation SET parent_member = 1000000000000, parent_round = 0 WHERE id = 4"),
    "a half parent": sql("UPDATE observation SET parent_round = NULL WHERE id = 5"),
    "a parent below 0": sql("UPDATE observation SET parent_member = -1, parent_round = 0 WHERE id = 4"),
    "a parent in words": sql("UPDATE observation SET parent_member = 'x', parent_round = 0 WHERE id = 4"),
    **{f"score {value!r}": observed("score", value) for value in ("x", float("inf"), None, b"1")},
    **{f"score before {value!r}": observed("score_before", value) for value in ("x", float("inf"))},
    **{f"steps {value!r}": observed("steps", value) for value in (-1, 0, "x", float("inf"))},
    **{f"seconds {value!r}": observed("seconds", value) for value in (-1, "x", float("inf"))},
    **{f"status {value!r}": observed("status", value) for value in ("done", "", b"completed", 3)},
    "lost without a parent": sql(
        "UPDATE observation SET status = 'lost', score = NULL, parent_member = NULL WHERE id = 4"
    ),
    **{
        f"metrics {value!r:.30}": observed("metrics", value)
        for value in ("{", "[]", "null", '"x"', DEEP, "9" * 5000, b"\xff")
    },
    **{f"decision {value!r:.30}": observed("decision", value) for value in ("{", "[]", "null", DEEP)},
    "text that is none": sql("UPDATE observation SET metrics = CAST(x'7bff7d' AS TEXT) WHERE id = 4"),
    "a number left out": sql("UPDATE observation SET id = 1000 WHERE id = (SELECT MAX(id) FROM observation)"),
    "a number below 0": sql("UPDATE observation SET id = -3 WHERE id = 2"),
    "a huge number": sql("UPDATE observation SET id = 9223372036854775807 WHERE id = 2"),
    "nulls where there are none": sql(*unconstrained("observation"), "UPDATE observation SET status = NULL"),
    "an interval twice": sql(
        *unconstrained("observation"), "UPDATE observation SET member = 0, round = 0 WHERE id IN (1, 2, 3)"
    ),
    "a first observation gone": sql("DELETE FROM observation WHERE id = 1"),
    # Decisions and events
    **{f"decided config {value!r:.30}": decided("config", value) for value in ("{", "[]", b"\xff", DEEP)},
    **{f"decided from {value!r:.30}": decided("given", value) for value in ("{}", "{", '{"known": -1, "training": 3}')},
    **{f"decided in {value!r} seconds": decided("seconds", value) for value in ("x", float("inf"), b"1")},
    **{f"decided at {value!r}": decided("time", value) for value in ("x", 1e308)},
    **{f"decided as {value!r:.30}": decided("decision", value) for value in ("{", "[]", DEEP)},
    "decided for nobody": sql("UPDATE decision SET member = -1 WHERE id = 2"),
    "decided for a stranger": sql("UPDATE decision SET member = 1000000000000 WHERE id = 2"),
    "decided for round -1": sql("UPDATE decision SET round = -1 WHERE id = 2"),
    "decided from times to come": sql("UPDATE decision SET parent_member = 0, parent_round = 99"),
    **{f"an event with {value!r:.30}": happened("data", value) for value in ("{", "[]", "null", DEEP, b"\xff")},
    **{f"an event of kind {value!r}": happened("kind", value) for value in (b"\xff",)},
    **{f"an event at {value!r}": happened("time", value) for value in ("x", float("inf"))},
    **{f"an event of member {value!r}": happened("member", value) for value in ("x", -1)},
    "an event in bytes": happened("text", b"\xff"),
    "an evaluation of nothing": evaluated(candidates=[]),
    "an evaluation that chose what was not evaluated": evaluated(chosen=[0, 2]),
    "an evaluation of times to come": evaluated(chosen=[0, 99], candidates=[[0, 99, 0.5, None]]),
    **{f"an evaluation of {value!r:.9}": evaluated(candidates=[[0, 3, value, None]]) for value in ("x", None, 10**400)},
    "an evaluation with an error in words": evaluated(candidates=[[0, 3, 0.5, "x"]]),
    **{f"{value!r} evaluations": evaluated(evaluations=value) for value in (0, "x")},
}

ODD: dict[str, Damage] = {
    "scores at both ends of what a number holds": sql(
        "UPDATE observation SET score = CASE member % 2 WHEN 0 THEN 1e308 ELSE -1e308 END WHERE status = 'completed'",
        "UPDATE observation SET score_before = CASE parent_member % 2 WHEN 0 THEN 1e308 ELSE -1e308 END "
        "WHERE parent_member IS NOT NULL",
    ),
    "scores that are 1e308": sql(
        "UPDATE observation SET score = 1e308 WHERE status = 'completed'",
        "UPDATE observation SET score_before = 1e308 WHERE parent_member IS NOT NULL",
    ),
    "an interval of 1e308 seconds": observed("seconds", 1e308),
    "1e308 steps": observed("steps", 1e308),
    "text for a write-ahead log": beside(f"{FILE}-wal", lambda path: path.write_text("log" * 9999)),
    "text for a journal": beside(f"{FILE}-journal", lambda path: path.write_text("log" * 9999)),
    "text for a lock": beside("run.lock", lambda path: path.write_text("locked" * 1000)),
    "a pipe for a lock": beside("run.lock", os.mkfifo),
    "a folder for a lock": beside("run.lock", Path.mkdir),
    "no size": sql("DELETE FROM run WHERE name = 'size'"),
    "metrics without letters": observed("metrics", json.dumps({"\ud800": "\udfff", "a\x00\x1b[31mb": "\x07\u202e"})),
    "metrics of all sizes": observed("metrics", json.dumps({"i": 10**300, "f": 1e308, "n": float("nan"), "l": [[[]]]})),
    "a fallback without letters": decided("fallback", "\x1b]0;owned\x07"),
    "an event without letters": happened("text", "\x1b]0;owned\x07\n\x1b[2J"),
    "an event of a kind without letters": happened("kind", "\x1b[2J"),
    "decided by chance in bytes": decided("fallback", b"\xff"),
    "an evaluation of 19 observations": evaluated(observations=19, candidates="x"),
    "a text that is long": happened("text", "x" * 1_000_000),
}
"""What is unusual, and no damage: it is read."""
