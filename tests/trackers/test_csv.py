"""Observations in CSV files, read back with Python's own reader."""

import csv
from pathlib import Path
from typing import Any

import pytest

from popbandits import CSVTracker, History, HistoryError, Outcome, resume, tune
from tests.engines.agents import Walker, space
from tests.trackers.runs import SETTINGS, begin_or_resume, killed_twice


class Growing(Walker):
    """Reports another metric from its second interval on, and a text that a spreadsheet would compute."""

    def load(self, directory: Path) -> None:
        super().load(directory)
        self.loaded = True

    def train(self, config: dict[str, Any]) -> Outcome:
        outcome = super().train(config)
        assert isinstance(outcome, Outcome)
        more = {"=late": "=1+1\n2"} if hasattr(self, "loaded") else {}
        return Outcome(outcome.score, metrics={"loss": {"policy": 0.5}, **more})


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def agree(rows: list[dict[str, str]], history: History) -> None:
    assert [(int(row["member"]), int(row["round"])) for row in rows] == [o.key for o in history]
    for row, o in zip(rows, history, strict=True):
        assert row["score"] == ("" if o.failed else repr(o.score))
        assert row["status"] == o.status
        parent = (row["parent_member"], row["parent_round"])
        assert parent == (("", "") if o.parent is None else tuple(map(str, o.parent)))
        assert row["config.optimizer"] == o.config["optimizer"]
        assert row["config.momentum"] == ("" if "momentum" not in o.config else repr(o.config["momentum"]))


def test_every_observation_is_a_row(tmp_path: Path) -> None:
    history = begin_or_resume(tmp_path / "run", [CSVTracker()])
    rows = read(tmp_path / "run" / "observations.csv")
    assert len(rows) == 12
    agree(rows, history)
    assert [float(row["metrics.norm"]) for row in rows] == [o.metrics["norm"] for o in history]


def test_a_failed_interval_is_a_row_without_a_score(tmp_path: Path) -> None:
    class Failing(Walker):
        def train(self, config: dict[str, Any]) -> float | Outcome:
            if config["optimizer"] == "sgd":
                raise ValueError("the loss exploded")
            return super().train(config)

    history = tune(Failing, space(), directory=tmp_path / "run", callbacks=[CSVTracker()], **SETTINGS).history
    assert any(o.failed for o in history)
    agree(read(tmp_path / "run" / "observations.csv"), history)


@pytest.mark.parametrize("per_member", [False, True])
def test_a_run_that_is_killed_twice_has_every_row_once(per_member: bool, tmp_path: Path) -> None:
    path = tmp_path / "tables" / "run.csv"
    history = killed_twice(tmp_path / "run", lambda: CSVTracker(path, per_member=per_member))
    if not per_member:
        agree(read(path), history)
        return
    for member in range(3):
        rows = read(path.with_name(f"run-{member}.csv"))
        assert [(int(row["member"]), int(row["round"])) for row in rows] == [(member, round_) for round_ in range(4)]


def test_a_row_that_a_kill_left_incomplete_is_written_again(tmp_path: Path) -> None:
    begin_or_resume(tmp_path / "run", [CSVTracker()], rounds=2)
    path = tmp_path / "run" / "observations.csv"
    content = path.read_bytes()
    path.write_bytes(content[:-7])
    resume(tmp_path / "run", callbacks=[CSVTracker()], progress=False)
    assert path.read_bytes() == content


def test_a_tracker_that_comes_late_writes_what_it_missed(tmp_path: Path) -> None:
    begin_or_resume(tmp_path / "run", [], rounds=2)
    history = resume(tmp_path / "run", rounds=3, callbacks=[CSVTracker()], progress=False).history
    rows = read(tmp_path / "run" / "observations.csv")
    assert len(rows) == 9
    agree(rows, history)


def test_a_metric_that_appears_later_adds_a_column(tmp_path: Path) -> None:
    history = tune(Growing, space(), directory=tmp_path / "run", callbacks=[CSVTracker()], **SETTINGS).history
    rows = read(tmp_path / "run" / "observations.csv")
    agree(rows, history)
    assert {row["metrics.loss.policy"] for row in rows} == {"0.5"}
    late = [row["metrics.=late"] for row in rows]
    assert late == ["'=1+1\\n2" if o.metrics.get("=late") else "" for o in history]
    assert late.count("") == 3


def test_the_file_of_another_run_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    begin_or_resume(tmp_path / "one", [CSVTracker(path)], rounds=2)
    content = path.read_bytes()
    with pytest.raises(HistoryError, match=r"holds another run: member 0, round 0 has score .*; give another path"):
        begin_or_resume(tmp_path / "two", [CSVTracker(path)], rounds=2, seed=1)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", ["day,mood\n1,good\n", "day,mood\n1,go", "just a note"])
def test_a_file_that_is_no_run_s_is_left_alone(content: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text(content)
    with pytest.raises(HistoryError, match=r"notes.csv must hold a run's observations or be new, got columns \["):
        begin_or_resume(tmp_path / "run", [CSVTracker(path)])
    assert path.read_text() == content
