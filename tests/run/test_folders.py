"""A run touches the names that it made in its folder, and nothing else, wherever its agents go."""

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from popbandits import PBT
from popbandits.basics.scratch import YOUNG, own_folder, scratch
from popbandits.errors import RunError
from popbandits.run import Result, resume, tune
from popbandits.run.replay import replay
from popbandits.run.tune import new_folder
from tests.engines.agents import Walker, space
from tests.run.test_kills import Interrupting

SETTINGS: dict[str, Any] = {"method": PBT(), "rounds": 3, "population": 3, "progress": False}


def listing(folder: Path) -> dict[str, bytes | str | None]:
    """Everything below a folder: contents of files, targets of links, None for folders."""
    return {
        str(path.relative_to(folder)): (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        )
        for path in folder.rglob("*")
    }


def put(path: Path, content: str = "years of work") -> Path:
    """A file, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


# A new run


@pytest.mark.parametrize("name", ["my-model/weights", "notes.txt", "member-0-round-0/weights", "draft-1-1/weights"])
def test_a_new_run_refuses_a_checkpoints_folder_that_holds_something(name: str, tmp_path: Path) -> None:
    put(tmp_path / "checkpoints" / name)
    before = listing(tmp_path)
    with pytest.raises(RunError, match=r"checkpoints must be empty for a new run, got .*; give another directory"):
        tune(Walker, space(), directory=tmp_path, **SETTINGS)
    assert listing(tmp_path) == before


@pytest.mark.parametrize("dangling", [False, True])
def test_a_new_run_does_not_follow_a_link_in_place_of_its_checkpoints(dangling: bool, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    if not dangling:
        put(elsewhere / "my-model" / "weights")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoints").symlink_to(elsewhere)
    before = listing(tmp_path)
    with pytest.raises(RunError, match=r"checkpoints must be the run's own folder, got a link to .*elsewhere"):
        tune(Walker, space(), directory=tmp_path / "run", **SETTINGS)
    assert listing(tmp_path) == before


def test_a_new_run_refuses_a_file_in_place_of_its_checkpoints(tmp_path: Path) -> None:
    put(tmp_path / "checkpoints")
    with pytest.raises(RunError, match=r"checkpoints must be the run's own folder, got a file"):
        tune(Walker, space(), directory=tmp_path, **SETTINGS)
    assert list(listing(tmp_path)) == ["checkpoints"]


def test_a_file_that_is_called_like_the_lock_is_kept_as_it_is(tmp_path: Path) -> None:
    put(tmp_path / "run.lock", "somebody else's lock\n" * 100)
    before = listing(tmp_path)
    assert tune(Walker, space(), directory=tmp_path, **SETTINGS).done
    assert listing(tmp_path)["run.lock"] == before["run.lock"]


def test_a_run_beside_other_files_leaves_them_alone(tmp_path: Path) -> None:
    put(tmp_path / "train.py")
    put(tmp_path / "data" / "removed-1-1" / "x")
    (tmp_path / "checkpoints").mkdir()
    before = listing(tmp_path)
    assert tune(Walker, space(), directory=tmp_path, **SETTINGS).done
    after = listing(tmp_path)
    assert {name: after[name] for name in before} == before
    made = {
        Path(name).parts[0].partition("-")[0] for name in after.keys() - before.keys()
    }  # run.sqlite-wal and the like
    assert made == {"run.sqlite", "run.lock", "checkpoints"}


# A run that is resumed


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The folder of a run with more to do."""
    folder = tmp_path / "run"
    tune(Walker, space(), directory=folder, **(SETTINGS | {"progress": Interrupting(4)}))
    return folder


def test_a_resumed_run_removes_its_own_leftovers_and_nothing_else(stopped: Path, tmp_path: Path) -> None:
    checkpoints, elsewhere = stopped / "checkpoints", put(tmp_path / "elsewhere" / "weights").parent
    for name in ("my-model", "draft-of-my-thesis", "removed-1", "member-01-round-1", "member-0-round-1-old"):
        put(checkpoints / name / "weights")
    put(checkpoints / "member-0-round-97", "a file, as no run makes it")
    for name in ("member-0-round-98", "draft-1-1", "removed-1-1"):
        (checkpoints / name).symlink_to(elsewhere)
    foreign = listing(tmp_path)
    foreign = {name: content for name, content in foreign.items() if "member-0-round-9" in name or "elsewhere" in name}
    foreign |= {name: content for name, content in listing(tmp_path).items() if name.endswith("weights")}
    for name in (
        "draft-4242-7",
        "removed-4242-8",
        "draft-0123456789abcdef-0",
        "seen-0123456789abcdef-0",
        "member-2-round-99",
    ):
        (put(checkpoints / name / "weights").parent / "deep").mkdir()
    (checkpoints / "draft-4242-7" / "link").symlink_to(elsewhere)
    assert resume(stopped, progress=False).done
    left = listing(tmp_path)
    assert {name: left.get(name) for name in foreign} == foreign
    assert not [name for name in left if "4242" in name or "abcdef" in name or "round-99" in name]


def test_a_resumed_run_does_not_follow_a_link_in_place_of_its_checkpoints(stopped: Path, tmp_path: Path) -> None:
    (stopped / "checkpoints").rename(tmp_path / "moved")
    put(tmp_path / "moved" / "draft-1-1" / "x")
    (stopped / "checkpoints").symlink_to(tmp_path / "moved")
    before = listing(tmp_path / "moved")
    with pytest.raises(RunError, match="must be the run's own folder, got a link"):
        resume(stopped, progress=False)
    assert listing(tmp_path / "moved") == before


def test_a_checkpoint_that_cannot_get_its_name_stops_the_run_and_spoils_nothing(tmp_path: Path) -> None:
    taken = tmp_path / "run" / "checkpoints" / "member-1-round-1"

    class Squatter(Walker):
        def assigned(self, member: int, round_: int) -> None:
            if (member, round_) == (1, 1):
                put(taken / "notes")

    with pytest.raises(RunError, match=r"could not rename .*draft-.* to .*member-1-round-1: Directory not empty"):
        tune(Squatter, space(), directory=tmp_path / "run", **SETTINGS)
    assert [path.name for path in taken.iterdir()] == ["notes"]
    whole = tune(Walker, space(), directory=tmp_path / "whole", **SETTINGS)
    assert resume(tmp_path / "run", agent=Walker, progress=False).history == whole.history


# Working directories


class Wanderer(Walker):
    """Goes somewhere else whenever it trains."""

    def train(self, config: dict[str, Any]) -> Any:
        there = Path.cwd() / "there"
        there.mkdir(exist_ok=True)
        os.chdir(there)
        return super().train(config)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    """A working directory, and the way back out of it."""
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


@pytest.mark.parametrize("engine", ["in-process", "threads", "processes"])
def test_an_agent_may_change_the_working_directory(engine: Any, here: Path) -> None:
    whole = tune(Walker, space(), directory="whole", **SETTINGS)
    os.chdir(here)
    result = tune(Wanderer, space(), directory="run", engine=engine, workers=1, **SETTINGS)
    assert result.directory == here / "run"
    assert result.history == whole.history
    assert result.checkpoint.is_dir()
    assert sorted(path.name for path in here.iterdir() if path.name != "there") == ["run", "whole"]


def test_a_run_without_a_folder_keeps_the_one_it_began_in(here: Path) -> None:
    result = tune(Wanderer, space(), **SETTINGS)
    assert result.directory.parent == here / "runs"
    assert result.checkpoint.is_dir()


def test_runs_of_the_same_second_have_folders_of_their_own(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "strftime", lambda *_: "2031-01-02-030405")
    names = [tune(Walker, space(), **(SETTINGS | {"rounds": 1})).directory.name for _ in range(3)]
    assert names == ["2031-01-02-030405", "2031-01-02-030405-2", "2031-01-02-030405-3"]


def test_runs_that_begin_at_the_same_moment_have_folders_of_their_own(here: Path) -> None:
    assert new_folder("now") != new_folder("now")  # Neither has written anything yet.
    assert sorted(path.name for path in (here / "runs").iterdir()) == ["now", "now-2"]


def test_a_resumed_and_a_replayed_run_keep_their_folders(here: Path) -> None:
    whole = tune(Walker, space(), directory="whole", **SETTINGS)
    tune(Walker, space(), directory="run", **(SETTINGS | {"progress": Interrupting(4)}))
    result = resume("run", agent=Wanderer, progress=False)
    assert list(result.history) == list(whole.history)
    os.chdir(here)
    lazy = Result("run")
    again = replay("run", agent=Wanderer, save="again")
    assert again.score == whole.best.score
    assert sorted(path.name for path in here.iterdir() if path.name != "there") == ["again", "run", "whole"]
    assert lazy.checkpoint.is_dir()


def test_temporary_folders_of_killed_processes_are_removed_and_those_of_others_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = put(tmp_path / "popbandits-scratch-file").name, put(tmp_path / "else" / "weights").parent.name
    with scratch() as used:
        put(used / "weights")
        if (killed := os.fork()) == 0:
            left = scratch()
            put(left.__enter__() / "weights")
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(killed, 0)
        assert len(list(tmp_path.iterdir())) == 4
        long_ago = time.time() - 2 * YOUNG
        for path in tmp_path.iterdir():
            os.utime(path, (long_ago, long_ago))
        with scratch() as new:
            assert {path.name for path in tmp_path.iterdir()} == {*kept, used.name, new.name}
            assert (used / "weights").exists()
    assert {path.name for path in tmp_path.iterdir()} == set(kept)


class Filing(Walker):
    """An agent whose library writes files, as adapters make them."""

    deadly = False

    def __init__(self, seed: int):
        super().__init__(seed)
        self.folder, self.close = own_folder(self)

    def train(self, config: dict[str, Any]) -> float:
        put(self.folder / "weights")
        if Filing.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().train(config)


def test_the_folder_of_an_agent_that_was_killed_is_removed_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    if (killed := os.fork()) == 0:
        Filing.deadly = True
        tune(Filing, space(), directory=tmp_path / "run", **SETTINGS)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(killed, 0)[1]) == -signal.SIGKILL
    (left,) = temporary.iterdir()
    os.utime(left, (time.time() - 2 * YOUNG,) * 2)
    tune(Filing, space(), directory=tmp_path / "next", **SETTINGS)
    assert list(temporary.iterdir()) == []
