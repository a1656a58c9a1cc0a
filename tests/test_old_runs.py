"""Runs written by an earlier version are read, resumed and reported: nothing that a user has kept becomes unreadable.

`tests/old_runs/make.py` says what each of them holds and how it was made. The tests use what users have, public names
and the command line, wherever the modules behind them are. The methods and selections of three of them ("batched",
"restarts", "own") are part of the experiments now, which have to be installed.
"""

import json
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from popbandits import History, HistoryError, Observation, RunError, resume
from popbandits.cli import main
from tests.golden.runs import difference
from tests.old_runs.agents import Descender, Walker, Walkers
from tests.old_runs.make import ACCOUNT, FOLDER, RUNS, SIGNED, plain
from tests.reports.served import served

AGENTS: dict[str, Any] = {
    "synchronous": Walker,
    "asynchronous": Descender,
    "batched": Walkers,
    "patient": Walker,
    "mix": Descender,
    "restarts": Walker,
    "own": Walker,
}


def copied(name: str, into: Path) -> Path:
    """Copy a stored run, so that it stays as it is."""
    return Path(shutil.copytree(FOLDER / name, into / name))


def expected(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read what was known of a run when it was made: its status, and the observations of the uninterrupted run."""
    content = json.loads((FOLDER / f"{name}.json").read_text())
    return content["status"], content["observations"]


def written(history: History, *without: str) -> list[dict[str, Any]]:
    """Turn a history into what the JSON files hold, but for some fields."""
    names = [f.name for f in fields(Observation) if f.name not in without]
    return [{name: plain(getattr(observation, name)) for name in names} for observation in history]


def assert_continued(rows: list[dict[str, Any]], history: History) -> None:
    """Compare a resumed run with the uninterrupted one.

    A model's fit is rounded differently by other processors: what it chose is compared to a tolerance.
    """
    ignored = ("seconds", "decision")
    kept = [{key: value for key, value in row.items() if key not in ignored} for row in rows]
    assert difference(kept, written(history, *ignored)) is None


def winning(rows: list[dict[str, Any]], best: list[int]) -> list[list[int]]:
    """Walk from the best interval to the first one of its lineage."""
    parents = {(row["member"], row["round"]): row["parent"] for row in rows}
    lineage, key = [], best
    while key is not None:
        lineage.append(key)
        key = parents[key[0], key[1]]
    return sorted(lineage)


def test_every_stored_run_is_tested() -> None:
    folders = {path.name for path in FOLDER.iterdir() if path.is_dir()}
    assert folders - {"__pycache__", ACCOUNT.name} == RUNS.keys()


@pytest.mark.parametrize("name", RUNS)
def test_an_old_run_is_read_and_shown(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, table = copied(name, tmp_path), tmp_path / "table.json"
    status, rows = expected(name)
    stored = rows[: status["intervals"]]
    assert written(History.load(run), "seconds") == [{k: v for k, v in row.items() if k != "seconds"} for row in stored]

    assert main(["status", str(run), "--json"]) == 0
    (now,) = json.loads(capsys.readouterr().out)
    assert {key: now[key] for key in status} == status

    assert main(["export", str(run), "--json", "-o", str(table)]) == 0
    exported = json.loads(table.read_text())
    assert [[row["member"], row["round"], row["status"], row.get("score"), row.get("steps")] for row in exported] == [
        [row[key] for key in ("member", "round", "status", "score", "steps")] for row in stored
    ]
    led = sorted([row["member"], row["round"]] for row in exported if row["winning"])
    assert led == winning(stored, status["best_key"])


@pytest.mark.parametrize("names", [["synchronous"], list(RUNS)], ids=["alone", "together"])
def test_old_runs_are_reported(names: list[str], tmp_path: Path) -> None:
    """One page for all but one of them: every page takes seconds to bundle its scripts."""
    page = tmp_path / "page.html"
    runs = [str(copied(name, tmp_path)) for name in names]
    assert main(["report", *runs, "-o", str(page)]) == 0
    text = page.read_text("utf-8")
    for name in names:
        status, _ = expected(name)
        assert f"{status['best']:.4g}" in text, name
        assert status["method"] in text, name


@pytest.mark.parametrize("name", AGENTS)
def test_an_old_run_resumes_as_if_it_had_never_been_stopped(name: str, tmp_path: Path) -> None:
    _, rows = expected(name)
    history = resume(copied(name, tmp_path), agent=AGENTS[name], trust=True, progress=False).history
    assert_continued(rows, history)


@pytest.mark.parametrize("name", [name for name in SIGNED if name in AGENTS])
def test_the_account_that_began_an_old_run_resumes_it_unasked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is given: agent, method and selection come from the record, by its signatures."""
    run, (_, rows) = copied(name, tmp_path), expected(name)
    with pytest.raises(RunError, match=re.escape(f"names tests.old_runs.agents:{AGENTS[name].__name__}")):
        resume(run, progress=False)  # As another account.
    monkeypatch.setenv("XDG_STATE_HOME", str(shutil.copytree(ACCOUNT, tmp_path / "account")))
    monkeypatch.setattr(sys, "path", list(sys.path))  # A record names the folder that its agent was imported from.
    history = resume(run, progress=False).history
    assert_continued(rows, history)


def test_an_old_demo_resumes_by_its_record_alone(tmp_path: Path) -> None:
    run, (status, rows) = copied("demo", tmp_path), expected("demo")
    before = History.load(run)
    assert main(["resume", str(run)]) == 0
    after = History.load(run)
    assert list(after)[: status["intervals"]] == list(before)
    assert len(before) < len(after) == len(rows)
    assert not any(o.failed for o in after)
    # Not the score: PyTorch rounds differently on other processors, and another landing follows from that.
    decided = ("member", "round", "parent", "config", "score_before")
    kept, made = ([[row[key] for key in decided] for row in each] for each in (rows, written(after)))
    assert difference(kept, made) is None


def test_the_live_page_lists_old_runs_and_their_members(tmp_path: Path) -> None:
    for name in RUNS:
        copied(name, tmp_path)
    with served(tmp_path) as ask:
        rows = {row[0]: row for row in ask.get("/api/runs").json()["rows"]}
        assert rows.keys() == RUNS.keys()
        for name in RUNS:
            status, _ = expected(name)
            assert status["state"] in rows[name]
            assert ask.get("/api/member", {"run": name, "member": "0"}).status == 200


def test_a_changed_column_would_be_noticed(tmp_path: Path) -> None:
    run = copied("synchronous", tmp_path)
    with closing(sqlite3.connect(run / "run.sqlite")) as connection:
        connection.execute("ALTER TABLE observation RENAME COLUMN score_before TO previous")
    with pytest.raises(
        HistoryError, match=re.escape("of its table 'observation', the columns score_before is missing")
    ):
        History.load(run)


def test_an_old_run_is_not_resumed_unasked_and_after_one_permission_it_is(tmp_path: Path) -> None:
    run = copied("synchronous", tmp_path)
    with pytest.raises(RunError, match=re.escape("names tests.old_runs.agents:Walker")):
        resume(run, progress=False)
    with pytest.raises(RunError, match=r"checkpoints/member-\S+ was not written by this account"):
        resume(run, agent=Walker, progress=False)
    assert resume(run, rounds=6, trust=True, progress=False).done
    assert resume(run, rounds=7, progress=False).done
