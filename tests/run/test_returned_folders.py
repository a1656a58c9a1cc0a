"""A run's folder that was shared and came back: what was changed in it is not taken for what this account wrote."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from popbandits import PBT, History, RunError, resume, tune
from popbandits.cli import main
from popbandits.run.replay import replay
from popbandits.space import Space
from popbandits.storage import Store
from popbandits.storage.checkpoints import MANIFEST, verify
from tests.engines.agents import Walker
from tests.engines.agents import space as walked

SPACE: dict[str, Any] = {"step": (0.0, 1.0)}


class Pickler:
    """An agent that pickles its checkpoint, as Stable-Baselines3 does, and reads a further file if there is one."""

    def __init__(self, seed: int):
        self.height = float(seed % 7)

    def train(self, config: dict[str, Any]) -> float:
        self.height += config["step"]
        return self.height

    def save(self, directory: Path) -> None:
        (directory / "model.zip").write_bytes(pickle.dumps(self.height))

    def load(self, directory: Path) -> None:
        self.height = pickle.loads((directory / "model.zip").read_bytes())
        if (more := directory / "replay.npz").exists():
            pickle.loads(more.read_bytes())


class Payload:
    """Leaves a mark when it is unpickled, and looks like a number."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (f"[open({str(self.marker)!r}, 'w').close(), 3.0][1]",)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of this account, that is copied and never changed."""
    directory = tmp_path_factory.mktemp("shared") / "run"
    settings: dict[str, Any] = {"population": 2, "rounds": 2, "keep": "all", "progress": False}
    tune(Pickler, SPACE, PBT(), directory=directory, **settings)
    return directory


@pytest.fixture
def run(shared: Path, tmp_path: Path) -> Path:
    """The same run, sent and come back."""
    return Path(shutil.copytree(shared, tmp_path / "returned"))


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that exists only if something of the sender ran."""
    return tmp_path / "it-ran"


def swap(folder: Path, name: str, content: bytes, listed: bool = True) -> None:
    """Write a file of a checkpoint anew, and a manifest that fits."""
    (folder / name).write_bytes(content)
    if listed:
        manifest = json.loads((folder / MANIFEST).read_text())
        manifest[name] = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
    verify(folder)


def last(run: Path) -> list[Path]:
    """Return the folders of the members' last checkpoints."""
    return sorted((run / "checkpoints").glob("member-*-round-1"))


CHANGES: dict[str, Callable[[Path, bytes], None]] = {
    "a model and its manifest": lambda folder, content: swap(folder, "model.zip", content),
    "a further file on the manifest": lambda folder, content: swap(folder, "replay.npz", content),
    "a further file": lambda folder, content: swap(folder, "replay.npz", content, listed=False),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("given", [{}, {"agent": Pickler}], ids=["by its record", "with an agent"])
def test_a_changed_checkpoint_is_not_loaded_unasked(
    change: str, given: dict[str, Any], run: Path, marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in last(run):
        CHANGES[change](folder, pickle.dumps(Payload(marker)))
    with pytest.raises(RunError, match=r"member-0-round-1 was not written by this account .*returned --trust"):
        resume(run, rounds=3, progress=False, **given)
    assert main(["resume", str(run), "--rounds", "3"]) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert not marker.exists()
    assert len(History.load(run)) == 4
    resume(run, rounds=3, progress=False, trust=True)
    assert marker.exists(), "the change would have run"


def test_an_unchanged_copy_needs_no_word(run: Path) -> None:
    assert len(resume(run, rounds=3, progress=False).history) == 6
    assert len(resume(run, rounds=4, agent=Pickler, progress=False).history) == 8


def test_a_damaged_checkpoint_is_lost_and_nobody_is_asked(run: Path) -> None:
    for folder in last(run)[:1]:
        (folder / "model.zip").write_bytes(b"")
        (folder / MANIFEST).write_text("{}")
    assert "lost" in {o.status for o in resume(run, rounds=3, progress=False).history}


def test_checkpoints_signed_for_another_member_round_or_run_do_not_pass(run: Path, shared: Path) -> None:
    first, second = last(run)
    shutil.rmtree(first)
    shutil.copytree(second, first)
    with pytest.raises(RunError, match="was not written by this account"):
        resume(run, rounds=3, progress=False)
    shutil.rmtree(first)
    shutil.copytree(shared / "checkpoints" / "member-0-round-0", first)
    with pytest.raises(RunError, match="was not written by this account"):
        resume(run, rounds=3, progress=False)
    shutil.rmtree(first)
    shutil.copytree(shared / "checkpoints" / first.name, first)
    with Store.open(run) as store:
        store.describe(id="of another run")
    with pytest.raises(RunError, match="was not written by this account"):
        resume(run, rounds=3, agent=Pickler, progress=False)
    with pytest.raises(RunError, match=r"names tests\.run\.test_returned_folders:Pickler"):
        resume(run, rounds=3, progress=False)


def test_the_signature_of_an_agent_holds_for_its_run_and_space_alone(run: Path, tmp_path: Path) -> None:
    with Store.open(run, readonly=True) as store:
        about = store.about
    wide = Space({"step": (0.0, 1e9)})
    for name, (kind, changes) in {
        "another run": (Space(SPACE), {"id": "0" * 32}),
        "no id": (Space(SPACE), {"id": None}),
        "an id that is none": (Space(SPACE), {"id": [1]}),
        "another space": (wide, {}),
    }.items():
        Store.create(tmp_path / name, kind, about | changes).close()
        with pytest.raises(RunError, match=r"names \S+:Pickler .* nor was it recorded by this account for this run"):
            resume(tmp_path / name, progress=False)
    Store.create(tmp_path / "same", Space(SPACE), about).close()
    assert resume(tmp_path / "same", progress=False).done


def test_what_resumes_with_trust_is_signed_from_then_on(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another account"))
    with pytest.raises(RunError, match="was not written by this account"):
        resume(run, rounds=3, agent=Pickler, progress=False)
    assert resume(run, rounds=3, trust=True, progress=False).done
    assert resume(run, rounds=4, progress=False).done


def test_a_checkpoint_that_its_kill_left_off_the_record_is_not_asked_about(run: Path) -> None:
    shutil.copytree(last(run)[0], run / "checkpoints" / "member-0-round-2")
    assert resume(run, rounds=3, progress=False).done


def test_a_pipe_in_a_checkpoint_keeps_nobody_waiting(run: Path) -> None:
    folder = last(run)[0]
    os.mkfifo(folder / "pipe")
    manifest = json.loads((folder / MANIFEST).read_text()) | {"pipe": {"bytes": 0, "sha256": sha256().hexdigest()}}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert "lost" in {o.status for o in resume(run, rounds=3, progress=False).history}


@pytest.mark.parametrize("wrong", ["ä" * 64, "\ud800", ""], ids=ascii)
def test_a_signature_that_is_none_asks_for_trust(wrong: Any, run: Path) -> None:
    with Store.open(run) as store:
        store.describe(agent=store.about["agent"] | {"signed": wrong})
    with pytest.raises(RunError, match=r"names \S+:Pickler .* --trust"):
        resume(run, rounds=3, progress=False)
    with pytest.raises(RunError, match=r"names \S+:Pickler .* --trust"):
        replay(run)
    with Store.open(run) as store:
        store.connection.execute("UPDATE checkpoint SET signed = ?", ["ä"])
    with pytest.raises(RunError, match=r"was not written by this account"):
        resume(run, rounds=3, agent=Pickler, progress=False)


def test_a_key_in_the_folder_that_somebody_works_in_is_not_used(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sender who knows that XDG_STATE_HOME is relative would put a key there, and sign with it."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    received = tmp_path / "received"
    (received / "state" / "popbandits").mkdir(parents=True)
    (received / "state" / "popbandits" / "key").write_bytes(bytes(32))
    monkeypatch.chdir(received)
    tune(Walker, walked(), PBT(), population=2, rounds=1, directory="mine", progress=False)
    (key,) = home.rglob("key")
    assert key == home / ".local" / "state" / "popbandits" / "key"
    assert key.read_bytes() != bytes(32)
    monkeypatch.setenv("HOME", ".")
    (received / ".local" / "state").mkdir(parents=True)
    shutil.copytree(received / "state" / "popbandits", received / ".local" / "state" / "popbandits")
    with pytest.raises(RunError, match="--trust"):
        resume("mine", rounds=2, progress=False)
