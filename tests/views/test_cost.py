"""What a run costs: it stops in time, also after a resume, and says what was best within a cost."""

import json
from pathlib import Path
from typing import Any

import pytest

from popbandits import History, Observation, Outcome, Population, resume, tune
from popbandits.cli import main
from popbandits.commands.registry import STOPPED
from popbandits.storage import Store
from popbandits.views.stopping import StopAtCost

SPACE = {"x": (0.0, 1.0)}
QUIET: dict[str, Any] = {"population": 4, "rounds": 10, "progress": False}


class Paid:
    """Costs a tenth of a unit an interval."""

    def __init__(self, seed: int):
        self.height = 0.0

    def train(self, config: dict[str, float]) -> Outcome:
        self.height += config["x"]
        return Outcome(self.height, metrics={"cost": 0.1})

    def save(self, directory: Path) -> None:
        (directory / "height").write_text(json.dumps(self.height))

    def load(self, directory: Path) -> None:
        self.height = json.loads((directory / "height").read_text())


def why(directory: Path) -> str:
    """Return why a run stopped, as its record says."""
    with Store.open(directory, readonly=True) as store:
        return list(store.events())[-1].text


@pytest.mark.parametrize("engine", ["in-process", "threads"])
@pytest.mark.parametrize("synchronous", [True, False])
def test_nothing_begins_that_would_exceed_the_limit(synchronous: bool, engine: Any, tmp_path: Path) -> None:
    run: dict[str, Any] = {"synchronous": synchronous, "engine": engine, "directory": tmp_path / "run"}
    result = tune(Paid, SPACE, max_cost=1.5, **run, **QUIET)
    assert not result.done
    assert len(result.history) == 12 if synchronous else 12 <= len(result.history) <= 15
    assert sum(o.cost or 0 for o in result.history) <= 1.5 + 1e-9
    assert why(tmp_path / "run").startswith("the next intervals cost about 0.4, and 0.")


def test_a_resumed_run_counts_what_was_spent_before(tmp_path: Path) -> None:
    tune(Paid, SPACE, max_cost=0.8, directory=tmp_path / "run", **QUIET)
    assert why(tmp_path / "run") == "the run has cost 0.8, and max_cost is 0.8; it can be resumed"
    assert len(resume(tmp_path / "run", progress=False).history) == 8  # The limit is on record.
    assert len(resume(tmp_path / "run", max_cost=1.6, progress=False).history) == 16
    whole = tune(Paid, SPACE, directory=tmp_path / "whole", **QUIET)
    assert list(resume(tmp_path / "run", max_cost=100.0, progress=False).history) == list(whole.history)


def test_the_command_line_takes_the_limit(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = f"from popbandits import Experiment\nfrom {__name__} import Paid\nexperiment = Experiment(Paid, {SPACE!r})\n"
    (tmp_path / "paid_train.py").write_text(text)
    words = ["run", str(tmp_path / "paid_train.py"), "--rounds", "10", "--max-cost", "0.8", "-o", str(tmp_path / "run")]
    assert main(words) == STOPPED
    assert len(History.load(tmp_path / "run")) == 8
    assert main(["resume", str(tmp_path / "run"), "--max-cost", "1.2"]) == STOPPED
    assert len(History.load(tmp_path / "run")) == 12
    assert "max_cost is 1.2" in capfd.readouterr().out + why(tmp_path / "run")


def told(*costs: dict[str, Any]) -> Population:
    """Return a population of two, told these intervals."""
    population = Population(SPACE, "random", size=2, rounds=10)
    for given in costs:
        if not population.pending:
            population.ask()
        population.tell(population.pending[0], **given)
    return population


@pytest.mark.parametrize(
    ("intervals", "reason"),
    [
        ([{"score": 1.0, "seconds": 5.0}] * 2, None),
        ([{"score": 1.0, "seconds": 6.0}] * 4, "the run has cost 24, and max_cost is 20"),
        ([{"score": 1.0, "seconds": 6.0}] * 2, "the next intervals cost about 12, and 8 of max_cost is left"),
        ([{"score": 1.0, "seconds": 6.0}] * 3, None),  # Within a round nothing begins.
        ([{"score": 1.0, "seconds": 900.0, "metrics": {"cost": 5.0}}] * 2, None),
        ([{"score": 1.0, "metrics": {"cost": 9.0}}, {"score": None}] * 2, "the run has cost 36, and max_cost is 20"),
        ([{"score": 1.0, "metrics": {"cost": "much"}}] * 4, None),
        ([], None),
    ],
)
def test_seconds_count_where_agents_report_no_cost_and_failures_as_the_mean(intervals: Any, reason: str | None) -> None:
    limit = StopAtCost(20.0)
    limit.opened(told(*intervals), Path())
    assert limit.stop() == reason


def test_the_best_within_a_cost_is_that_of_the_run_so_far() -> None:
    scores = [0.5, 0.2, 0.4, 0.9]
    observations = [
        Observation(i % 2, i // 2, {"x": 0.5}, score=s, metrics={"cost": 0.1}) for i, s in enumerate(scores)
    ]
    history = History(SPACE, observations)
    found = [history.best_within(cost) for cost in (0.05, 0.1, 0.3, 0.4, 9.0)]
    assert [None if best is None else best.score for best in found] == [None, 0.5, 0.5, 0.9, 0.9]
    assert History(SPACE).best_within(1.0) is None
