"""When the disk fails, the run says so, blames no agent, and goes on after a resume as if nothing had happened."""

import errno
import io
import os
import re
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits import PBT, History
from popbandits.cli import main
from popbandits.errors import CheckpointError, DiskError, HistoryError, PopbanditsError, ReadError
from popbandits.history import Observation
from popbandits.reports.status import status
from popbandits.run import resume, tune
from popbandits.storage import schema
from popbandits.storage.checkpoints import verify
from popbandits.storage.disk import fault, readable, write_whole
from popbandits.storage.folders import last_write
from popbandits.storage.store import Store
from popbandits.views.view import View
from tests.engines.agents import Walker, space

SETTINGS: dict[str, Any] = {"method": PBT(), "rounds": 3, "population": 3}
HEAVY = 600_000
"""Bytes of a checkpoint."""


class Disk:
    """A place to write that can be filled up: a small file system of its own where that is allowed, else a limit on
    the size of files, which the operating system enforces with the same consequences."""

    def __init__(self, path: Path):
        self.path = path
        mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(path)]
        self.is_mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
        self._limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, left: int) -> None:
        """Leave so many bytes."""
        if not self.is_mounted:
            for pid in (os.getpid(), *(child.pid for child in active_children() if child.pid)):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (max(left, 200_000), self._limit[1]))
            return
        with open(self.path / "filler", "wb") as file:
            while (size := os.statvfs(self.path).f_bavail * os.statvfs(self.path).f_frsize - left) > 0:
                with suppress(OSError):  # A thread that is saving just now took some of it.
                    os.posix_fallocate(file.fileno(), 0, size)
                    return

    def free(self) -> None:
        """Make room again."""
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limit)
        (self.path / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        self.free()
        if self.is_mounted:
            subprocess.run(["umount", "--lazy", str(self.path)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path)
    yield made
    made.close()


class Filling(View):
    """Fills a disk up after some observations."""

    def __init__(self, disk: Disk, after: int, left: int):
        self.disk, self.after, self.left = disk, after, left

    def told(self, observation: Observation) -> None:
        self.after -= 1
        if self.after == 0:
            self.disk.fill(self.left)


class Torch(Walker):
    """Saves as most agents do; PyTorch writes files itself, and says nothing of why it could not."""

    def save(self, directory: Path) -> None:
        import torch

        super().save(directory)
        torch.save({"weights": torch.zeros(HEAVY // 4)}, directory / "model.pt")


class TorchFile(Walker):
    def save(self, directory: Path) -> None:
        import torch

        super().save(directory)
        with open(directory / "model.pt", "wb") as file:
            torch.save({"weights": torch.zeros(HEAVY // 4)}, file)


class Numpy(Walker):
    def save(self, directory: Path) -> None:
        super().save(directory)
        np.save(directory / "big.npy", np.zeros(HEAVY // 8))


class Silent(Walker):
    """Hides what happened while it trained or saved."""

    def save(self, directory: Path) -> None:
        super().save(directory)
        try:
            np.save(directory / "big.npy", np.zeros(HEAVY // 8))
        except OSError:
            failed = True
        else:
            failed = False
        if failed:
            raise RuntimeError("could not save")


def no_agent_is_blamed(directory: Path) -> None:
    assert not any(o.failed for o in History.load(directory))
    with Store.open(directory, readonly=True) as store:
        assert {event.kind for event in store.events()} <= {"started", "resumed", "stopped", "finished", "disk"}


@pytest.mark.parametrize(
    ("agent", "engine"),
    [
        (Torch, "in-process"),
        (Torch, "threads"),
        pytest.param(Torch, "processes", marks=pytest.mark.slow),  # Its report travels as those of other failures do.
        (TorchFile, "in-process"),
        (Numpy, "in-process"),
        (Silent, "in-process"),
    ],
)
def test_a_checkpoint_that_does_not_fit_stops_the_run_and_no_agent_is_blamed(
    agent: Any, engine: Any, disk: Disk
) -> None:
    whole = tune(agent, space(), directory=disk.path / "whole", progress=False, **SETTINGS)
    whole_history = list(whole.history)
    subprocess.run(["rm", "-rf", whole.directory], check=True)
    full = Filling(disk, after=4, left=300_000)
    # Beside a worker that fills the disk, the record may be the first that does not fit. The third is PyTorch's own,
    # where there was room again when the disk was looked at.
    refusals = "No space left|File too large|unexpected pos|database or disk is full"
    with pytest.raises(DiskError, match=rf"(?s)run.*({refusals}).*resume"):
        tune(
            agent,
            space(),
            directory=disk.path / "run",
            engine=engine,
            workers=1,
            keep="all",  # Nothing is removed that would make room again.
            progress=full,
            **SETTINGS,
        )
    no_agent_is_blamed(disk.path / "run")
    assert len(History.load(disk.path / "run")) >= 4
    disk.free()
    assert list(resume(disk.path / "run", engine="in-process", progress=False).history) == whole_history
    no_agent_is_blamed(disk.path / "run")


def test_a_record_that_does_not_fit_stops_the_run_and_nothing_is_lost(disk: Disk) -> None:
    if not disk.is_mounted:  # The limit holds for files one by one, and the record's is smaller than the checkpoints.
        pytest.skip("needs the right to mount a file system")
    whole = list(tune(Walker, space(), directory=disk.path / "whole", progress=False, **SETTINGS).history)
    with pytest.raises(DiskError, match=r"run.sqlite: database or disk is full; nothing was saved"):
        tune(Walker, space(), directory=disk.path / "run", progress=Filling(disk, 4, 0), **SETTINGS)
    disk.free()
    assert list(resume(disk.path / "run", progress=False).history) == whole
    no_agent_is_blamed(disk.path / "run")


def test_an_interval_that_fails_on_a_full_disk_is_the_disks_failure(disk: Disk) -> None:
    class Needy(Walker):
        def train(self, config: dict[str, Any]) -> Any:
            if len(History.load(disk.path / "run")) >= 4 and os.path.exists(disk.path / "filler"):
                raise RuntimeError("worker (pid 17) exited unexpectedly")
            return super().train(config)

    if not disk.is_mounted:
        pytest.skip("needs the right to mount a file system")
    with pytest.raises(DiskError, match="No space left"):
        tune(Needy, space(), directory=disk.path / "run", progress=Filling(disk, 4, 100_000), **SETTINGS)
    no_agent_is_blamed(disk.path / "run")


def test_an_agent_that_fails_on_a_healthy_disk_is_blamed(tmp_path: Path) -> None:
    for error in (RuntimeError("CUDA out of memory"), OSError(errno.EACCES, "denied", "/data"), MemoryError()):
        assert fault(error, tmp_path) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG])
def test_the_disk_is_found_behind_other_exceptions(number: int, tmp_path: Path) -> None:
    disk = OSError(number, os.strerror(number), "model.pt")
    told = RuntimeError("pos 576 vs 534")
    told.__context__ = disk
    caused = ValueError("cannot save")
    caused.__cause__ = told
    told.__cause__ = caused  # Such circles can be made.
    for error in (disk, told, caused, ExceptionGroup("two", [ValueError("1"), caused]), RuntimeError(str(disk))):
        assert os.strerror(number) in str(fault(error, tmp_path))


# A file system that cannot be written to, or not any more


@contextmanager
def failing(name: str, number: int, when: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a call of the operating system fail: no real disk fails on request."""
    real = getattr(os, name)

    def fail(*args: Any, **more: Any) -> Any:
        if when(*args):
            raise OSError(number, os.strerror(number), os.fspath(args[0]) if not isinstance(args[0], int) else None)
        return real(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail)
        yield


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_a_rename_that_fails_stops_the_run(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def second(source: Any, target: Any) -> bool:
        return "member-1-round-1" in str(target)

    whole = tune(Walker, space(), directory=tmp_path / "whole", progress=False, **SETTINGS)
    with (
        failing("rename", number, second, monkeypatch),
        pytest.raises(DiskError, match=rf"could not rename .*member-1-round-1: {os.strerror(number)}; .*then resume"),
    ):
        tune(Walker, space(), directory=tmp_path / "run", progress=False, **SETTINGS)
    no_agent_is_blamed(tmp_path / "run")
    assert resume(tmp_path / "run", progress=False).history == whole.history


def test_a_checkpoint_that_does_not_reach_the_disk_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tune(Walker, space(), directory=tmp_path / "whole", progress=False, **SETTINGS)
    calls = iter(range(1000))
    with (
        failing("fsync", errno.EIO, lambda file: next(calls) == 14, monkeypatch),
        pytest.raises(DiskError, match=r"could not write .*draft-.*: Input/output error; everything so far is in"),
    ):
        tune(Walker, space(), directory=tmp_path / "run", progress=False, **SETTINGS)
    no_agent_is_blamed(tmp_path / "run")
    assert resume(tmp_path / "run", progress=False).history == whole.history


def test_a_checkpoint_that_cannot_be_read_for_now_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "member-0-round-0"
    folder.mkdir()
    (folder / "popbandits.manifest.json").write_text("{}")

    def refuse(path: Any, *args: Any, **more: Any) -> Any:
        raise OSError(number, os.strerror(number), str(path))

    for number, kind in (
        (errno.EIO, DiskError),
        (errno.EACCES, DiskError),
        (errno.ESTALE, DiskError),
        (errno.ENOENT, CheckpointError),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(io, "open", refuse)
            with pytest.raises(kind, match=rf"(could not read|cannot be read).*{os.strerror(number)}"):
                verify(folder)


def test_a_record_on_a_disk_that_fails_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tune(Walker, space(), directory=tmp_path / "run", progress=False, **SETTINGS).directory
    told = r"could not read .*run\.sqlite: Input/output error; nothing was changed: .*, then try again"
    with failing("stat", errno.EIO, lambda path, **_: str(path).endswith("run.sqlite"), monkeypatch):
        for read in (History.load, status):
            with pytest.raises(ReadError, match=told):
                read(run)
    unreadable = sqlite3.DatabaseError("database disk image is malformed")
    unreadable.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    with pytest.raises(ReadError, match="could not read"), readable(tmp_path):  # A folder cannot be read as a file.
        raise unreadable
    with pytest.raises(sqlite3.DatabaseError, match="malformed"), readable(run / "run.sqlite"):
        raise unreadable


def test_a_disk_that_refuses_a_new_run_is_told_with_a_way_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        failing("mkdir", errno.ENOSPC, lambda path, *_: str(path).endswith("run"), monkeypatch),
        pytest.raises(
            DiskError,
            match=r"No space left on device; nothing was recorded in .*: free space there, or give another directory",
        ),
    ):
        tune(Walker, space(), directory=tmp_path / "run", progress=False, **SETTINGS)


def test_a_new_record_whose_log_cannot_be_copied_gets_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(schema.Connection):
        def execute(self, *args: Any) -> sqlite3.Cursor:
            if "wal_checkpoint" in args[0]:
                raise sqlite3.OperationalError("disk I/O error")
            return super().execute(*args)

    monkeypatch.setattr(schema, "Connection", Failing)
    with pytest.raises(HistoryError, match=r"got .*: disk I/O error; fix the disk, or give another"):
        tune(Walker, space(), PBT(), rounds=1, directory=tmp_path, progress=False)
    assert not (tmp_path / "run.sqlite").exists()
    monkeypatch.undo()
    assert tune(Walker, space(), PBT(), rounds=1, directory=tmp_path, progress=False).done


def test_a_record_that_a_disk_refuses_to_look_at_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(Walker, space(), PBT(), rounds=1, directory=tmp_path, progress=False)
    look = Path.lstat

    def refuse(path: Path) -> os.stat_result:
        if path.name == "run.sqlite":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return look(path)

    monkeypatch.setattr(Path, "lstat", refuse)
    with pytest.raises(ReadError, match=r"could not read .*run\.sqlite: Input/output error"):
        History.load(tmp_path)
    with pytest.raises(HistoryError, match=r"run\.sqlite cannot be read: Input/output error"):
        schema.holds_run(tmp_path / "run.sqlite")


def test_a_checkpoint_that_cannot_be_read_to_be_signed_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unsigned, it would pass for a stranger's, and a resume would ask whether it is trusted."""
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.parent.name == "member-1-round-1":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DiskError, match=r"could not read .*member-1-round-1: Input/output error.*resume"):
        tune(Walker, space(), directory=tmp_path / "run", progress=False, **SETTINGS)
    monkeypatch.undo()
    resumed = resume(tmp_path / "run", progress=False)
    whole = tune(Walker, space(), directory=tmp_path / "whole", progress=False, **SETTINGS)
    assert resumed.history == whole.history


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.html"
    write_whole(page, b"old")
    with (
        failing("replace", errno.ENOSPC, lambda *_: True, monkeypatch),
        pytest.raises(DiskError, match=r"could not write .*page.html: No space left on device; free space there"),
    ):
        write_whole(page, b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"page.html": b"old"}


def test_an_export_to_a_disk_that_refuses_all_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tune(Walker, space(), directory=tmp_path / "run", progress=False, **SETTINGS).directory
    with failing("unlink", errno.EROFS, lambda *_: True, monkeypatch):
        assert main(["export", str(run), "--csv", "-o", str(tmp_path / "missing" / "rows.csv")]) == 1
    assert "cannot write to" in capsys.readouterr().err


def test_a_run_that_was_removed_has_no_last_change(tmp_path: Path) -> None:
    assert last_write(tmp_path) == 0.0


def test_an_agent_that_deletes_its_folder_is_blamed_and_not_the_disk(tmp_path: Path) -> None:
    class Deleting(Walker):
        def assigned(self, member: int, round_: int) -> None:
            self.key = member, round_

        def save(self, directory: Path) -> None:
            super().save(directory)
            if self.key == (1, 1):
                subprocess.run(["rm", "-r", directory], check=True)

    result = tune(Deleting, space(), directory=tmp_path / "run", progress=False, **SETTINGS)
    assert [o.key for o in result.history if o.failed] == [(1, 1)]


def test_a_run_whose_folder_is_removed_stops(tmp_path: Path) -> None:
    class Remover(View):
        def told(self, observation: Observation) -> None:
            if observation.key == (1, 1):
                subprocess.run(["rm", "-rf", tmp_path / "run"], check=True)

    with pytest.raises(DiskError, match=r"could not read .*run/checkpoints: No such file or directory"):
        tune(Walker, space(), directory=tmp_path / "run", progress=Remover(), **SETTINGS)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("x" * 300, "File name too long"), ("file/run", "Not a directory"), ("/proc/run", "No such file or directory")],
)
def test_a_folder_that_cannot_be_made_or_read_is_named(name: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PopbanditsError, match=rf"(could not|cannot) .*: {reason}") as refused:
        tune(Walker, space(), directory=tmp_path / name, progress=False)
    assert str(tmp_path / name) in str(refused.value)
    with pytest.raises(PopbanditsError, match=rf"{name[-20:]}.*({reason}|holds no run)"):
        resume(tmp_path / name, progress=False)


AS_SOMEBODY_ELSE = """
import os, sys, tempfile
from pathlib import Path
from tests.engines.agents import Walker, space
from popbandits import History
from popbandits.run import resume, tune
from popbandits.errors import PopbanditsError
from popbandits.storage.disk import write_whole

with tempfile.TemporaryDirectory() as first:  # Everything is imported while it can be read.
    tune(Walker, space(), directory=first, population=3, rounds=3, progress=False)
if os.geteuid() == 0:  # whom permissions do not hold back
    os.setgid(65534)
    os.setuid(65534)
folder = sys.argv[1]

class Closing(Walker):
    def assigned(self, member, round_):
        if (member, round_) == (1, 1):
            os.chmod(f"{folder}/run/checkpoints", 0o555)

for attempt in (
    lambda: tune(Walker, space(), directory=f"{folder}/closed/run", progress=False),
    lambda: tune(Walker, space(), directory=f"{folder}/closed", progress=False),
    lambda: resume(f"{folder}/unwritable", trust=True, progress=False),
    lambda: tune(Walker, space(), directory=f"{folder}/unfilled", progress=False),
    lambda: History.load(f"{folder}/secret"),
    lambda: write_whole(Path(folder, "closed", "page.html"), b""),
    lambda: tune(Closing, space(), directory=f"{folder}/run", population=3, rounds=3, progress=False),
):
    try:
        attempt()
    except PopbanditsError as error:
        print(type(error).__name__, "|", error)
os.chmod(f"{folder}/run/checkpoints", 0o755)
result = resume(f"{folder}/run", agent=Walker, trust=True, progress=False)  # He has no key.
print(result.done, any(o.failed for o in result.history))
"""


def test_folders_that_are_closed_to_this_user_are_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("open")
    for parent in (folder, *folder.parents):
        with suppress(PermissionError):
            parent.chmod(parent.stat().st_mode | 0o755)
    folder.chmod(0o777)
    (folder / "closed").mkdir()
    (folder / "closed").chmod(0o555)
    tune(Walker, space(), directory=folder / "unwritable", progress=False, **SETTINGS)
    for path in (folder / "unwritable").iterdir():
        path.chmod(0o555 if path.is_dir() else 0o444)
    (folder / "unwritable").chmod(0o555)
    (folder / "secret").mkdir(0o700)
    (folder / "unfilled").mkdir()
    (folder / "unfilled" / "run.lock").touch()
    (folder / "unfilled" / "run.lock").chmod(0o666)
    (folder / "unfilled").chmod(0o555)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", AS_SOMEBODY_ELSE, folder]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ran.stderr == ""
    made, locked, opened, unfilled, secret, page, closed, result = ran.stdout.splitlines()
    assert made.startswith(f"DiskError | could not make {folder}/closed/run: Permission denied")
    assert locked.startswith(f"DiskError | could not lock {folder}/closed/run.lock: Permission denied")
    assert opened.startswith(f"DiskError | could not lock {folder}/unwritable/run.lock: Permission denied")
    assert unfilled.startswith(f"HistoryError | a run needs a folder that can be written to, got {folder}/unfilled: ")
    assert secret.startswith(f"HistoryError | {folder}/secret/run.sqlite cannot be read: Permission denied; ")
    assert page.startswith(f"DiskError | could not write {folder}/closed/page.html: Permission denied; ")
    assert closed.startswith("DiskError | ")
    assert "could not write to" in closed
    assert ": Permission denied; everything so far is in" in closed
    for told in (made, locked, opened, unfilled, secret, page, closed):  # The disk works, and has space.
        assert re.search("(; |: )allow this user to read and write there, (or|then) ", told)
    assert result == "True False"
