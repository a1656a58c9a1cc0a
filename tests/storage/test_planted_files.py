"""What a sender can put beside a run's files, and that none of it reaches a file outside of the folder."""

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from popbandits import PBT, History, HistoryError, PopbanditsError, RunError, resume, tune
from popbandits.cli import main
from popbandits.run.replay import replay
from popbandits.space import Space
from popbandits.storage import Store, schema
from popbandits.storage.lock import Lock, is_running
from tests.engines.agents import Walker, space

MAGIC = bytes.fromhex("d9d505f920a163d7")
"""First bytes of SQLite's journals, and last ones of those that name another file."""


def play(directory: Path, rounds: int = 2) -> Path:
    """Make a finished run."""
    tune(Walker, space(), PBT(), population=2, rounds=rounds, directory=directory, progress=False)
    return directory


def journal_naming(victim: Path, database: Path) -> bytes:
    """Build a journal without changes, which names a file that SQLite removes when it has played it back."""
    size = struct.unpack(">H", database.read_bytes()[16:18])[0]
    pages = database.stat().st_size // size
    header = (MAGIC + struct.pack(">5I", 0, 1, pages, 512, size)).ljust(512, b"\0")
    name = os.fsencode(victim)
    return header + struct.pack(">I", 2**30 // size + 1) + name + struct.pack(">2I", len(name), sum(name)) + MAGIC


def plant(database: Path, victim: Path) -> None:
    """Put such a journal beside a database, which is made if it is none."""
    if not database.exists() or not database.stat().st_size:
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.execute("CREATE TABLE bare (name)")
    database.with_name(f"{database.name}-journal").write_bytes(journal_naming(victim, database))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is copied and never changed."""
    return play(tmp_path_factory.mktemp("finished") / "run")


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A finished run."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file outside of every run's folder."""
    path = tmp_path / "thesis.tex"
    path.write_text("years of work")
    return path


def test_a_planted_journal_removes_a_file_if_sqlite_opens_it_to_write(tmp_path: Path, victim: Path) -> None:
    plant(tmp_path / "any.sqlite", victim)
    with closing(sqlite3.connect(tmp_path / "any.sqlite")) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("bare",)]
    assert not victim.exists(), "these tests would test nothing"


ACTIONS: dict[str, Callable[[Path], object]] = {
    "resume": lambda run: resume(run, rounds=3, progress=False),
    "resume with an agent": lambda run: resume(run, rounds=3, agent=Walker, progress=False),
    "resume with trust": lambda run: resume(run, rounds=3, trust=True, progress=False),
    "resume command": lambda run: main(["resume", str(run), "--rounds", "3"]),
    "tune": play,
    "replay": replay,
    "load": History.load,
    "status": lambda run: main(["status", str(run)]),
    "report": lambda run: main(["report", str(run), "-o", str(run.parent / "page.html")]),
    "export": lambda run: main(["export", str(run), "--csv", "-o", str(run.parent / "table.csv")]),
    "store": lambda run: Store.open(run).close(),
}


@pytest.mark.parametrize("name", ["run.sqlite", "run.lock"])
@pytest.mark.parametrize("action", ACTIONS)
def test_no_planted_journal_removes_a_file(action: str, name: str, run: Path, victim: Path) -> None:
    plant(run / name, victim)
    with suppress(PopbanditsError):
        ACTIONS[action](run)
    assert victim.read_text() == "years of work"


@pytest.mark.parametrize("name", ["run.sqlite", "run.lock", "run.sqlite.new"])
def test_a_new_run_is_not_affected_by_a_planted_journal(name: str, tmp_path: Path, victim: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    plant(run / name, victim)
    if name == "run.sqlite":
        (run / name).unlink()
    assert len(History.load(play(run))) == 4
    assert victim.read_text() == "years of work"


def test_a_journal_beside_a_record_is_refused_by_its_name_before_anything_is_written(run: Path, victim: Path) -> None:
    plant(run / "run.sqlite", victim)
    before = (run / "run.sqlite").read_bytes()
    with pytest.raises(HistoryError, match=r"run\.sqlite-journal is not part of a run"):
        resume(run, rounds=3, progress=False)
    assert (run / "run.sqlite").read_bytes() == before
    assert len(History.load(run)) == 4, "who only reads does not need it"


def test_the_file_of_a_new_run_has_a_log_and_never_a_journal(tmp_path: Path) -> None:
    """A kill just after the file got its name leaves no journal, which a resume would refuse."""
    schema.make(tmp_path / schema.RUN_FILE, {"space": Space(space()).to_json()})
    assert [path.name for path in tmp_path.iterdir()] == [schema.RUN_FILE]
    assert (tmp_path / schema.RUN_FILE).read_bytes()[18:20] == b"\2\2", "2: with a write-ahead log"


# Links


def test_a_link_in_the_place_of_a_record_is_not_read(run: Path, tmp_path: Path) -> None:
    (tmp_path / "received").mkdir()
    (tmp_path / "received" / "run.sqlite").symlink_to(run / "run.sqlite")
    for action in (History.load, Store.open, lambda run: resume(run, progress=False)):
        with pytest.raises(HistoryError, match=r"received/run\.sqlite is a link"):
            action(tmp_path / "received")
    assert main(["status", str(tmp_path / "received")]) == 1


def test_a_new_run_does_not_write_through_a_dangling_link_for_its_record(tmp_path: Path) -> None:
    (tmp_path / "received").mkdir()
    (tmp_path / "received" / "run.sqlite").symlink_to(tmp_path / "target")
    with suppress(PopbanditsError):
        play(tmp_path / "received")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("there", [True, False])
def test_a_link_in_the_place_of_the_lock_is_refused_and_its_target_untouched(
    there: bool, run: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    (run / "run.lock").unlink()
    (run / "run.lock").symlink_to(target)
    if there:
        target.write_text("mine")
    with pytest.raises(RunError, match=r"run\.lock must be a regular file"):
        resume(run, rounds=3, progress=False)
    assert not is_running(run)
    assert target.exists() == there


def test_a_folder_that_is_a_link_is_resumed_like_any_other(run: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(run)
    assert len(resume(link, rounds=3, progress=False).history) == 6
    assert main(["status", str(link)]) == 0
    lock = Lock(link)
    assert is_running(run)
    lock.close()


# The lock

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""
"""Locks a folder as version 0.1.0 did."""


def test_the_lock_of_an_earlier_version_is_noticed_while_it_is_held(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as earlier:
        assert earlier.stdout is not None
        assert earlier.stdout.readline() == "held\n"
        assert is_running(tmp_path)
        with pytest.raises(RunError, match="another process is running"):
            Lock(tmp_path)
        earlier.communicate()
    assert not is_running(tmp_path)
    Lock(tmp_path).close()


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" + bytes(4080)])
def test_the_lock_file_of_an_earlier_version_is_used_and_kept(content: bytes, run: Path) -> None:
    (run / "run.lock").write_bytes(content)
    assert len(resume(run, rounds=3, progress=False).history) == 6
    assert (run / "run.lock").read_bytes() == content


def test_a_lock_is_held_once_also_within_a_process(tmp_path: Path) -> None:
    first = Lock(tmp_path)
    with pytest.raises(RunError, match="another process is running"):
        Lock(tmp_path)
    assert is_running(tmp_path), "whoever looked did not release it"
    first.close()
    Lock(tmp_path).close()


def test_a_process_that_was_forked_while_a_run_trained_does_not_keep_its_folder_locked(tmp_path: Path) -> None:
    (ready, told), (read, write) = os.pipe(), os.pipe()
    lock = Lock(tmp_path)
    if (child := os.fork()) == 0:
        os.close(write)
        os.write(told, b"!")
        os.read(read, 1)  # until the parent ends it
        os._exit(0)
    os.read(ready, 1)
    lock.close()
    try:
        assert not is_running(tmp_path)
        Lock(tmp_path).close()
    finally:
        for handle in (ready, told, read, write):
            os.close(handle)
        os.waitpid(child, 0)
