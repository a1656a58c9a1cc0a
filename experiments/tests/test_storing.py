"""What is kept of a run: all of its record, in one file, but for names of hosts and folders."""

import json
import platform
from pathlib import Path
from typing import Any

import pytest

from popbandits import PBT, History, tune
from popbandits.storage.store import reading
from popbandits_experiments.storing import keep


class Failing:
    """Fails in the first round of one member."""

    def __init__(self, seed: int) -> None:
        self.rounds = 0

    def assigned(self, member: int, round_: int) -> None:
        self.fails = (member, round_) == (1, 1)

    def train(self, config: dict[str, Any]) -> float:
        if self.fails:
            raise ValueError("too high")
        self.rounds += 1
        return self.rounds * config["step"]

    def save(self, directory: Path) -> None:
        (directory / "rounds").write_text(str(self.rounds))

    def load(self, directory: Path) -> None:
        self.rounds = int((directory / "rounds").read_text())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "a" / "run"
    space = {"step": (0.1, 1.0)}
    tune(Failing, space, PBT(), population=2, rounds=3, directory=directory, engine="in-process", progress=False)
    return directory


def test_what_is_kept_is_the_run_in_one_file(run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "0"
    keep(run, kept)
    assert [file.name for file in kept.iterdir()] == ["run.sqlite"]
    assert list(kept.parent.iterdir()) == [kept]
    assert (kept / "run.sqlite").read_bytes()[18:20] == b"\1\1"  # No write-ahead log.
    assert History.load(kept) == History.load(run)
    with reading(run) as before, reading(kept) as after:
        assert after.about | {"agent": 0} == before.about | {"agent": 0}
        assert [event.kind for event in after.events()] == [event.kind for event in before.events()]


def test_names_of_hosts_and_folders_are_not_kept(run: Path, tmp_path: Path) -> None:
    with reading(run) as store:
        told = [event.text + json.dumps(event.data) for event in store.events()]
        assert store.about["agent"]["root"].startswith("/")
    assert any(f"on {platform.node()}" in text for text in told)
    assert any('File "/' in text or 'File \\"/' in text for text in told)
    kept = tmp_path / "kept" / "0"
    keep(run, kept)
    with reading(kept) as store:
        assert store.about["agent"]["root"] == "experiments/src"
        told = [event.text + json.dumps(event.data) for event in store.events()]
    assert any("too high" in text for text in told)
    assert any("test_storing.py" in text for text in told)
    for place in (f"on {platform.node()}", str(Path(__file__).parent), str(tmp_path)):
        assert not any(place in text for text in told)


def test_a_copy_that_was_cut_is_made_again_and_one_that_exists_stays(run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "0"
    draft = kept.parent / ".0-draft"
    draft.mkdir(parents=True)
    (draft / "run.sqlite").write_bytes(b"cut")
    keep(run, kept)
    assert History.load(kept) == History.load(run)
    other = tmp_path / "b"
    tune(Failing, {"step": (0.1, 1.0)}, population=1, rounds=1, directory=other, engine="in-process", progress=False)
    with pytest.raises(OSError, match="0"):
        keep(other, kept)
    assert History.load(kept) == History.load(run)
