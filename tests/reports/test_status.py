"""How runs stand, as their folders tell."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from popbandits import PBT, History, Population
from popbandits.cli import main
from popbandits.errors import HistoryError
from popbandits.history import Event
from popbandits.reports.status import Status, print_table, status
from popbandits.storage import Store
from popbandits.storage.lock import Lock, is_running

SPACE = {"lr": (0.0, 1.0)}


def kept(directory: Path, rounds: int = 3, told: int = 9, mode: Any = "max", **about: Any) -> History:
    """A run of three members with so many observations, of which each seventh failed."""
    population = Population(SPACE, PBT(), size=3, rounds=rounds, mode=mode)
    while len(population.history) < told:
        for assignment in population.ask():
            if (place := len(population.history)) < told:
                population.tell(assignment, None if place % 7 == 6 else 10 * assignment.round - assignment.member)
    with Store.create(directory, population.space, {"size": 3, "rounds": rounds, "mode": mode, **about}) as store:
        store.extend(population.history)
    return population.history


def log(directory: Path, *kinds: str) -> None:
    with Store.open(directory) as store:
        store.write(events=[Event(kind) for kind in kinds])


@pytest.mark.parametrize("mode", ["max", "min"])
def test_the_figures_are_those_of_the_history(mode: Any, tmp_path: Path) -> None:
    history = kept(tmp_path, told=8, mode=mode, created=1.0)
    now = status(tmp_path)
    assert history.best is not None
    assert (now.best, now.best_key) == (history.best.score, history.best.key)
    assert now.mean == pytest.approx(sum(history.last_completed(m).score for m in range(3)) / 3)  # type: ignore[union-attr]
    assert (now.size, now.rounds, now.round, now.intervals, now.failures) == (3, 3, 2, 8, 1)
    assert (now.directory, now.method, now.begun) == (str(tmp_path), None, 1.0)


def test_a_run_is_running_while_its_folder_is_held(tmp_path: Path) -> None:
    kept(tmp_path, told=4)
    log(tmp_path, "started")
    lock = Lock(tmp_path)
    assert is_running(tmp_path)
    assert status(tmp_path).state == "running"
    lock.close()
    assert not is_running(tmp_path)


@pytest.mark.parametrize(
    ("told", "kinds", "state"),
    [
        (4, ["started"], "killed"),
        (4, ["started", "raised"], "killed"),
        (4, ["started", "stopped"], "stopped"),
        (4, ["started", "stopped", "resumed"], "killed"),
        (4, [], "stopped"),
        (9, ["started"], "finished"),  # killed when all was done
        (9, ["started", "finished"], "finished"),
        (0, ["started"], "killed"),
    ],
)
def test_a_run_that_nobody_runs_is_finished_stopped_or_killed(
    told: int, kinds: list[str], state: str, tmp_path: Path
) -> None:
    kept(tmp_path, told=told)
    log(tmp_path, *kinds)
    assert status(tmp_path).state == state


def test_looking_does_not_keep_a_run_from_starting_or_change_its_file(tmp_path: Path) -> None:
    kept(tmp_path)
    Lock(tmp_path).close()
    file = tmp_path / "run.sqlite"
    os.utime(file, (1000, 1000))
    before = file.read_bytes()
    assert status(tmp_path).changed == status(tmp_path).changed == 1000
    assert file.read_bytes() == before
    Lock(tmp_path).close()


def test_a_run_without_any_score_has_none(tmp_path: Path) -> None:
    kept(tmp_path, told=0)
    now = status(tmp_path)
    assert (now.best, now.best_key, now.mean, now.round) == (None, None, None, 0)
    assert printed([now]).count("–") == 4  # method, best, mean, begun


def test_a_run_without_a_set_end_shows_its_rounds_so_far(tmp_path: Path) -> None:
    kept(tmp_path, rounds=3, told=6)
    with Store.open(tmp_path) as store:
        store.describe(rounds=None)
    now = status(tmp_path)
    assert (now.rounds, now.round, now.state) == (None, 2, "stopped")
    assert cells(printed([now]), "stopped")[3] == "2"


def printed(statuses: list[Status], **settings: Any) -> str:
    file = io.StringIO()
    print_table(statuses, Console(file=file, **settings))
    return file.getvalue()


def cells(text: str, state: str) -> list[str]:
    """The columns of the one run in this state."""
    [row] = (line for line in text.splitlines() if f" {state} " in line)
    return row.split()


def test_the_table_has_a_row_for_each_run(tmp_path: Path) -> None:
    kept(tmp_path / "a", told=9, method={"make": "popbandits.explorers.pbt:PBT", "settings": {}})
    kept(tmp_path / "b", told=4)
    text = printed([status(tmp_path / "a"), status(tmp_path / "b")])
    assert cells(text, "finished")[:7] == [str(tmp_path / "a"), "finished", "PBT", "3/3", "19", "15.67", "1"]
    assert cells(text, "stopped")[:4] == [str(tmp_path / "b"), "stopped", "–", "1/3"]
    assert len(text.splitlines()) == 3
    assert "\x1b" not in text


def test_on_a_narrow_terminal_no_figure_is_cut_off(tmp_path: Path) -> None:
    kept(tmp_path)
    text = printed([status(tmp_path)], force_terminal=True, width=80, no_color=True, color_system=None)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "15.67" in text


def test_json_holds_every_figure_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(tmp_path)
    assert main(["status", "--json", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == [{**vars(status(tmp_path)), "best_key": [1, 2]}]


def test_a_folder_without_a_run_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"holds no run: it has no run\.sqlite; give the folder of a run"):
        status(tmp_path)
