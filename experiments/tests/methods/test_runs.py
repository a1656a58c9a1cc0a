"""Methods of the experiments in runs: known by name, recorded, resumed, trusted, and refused if not installed."""

import sqlite3
from dataclasses import replace
from importlib.metadata import EntryPoints
from pathlib import Path
from typing import Any

import pytest

import popbandits
from popbandits import PBT, ArgumentError, Explorer, History, MissingExtraError, Population, RunError, resume, tune
from popbandits.basics import deprecation, extras
from popbandits.cli import main
from popbandits.methods import choose, find_method, make_selection
from popbandits.run.experiment import Experiment
from popbandits.run.recipes import address, prepare, recipe
from popbandits.selection import Selection
from popbandits.storage import Store
from popbandits.storage.schema import RUN_FILE
from popbandits_experiments import methods
from popbandits_experiments.contracts import SELECTION_CHECKS
from popbandits_experiments.methods import (
    BGPBT,
    METHODS,
    MFPBT,
    SELECTIONS,
    Diverse,
    Patient,
    PatientPBT,
    Restarts,
    Smoothed,
    TTest,
)
from tests.engines.agents import Walker, space
from tests.golden.runs import difference, recorded, run, written

GOLDEN = Path(__file__).parent / "golden"
STRATEGIES = [
    TTest(),
    TTest(level=0.5),
    Smoothed(),
    Smoothed(quantile=0.5, noise=1.0, window=4),
    MFPBT(),
    MFPBT(quantile=0.5, intervals=(2, 1)),
    Diverse(),
    Diverse(quantile=0.5, weight=1.0, length=0.1),
    Patient(),
    Patient(quantile=0.5, warm_up=0.0, collapse=0.0),
    Restarts(),
    Restarts(patience=1, growth=1, within=TTest(level=0.5)),
]


@pytest.mark.parametrize("check", SELECTION_CHECKS)
@pytest.mark.parametrize("selection", STRATEGIES, ids=repr)
def test_every_selection_keeps_every_rule(selection: Selection, check: str) -> None:
    SELECTION_CHECKS[check](selection)


@pytest.mark.parametrize("method", [BGPBT(), PatientPBT()], ids=repr)
def test_a_seeded_run_is_what_it_was(method: Explorer) -> None:
    kept = recorded(type(method).__name__, GOLDEN)
    assert difference(kept, [written(observation) for observation in run(method)]) is None


def test_names_are_found_by_the_entry_point() -> None:
    assert find_method("bg-pbt") is METHODS["bg-pbt"]
    assert choose("mf-pbt", quantile=0.5).selection == MFPBT(0.5)
    made = choose("ipbt")
    assert (made.method, made.selection) == (BGPBT(), Restarts())
    assert make_selection("t-test", level=0.01) == TTest(level=0.01)


@pytest.mark.parametrize("name", SELECTIONS)
def test_a_record_names_a_selection_and_former_files_are_still_read(name: str) -> None:
    made: Any = make_selection(name)
    assert SELECTIONS[name] == address(type(made))
    given = recipe(made)
    assert given is not None
    assert given["name"] == name
    former = {"make": f"popbandits.selection.a_former_file:{type(made).__name__}", "settings": {}, "root": ""}
    assert prepare(given, "selection") == made
    assert prepare(former, "selection") == replace(made, **made.earlier)


def test_a_record_of_bg_pbt_names_it_and_former_files_are_still_read() -> None:
    given = recipe(BGPBT(length=0.5))
    assert given is not None
    assert given["name"] == "bg-pbt"
    assert prepare(given, "method") == BGPBT(length=0.5)
    former = {"make": "popbandits.explorers.bg_pbt:BGPBT", "settings": {"length": 0.5}, "root": ""}
    assert prepare(former, "method") == BGPBT(length=0.5, **BGPBT.earlier)


def tuned(directory: Path, **settings: Any) -> History:
    return tune(Walker, space(), PBT(), 6, directory=directory, progress=False, mode="min", **settings).history


@pytest.mark.parametrize(
    "selection",
    [TTest(level=0.5), Smoothed(0.5, noise=5.0), Restarts(patience=1, growth=1, within=MFPBT())],
    ids=repr,
)
def test_a_run_resumes_with_its_selection(selection: Any, tmp_path: Path) -> None:
    whole = tuned(tmp_path / "whole", rounds=8, selection=selection)
    tuned(tmp_path / "part", rounds=4, selection=selection)
    with Store.open(tmp_path / "part", readonly=True) as store:
        assert Experiment.recorded(store).selection == selection
    assert resume(tmp_path / "part", rounds=8, progress=False).history == whole
    assert whole != tuned(tmp_path / "plain", rounds=8, quantile=selection.quantile)


def test_a_run_can_be_given_a_name_and_gets_what_it_brings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tuned(tmp_path, rounds=2)
    resume(tmp_path, rounds=3, method="ipbt", progress=False)
    with Store.open(tmp_path, readonly=True) as store:
        assert (store.about["method"]["name"], store.about["selection"]["name"]) == ("bg-pbt", "ipbt")
    capsys.readouterr()
    assert main(["status", str(tmp_path)]) == 0
    assert "BG-PBT" in capsys.readouterr().out


def test_a_selection_within_another_needs_the_same_trust(tmp_path: Path) -> None:
    tuned(tmp_path, rounds=2, selection=Restarts(within=TTest()))
    with sqlite3.connect(tmp_path / RUN_FILE) as connection:
        change = ('"name": "t-test"', '"make": "subprocess:Popen", "root": ""')
        changed = "UPDATE run SET value = replace(value, ?, ?) WHERE name = 'selection' AND instr(value, 't-test')"
        assert connection.execute(changed, change).rowcount == 1
    with pytest.raises(RunError, match=r"names subprocess:Popen .* as its selection: that is not part of popbandits"):
        resume(tmp_path, rounds=3, progress=False)


@pytest.mark.parametrize("name", deprecation.MOVED)
def test_former_public_names_warn_and_work(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"^popbandits.{name} is deprecated; use {methods.__name__}.{name}$"):
        assert getattr(popbandits, name) is getattr(methods, name)


def test_the_former_scheduler_warns_and_works() -> None:
    ray = pytest.importorskip("popbandits.ray", exc_type=ImportError)
    with pytest.warns(DeprecationWarning, match=r"^popbandits.ray.BGPBT is deprecated"):
        assert ray.BGPBT.explorer is BGPBT
    with pytest.raises(AttributeError, match="has no attribute 'Ipbt'"):
        ray.Ipbt  # noqa: B018


def test_without_the_experiments_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned(tmp_path, rounds=2, selection=MFPBT())
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: EntryPoints())
    monkeypatch.setitem(__import__("sys").modules, "popbandits_experiments.methods", None)
    extras.load_plugins.cache_clear()
    missing = "is part of the experiments, which are not installed; .*pip install -e . -e ./experiments"
    try:
        with pytest.raises(ArgumentError, match=f"^bg-pbt {missing}"):
            Population({"x": (0.0, 1.0)}, "bg-pbt")
        with pytest.raises(ArgumentError, match=f"^t-test {missing}"):
            Population({"x": (0.0, 1.0)}, selection="t-test")
        with pytest.raises(RunError, match=f"mf-pbt {missing}"):
            resume(tmp_path, rounds=3, progress=False)
        with pytest.raises(MissingExtraError, match=f"^popbandits.TTest {missing}"):
            popbandits.TTest  # noqa: B018
        former = {"make": "popbandits.explorers.bg_pbt:BGPBT", "settings": {}, "root": ""}
        with pytest.raises(RunError, match=f"^bg-pbt {missing}"):
            prepare(former, "method")
    finally:
        extras.load_plugins.cache_clear()
