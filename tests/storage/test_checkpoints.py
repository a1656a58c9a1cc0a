"""Checkpoints: whole under their name, verified, and removed only when nobody needs them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from popbandits import PBT
from popbandits.errors import AgentError, CheckpointError
from popbandits.history import Observation
from popbandits.population import Population
from popbandits.run import tune
from popbandits.storage.checkpoints import MANIFEST, Checkpoints, fingerprint, seal, verify
from popbandits.views.view import View
from tests.engines.agents import Walker, space


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "saved"
    (folder / "deep").mkdir(parents=True)
    (folder / "weights").write_bytes(b"abc" * 100)
    (folder / "deep" / "optimizer").write_bytes(b"")
    seal(folder)
    verify(folder)
    return folder


@pytest.mark.parametrize("name", ["weights", "deep/optimizer", MANIFEST])
def test_a_missing_file_is_found(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(CheckpointError, match="cannot be read: No such file"):
        verify(saved)


def test_a_changed_byte_is_found(saved: Path) -> None:
    (saved / "weights").write_bytes(b"abd" + b"abc" * 99)
    with pytest.raises(CheckpointError, match="is damaged: weights is not what was saved"):
        verify(saved)


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"weights": 3}', '{"weights": {}}'])
def test_a_spoilt_manifest_is_found(saved: Path, text: str) -> None:
    (saved / MANIFEST).write_text(text)
    with pytest.raises(CheckpointError, match="its manifest cannot be read"):
        verify(saved)


def test_a_manifest_that_lists_nothing_is_no_excuse_for_files(saved: Path) -> None:
    (saved / MANIFEST).write_text("{}")
    with pytest.raises(CheckpointError, match="its manifest lists none of its files"):
        verify(saved)


def test_folders_without_files_are_no_damage(tmp_path: Path) -> None:
    (tmp_path / "logs" / "first").mkdir(parents=True)
    seal(tmp_path)
    verify(tmp_path)
    (tmp_path / "logs" / "first" / "planted").touch()
    with pytest.raises(CheckpointError, match="its manifest lists none of its files"):
        verify(tmp_path)


def test_a_link_to_a_folder_is_part_of_the_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    (folder / "step-1").mkdir(parents=True)
    (folder / "step-1" / "weights").write_bytes(b"abc")
    (folder / "latest").symlink_to("./step-1")
    seal(folder)
    verify(folder)
    assert fingerprint(folder) is not None  # else a resume would take it for someone else's
    (folder / "latest").unlink()
    (folder / "latest").symlink_to("step-1")  # as tarfile may write it on another node
    verify(folder)
    (tmp_path / "planted").mkdir()
    (folder / "latest").unlink()
    (folder / "latest").symlink_to("../planted")
    with pytest.raises(CheckpointError, match="is damaged: latest is not what was saved"):
        verify(folder)


def test_a_link_that_leads_out_is_not_part_of_the_checkpoint(tmp_path: Path) -> None:
    for name in ("saved", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "saved" / "data").symlink_to("../elsewhere")
    seal(tmp_path / "saved")
    assert fingerprint(tmp_path / "saved") is None


def test_links_in_a_circle_are_saved_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    seal(tmp_path)
    verify(tmp_path)


def test_a_link_by_the_name_of_the_draft_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").touch()
    (tmp_path / "last").symlink_to(tmp_path / "weights")
    with pytest.raises(AgentError, match=r"save must link by a relative path, got last to .*weights"):
        seal(tmp_path)


def test_an_agent_may_not_write_a_manifest_of_its_own(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(json.dumps({}))
    with pytest.raises(AgentError, match=f"save must not write {MANIFEST}"):
        seal(tmp_path)


def test_everything_that_was_saved_reaches_the_disk_and_the_manifest_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename may reach the disk before what it names: after a power cut the folder would hold empty files."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "weights").write_bytes(b"abc" * 100)
    (tmp_path / "deep" / "optimizer").write_bytes(b"de")
    flushed: dict[int, int] = {}
    waits = os.fsync

    def watched(file: Any) -> None:
        waits(file)
        state = os.fstat(file if isinstance(file, int) else file.fileno())
        flushed[state.st_ino] = state.st_size

    monkeypatch.setattr(os, "fsync", watched)
    seal(tmp_path)
    for name in ("weights", "deep/optimizer", MANIFEST):
        state = (tmp_path / name).stat()
        assert flushed.get(state.st_ino) == state.st_size > 0, f"all of {name} was waited for"


class Auditor(View):
    """Looks, whenever something happens, whether every checkpoint that may be needed is there and no other."""

    population: Population
    directory: Path
    most = 0

    def opened(self, population: Population, directory: Path) -> None:
        self.population, self.directory = population, directory / "checkpoints"

    def told(self, observation: Observation) -> None:
        history = self.population.history
        there = {path.name for path in self.directory.iterdir() if path.name.startswith("member")}
        needed = {o.key for m in range(self.population.size) if (o := history.last_completed(m))}
        needed |= {a.parent for a in self.population.pending if a.parent}
        needed |= {history.best.key}
        assert {"member-{}-round-{}".format(*key) for key in needed} <= there
        self.most = max(self.most, len(there))


@pytest.mark.parametrize("synchronous", [True, False])
def test_what_may_be_needed_is_always_there_and_the_rest_goes(synchronous: bool, tmp_path: Path) -> None:
    auditor = Auditor()
    result = tune(
        Walker,
        space(),
        PBT(),
        population=5,
        rounds=12,
        synchronous=synchronous,
        directory=tmp_path,
        progress=auditor,
    )
    last = {f"member-{m}-round-11" for m in range(5)}
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == last | {result.checkpoint.name}
    assert auditor.most <= 2 * 5 + 2
    agent = Walker(0)
    agent.load(result.checkpoint)


@pytest.mark.parametrize(("keep", "count"), [(2, 4 * 3), ("all", 4 * 6)])
def test_keep_says_how_many_more(keep: Any, count: int, tmp_path: Path) -> None:
    class Slower(Walker):
        def train(self, config: dict[str, Any]) -> float:  # So that the last round has the best score.
            super().train(config)
            self.rounds = getattr(self, "rounds", 0) + 1
            return self.rounds

        def save(self, directory: Path) -> None:
            super().save(directory)
            (directory / "rounds").write_text(str(self.rounds))

        def load(self, directory: Path) -> None:
            super().load(directory)
            self.rounds = int((directory / "rounds").read_text())

    tune(Slower, space(), rounds=6, directory=tmp_path, keep=keep, progress=False)
    assert len(list((tmp_path / "checkpoints").iterdir())) == count


def test_tidy_removes_drafts_and_what_was_never_recorded(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    rounds = [f"member-{member}-round-{round_}" for member in (0, 2) for round_ in (3, 11, 0, 7, 12, 10, 1, 9)]
    for name in (*rounds, "member-1-round-3", "draft-1-1", "removed-1-1"):
        (tmp_path / name).mkdir()
    checkpoints.hold((0, 12))
    checkpoints.tidy(lambda key: key[0] != 1)
    assert {path.name for path in tmp_path.iterdir()} == {"member-0-round-11", "member-0-round-12", "member-2-round-12"}
    checkpoints.release((0, 12))
    assert {path.name for path in tmp_path.iterdir()} == {"member-0-round-12", "member-2-round-12"}
