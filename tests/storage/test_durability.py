"""A run's file survives: a kill at any instant, a full disk, older versions, folders that cannot be written to."""

import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from popbandits.errors import HistoryError
from popbandits.history import Assignment, Decision, Event, History, Observation
from popbandits.space import Space
from popbandits.storage import Store
from popbandits.storage.schema import RUN_FILE

SPACE = Space({"x": (0.0, 1.0)})

VERSION_2 = """
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
CREATE TABLE decision (
    id INTEGER PRIMARY KEY,
    member INTEGER NOT NULL, round INTEGER NOT NULL,
    parent_member INTEGER, parent_round INTEGER,
    config TEXT NOT NULL,
    given TEXT NOT NULL, seconds REAL, decision TEXT NOT NULL, fallback TEXT, time REAL NOT NULL,
    UNIQUE (member, round)
);
CREATE TABLE event (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL,
    member INTEGER, round INTEGER, text TEXT NOT NULL, data TEXT NOT NULL
);
INSERT INTO event VALUES (1, 1.0, 'started', NULL, NULL, '', '{}');
INSERT INTO observation VALUES (1, 0, 0, '{"x": 0.5}', NULL, NULL, NULL, 1.5, NULL, 2.0, 'completed', '{}', '{}');
INSERT INTO observation VALUES (2, 0, 1, '{"x": 0.5}', 0, 0, 1.5, NULL, NULL, NULL, 'failed', '{}', '{"theta": [1]}');
"""
KEPT_2 = [
    Observation(0, 0, {"x": 0.5}, score=1.5, seconds=2.0),
    Observation(0, 1, {"x": 0.5}, (0, 0), 1.5, status="failed", decision={"theta": [1]}),
]


def one(round_: int, **known: float) -> Observation:
    return Observation(0, round_, {"x": 0.1}, **{"score": 1.0} | known)  # type: ignore[arg-type]


def decided(round_: int) -> Decision:
    return Decision(Assignment(0, round_, {"x": 0.1}), known=round_)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter; pytest's own are closed to other users."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


@pytest.fixture
def version_2(tmp_path: Path) -> Path:
    """The folder of a run that version 2 of the schema kept."""
    file = sqlite3.connect(tmp_path / RUN_FILE)
    file.execute("PRAGMA journal_mode = WAL")
    file.executescript(VERSION_2)
    about = {"version": 2, "space": SPACE.to_json(), "mode": "max", "size": 1, "rounds": None}
    file.executemany("INSERT INTO run VALUES (?, ?)", [(name, json.dumps(value)) for name, value in about.items()])
    file.commit()
    file.close()
    return tmp_path


# Older versions


def test_a_file_of_version_2_is_read_as_it_is(version_2: Path) -> None:
    before = (version_2 / RUN_FILE).read_bytes()
    history = History.load(version_2)
    assert list(history) == KEPT_2
    assert (history.mode, history.size, history.rounds) == ("max", 1, None)
    with Store.open(version_2, readonly=True) as store:
        assert list(store.decisions()) == []
        assert [event.kind for event in store.events()] == ["started"]
        assert store.signatures() == {}
    assert (version_2 / RUN_FILE).read_bytes() == before


def test_a_file_of_version_2_is_brought_up_to_date_when_it_is_written_to(version_2: Path) -> None:
    with Store.open(version_2) as store:
        store.write([one(2)], [decided(2)], [Event("resumed")], {(0, 2): "signed"})
    with Store.open(version_2) as store:
        assert list(store.observations()) == [*KEPT_2, one(2)]
        assert [d.assignment.key for d in store.decisions()] == [(0, 2)]
        assert [event.kind for event in store.events()] == ["started", "resumed"]
        assert store.signatures() == {(0, 2): "signed"}
        assert store.about == {"mode": "max", "size": 1, "rounds": None}


# Kills

KILLED_ANYWHERE = """
import os, signal, sys
from popbandits.storage import schema, store as module, Store
from popbandits.history import Assignment, Decision, Event, Observation
from popbandits.space import Space

space, files = Space({"x": (0.0, 1.0)}), {schema.__file__, module.__file__}

def create(folder):
    Store.create(folder, space, {"mode": "max", "size": 1})

def write(folder):
    store = Store.open(folder)
    new = Observation(0, len(store), {"x": 0.1}, score=1.0)
    store.write([new], [Decision(Assignment(*new.key, new.config), len(store))], [Event("told")])

def killed_at(line, action, folder):
    # Return whether it was killed, and how many lines it ran if it was not.
    seen = 0
    read, written = os.pipe()
    def tracer(frame, event, argument):
        nonlocal seen
        if frame.f_code.co_filename not in files:
            return None
        if event in ("line", "return"):
            seen += 1
            if seen == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return tracer
    if (child := os.fork()) == 0:
        sys.settrace(tracer)
        action(folder)
        sys.settrace(None)
        os.write(written, str(seen).encode())
        os._exit(0)
    os.close(written)
    with os.fdopen(read) as answer:
        ran = int(answer.read() or 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0, ran

def instants(action, folder):
    # Some lines of all, and every one of the last: the file changes there.
    killed, last = killed_at(0, action, folder)
    assert not killed and last > 30
    return sorted({*range(1, last, int(sys.argv[2])), *range(last - 12, last + 1)})

def rounds(folder):
    with Store.open(folder, readonly=True) as store:
        return [[d.assignment.round for d in store.decisions()], [o.round for o in store.observations()],
                [event.id - 1 for event in store.events()]]

created, lines = 0, instants(create, f"{sys.argv[1]}/whole")
for line in lines:
    if not killed_at(line, create, folder := f"{sys.argv[1]}/{line}")[0]:
        break  # It took a few lines less than the first time.
    try:
        created += rounds(folder) == [[], [], []]
    except ValueError as error:
        assert "holds no run" in str(error), error
        create(folder)
assert 0 < created < len(lines), (lines, created)

folder = f"{sys.argv[1]}/whole"
lines = instants(write, folder)
for line in lines:
    if not killed_at(line, write, folder)[0]:
        break
    decided, observed, told = rounds(folder)
    assert decided == observed == told == list(range(len(told))), (line, decided, observed, told)
assert 1 < len(told) < len(lines), (lines, told)
print("whole")
"""


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_any_instant_leaves_a_file_whole(step: int, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", KILLED_ANYWHERE, tmp_path, str(step)], capture_output=True, text=True, env=environment
    )
    assert (run.stdout, run.stderr) == ("whole\n", "")


def test_an_empty_file_is_no_run_and_does_not_stand_in_the_way_of_one(tmp_path: Path) -> None:
    (tmp_path / RUN_FILE).touch()
    with pytest.raises(HistoryError, match=r"holds no run: it has no run.sqlite; give the folder of a run"):
        History.load(tmp_path)
    History(SPACE, [one(0)]).save(tmp_path)
    assert list(History.load(tmp_path)) == [one(0)]


def test_the_log_of_a_file_that_was_removed_does_not_get_into_a_new_one(tmp_path: Path) -> None:
    with Store.create(tmp_path, SPACE, {"mode": "max"}) as old:
        old.extend([one(0), one(1)])
        shutil.copy(f"{old.path}-wal", tmp_path / "kept")
    (tmp_path / RUN_FILE).unlink()
    (tmp_path / "kept").rename(tmp_path / f"{RUN_FILE}-wal")
    with Store.create(tmp_path, SPACE, {"mode": "min"}) as new:
        assert (len(new), new.about) == (0, {"mode": "min"})


def test_what_is_committed_is_on_the_disk(tmp_path: Path) -> None:
    with Store.create(tmp_path, SPACE, {}) as store:
        settings = [
            store.connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "busy_timeout")
        ]
    assert settings == ["wal", 2, 30_000], "2 is FULL: every commit waits for the disk"


# Disks and permissions


def test_a_full_disk_is_an_error_that_leaves_nothing_half_written(tmp_path: Path) -> None:
    with Store.create(tmp_path, SPACE, {"mode": "max"}) as store:
        store.write([one(0)], events=[Event("started")])
        [pages] = store.connection.execute("PRAGMA page_count").fetchone()
        store.connection.execute(f"PRAGMA max_page_count = {pages + 3}")
        big = Event("error", "a long traceback" * 10_000)
        for attempt in (
            lambda: store.write([one(1)], [decided(1)], [big]),
            lambda: store.describe(note=big.text),
        ):
            with pytest.raises(
                HistoryError,
                match=r"could not write to .*run.sqlite: database or disk is full; nothing was saved: free space",
            ):
                attempt()
            assert list(store.observations()) == [one(0)]
            assert list(store.decisions()) == []
            assert [event.kind for event in store.events()] == ["started"]
            assert store.about == {"mode": "max"}
        store.connection.execute("PRAGMA max_page_count = 1000000")
        store.write([one(1)], [decided(1)], [big])
        assert len(store) == 2


def test_a_folder_that_cannot_be_made_is_said_to_be_the_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(
        HistoryError, match=r"a run needs a folder that can be written to, got .*file/run: .*; correct the path"
    ):
        History(SPACE).save(tmp_path / "file" / "run")


AS_SOMEBODY_ELSE = """
import os, sys
import popbandits.explorers  # while it can be read
from popbandits.history import Event, History, Observation
from popbandits.storage import Store

folder = sys.argv[1]
if os.geteuid() == 0:  # whom permissions do not hold back
    os.setgid(65534)
    os.setuid(65534)
assert not os.access(folder, os.W_OK)
print([o.key for o in History.load(folder)])
try:
    with Store.open(folder) as store:
        store.write(events=[Event("written")])
except ValueError as error:
    print(error)
"""


def as_somebody_else(folder: Path) -> list[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", AS_SOMEBODY_ELSE, folder]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()


def test_a_finished_run_can_be_read_where_nothing_can_be_written(folder: Path) -> None:
    History(SPACE, [one(0), one(1)]).save(folder)
    (folder / RUN_FILE).chmod(0o444)
    folder.chmod(0o555)
    read, refused = as_somebody_else(folder)
    assert read == "[(0, 0), (0, 1)]"
    assert "attempt to write a readonly database" in refused or "must be open to this user" in refused
    assert sorted(path.name for path in folder.iterdir()) == [RUN_FILE], "looking leaves nothing behind"


@pytest.mark.parametrize("index", [True, False], ids=["with its index", "without its index"])
def test_a_killed_run_can_be_read_where_nothing_can_be_written_if_its_log_has_an_index(
    index: bool, folder: Path, tmp_path: Path
) -> None:
    with Store.create(tmp_path, SPACE, {}) as store:
        store.extend([one(0), one(1)])
        for part in ("", "-wal", "-shm") if index else ("", "-wal"):  # as a kill leaves them
            shutil.copy(f"{store.path}{part}", folder)
    folder.chmod(0o555)
    if index:
        assert as_somebody_else(folder)[0] == "[(0, 0), (0, 1)]"
    else:
        with pytest.raises(subprocess.CalledProcessError) as refused:
            as_somebody_else(folder)
        assert "unable to open database file; nothing was changed" in refused.value.stderr
        assert "copy its folder to one that you own" in refused.value.stderr


def test_readers_follow_a_run_and_cannot_write(tmp_path: Path) -> None:
    with Store.create(tmp_path, SPACE, {"status": "running"}) as store:
        readers = [Store.open(tmp_path, readonly=True) for _ in range(3)]
        store.write([one(0)], events=[Event("started")])
        store.describe(status="done", best=math.pi)
        for reader in readers:
            assert list(reader.observations()) == [one(0)]
            assert [event.kind for event in reader.events()] == ["started"]
            assert reader.about == {"status": "done", "best": math.pi}
            with pytest.raises(HistoryError, match="attempt to write a readonly database"):
                reader.extend([one(1)])
            reader.close()
