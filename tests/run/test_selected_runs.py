"""A run's selection is recorded and resumed, and scores keep their standard errors."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from popbandits import PBT, History, Truncation, resume, tune
from popbandits.agent import Outcome
from popbandits.cli import main
from popbandits.errors import ArgumentError, RunError
from popbandits.run.experiment import Experiment
from popbandits.storage import Store
from popbandits.storage.schema import RUN_FILE
from tests.engines.agents import Walker, space
from tests.selection import calm
from tests.selection.calm import Calm


class Measured(Walker):
    """Knows the standard error of its scores but in the first interval, of one episode."""

    def train(self, config: dict[str, Any]) -> Outcome:
        outcome = super().train(config)
        assert isinstance(outcome, Outcome)
        norm = float(outcome.metrics["norm"])
        return Outcome(outcome.score, outcome.steps, standard_error=norm if norm < 1 else float("nan"))


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    calm.register(monkeypatch)


def tuned(directory: Path, agent: Any = Walker, population: int = 3, **settings: Any) -> History:
    return tune(agent, space(), PBT(), population, directory=directory, progress=False, **settings).history


def test_a_run_resumes_with_its_selection(tmp_path: Path) -> None:
    selection = Calm(0.5, wait=2.0)  # Not a share of the rounds, which change here.
    settings: dict[str, Any] = {"population": 6, "mode": "min"}
    whole = tuned(tmp_path / "whole", rounds=8, selection=selection, **settings)
    tuned(tmp_path / "part", rounds=4, selection=selection, **settings)
    with Store.open(tmp_path / "part", readonly=True) as store:
        assert Experiment.recorded(store).selection == selection
        assert store.about["quantile"] == selection.quantile
    assert resume(tmp_path / "part", rounds=8, progress=False).history == whole
    assert whole != tuned(tmp_path / "plain", rounds=8, quantile=selection.quantile, **settings)


def test_a_run_from_before_selections_resumes_with_its_quantile(tmp_path: Path) -> None:
    whole = tuned(tmp_path / "whole", rounds=5, quantile=0.5)
    tuned(tmp_path / "old", rounds=3, quantile=0.5)
    with sqlite3.connect(tmp_path / "old" / RUN_FILE) as connection:
        connection.execute("DELETE FROM run WHERE name = 'selection'")
    with Store.open(tmp_path / "old", readonly=True) as store:
        assert Experiment.recorded(store).make_population().selection == Truncation(0.5)
    assert resume(tmp_path / "old", rounds=5, progress=False).history == whole


def test_a_selection_that_cannot_be_imported_is_asked_for(tmp_path: Path) -> None:
    class Own(Truncation):
        pass

    tuned(tmp_path, rounds=2, selection=Own(0.5))
    with pytest.raises(RunError, match=r"a run needs its selection, and .* does not say where"):
        resume(tmp_path, rounds=3, progress=False)
    assert len(resume(tmp_path, rounds=3, selection=Own(0.5), progress=False).history) == 9


def test_an_agents_standard_errors_are_kept(tmp_path: Path) -> None:
    history = tuned(tmp_path, Measured, rounds=6)
    known = [o.standard_error for o in History.load(tmp_path)]
    assert known == [o.standard_error for o in history]
    assert any(known)
    assert all(error is None or error < 1 for error in known)
    assert [o.metrics.get("standard_error") for o in history] == known


def test_a_selection_can_be_chosen_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "chosen_run.py").write_text(
        "from popbandits import Experiment\n"
        "from tests.selection.calm import Calm\n"
        "from tests.engines.agents import Walker, space\n"
        "experiment = Experiment(Walker, space(), quantile=0.5)\n"
        "slow = Experiment(Walker, space(), selection=Calm(wait=5))\n"
    )
    for options, selection in (
        ("--selection truncation", Truncation(0.5)),
        ("--selection calm --quantile 0.3", Calm(0.3)),
        (":slow --quantile 0.3", Calm(0.3, wait=5)),
        (":slow --selection truncation", Truncation(0.25)),
        ("--quantile 0.1", Truncation(0.1)),
        ("--method pbt --quantile 0.1", Truncation(0.1)),
        ("--method pbt --selection calm", Calm(0.5)),
    ):
        name, *given = f"{tmp_path}/chosen_run.py{'' if options[0] == ':' else ' '}{options}".split()
        assert main(["run", name, "--dry-run", *given]) == 0
        assert repr(selection) in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["run", f"{tmp_path}/chosen_run.py", "--selection", "best"])
    assert "selection must be a Selection or one of truncation, calm, got" in capsys.readouterr().err


def test_a_quantile_that_is_not_the_selections_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"quantile must be that of selection, 0.25, got 0.5; leave it out"):
        tuned(tmp_path / "run", quantile=0.5, selection=Calm())
    assert not (tmp_path / "run").exists()
