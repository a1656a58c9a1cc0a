"""A method and a selection can be named, in Python as on the command line, and a name means the same everywhere."""

import re
from pathlib import Path
from typing import Any

import pytest

from popbandits import MFPBT, PBT, ArgumentError, Experiment, Population, Restarts, Smoothed, Truncation, resume, tune
from popbandits.cli import main
from popbandits.methods import METHODS, SELECTIONS, choose, make_selection
from popbandits.storage.store import Store
from tests.engines.agents import Walker, space

SPACE = {"x": (0.0, 1.0), "h": ["a", "b"]}


@pytest.mark.parametrize("name", METHODS)
def test_a_name_is_its_explorer_its_selection_and_who_explores(name: str) -> None:
    named, method = Population(SPACE, name), METHODS[name]
    built = Population(SPACE, method.make(), explore=method.explore, selection=method.make_selection())
    assert (named.method, named.selection, named.explore) == (built.method, built.selection, built.explore)
    assert (
        Experiment(Walker, SPACE, name).record()
        == Experiment(Walker, SPACE, method.make(), explore=method.explore, selection=method.make_selection()).record()
    )


@pytest.mark.parametrize("name", SELECTIONS)
def test_a_selection_can_be_named_with_a_quantile_of_its_own(name: str) -> None:
    assert Population(SPACE, selection=name).selection == make_selection(name)
    assert Population(SPACE, selection=name, quantile=0.5).selection == make_selection(name, quantile=0.5)


def test_what_is_given_stands_above_what_a_name_brings() -> None:
    assert Population(SPACE, "mf-pbt", selection=Smoothed()).selection == Smoothed()
    assert Population(SPACE, "mf-pbt", selection="truncation").selection == Truncation()
    assert Population(SPACE, "mf-pbt", quantile=0.5).selection == MFPBT(0.5)
    assert Population(SPACE, "pb2-fuse/all", explore="replaced").explore == "replaced"


def test_a_run_with_names_is_the_run_with_the_objects_and_its_record_holds_the_objects(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rounds": 3, "progress": False}
    named = tune(Walker, space(), "mf-pbt", directory=tmp_path / "named", **settings)
    built = tune(Walker, space(), PBT(), directory=tmp_path / "built", selection=MFPBT(), **settings)
    assert named.history == built.history
    with Store.open(tmp_path / "named", readonly=True) as store:
        assert store.about["method"]["make"] == "popbandits.explorers.pbt:PBT"
        assert store.about["selection"]["make"] == "popbandits.selection.mf_pbt:MFPBT"
    assert resume(tmp_path / "named", rounds=4, progress=False).done


def test_a_resumed_run_can_be_given_a_name_and_gets_what_it_brings(tmp_path: Path) -> None:
    tune(Walker, space(), "pbt", rounds=2, directory=tmp_path, progress=False)
    resume(tmp_path, rounds=3, method="ipbt", progress=False)
    with Store.open(tmp_path, readonly=True) as store:
        assert store.about["method"]["make"].endswith(":BGPBT")
        assert store.about["selection"]["make"].endswith(":Restarts")
    resume(tmp_path, rounds=4, method="pb2-fuse/all", progress=False)
    with Store.open(tmp_path, readonly=True) as store:
        assert store.about["explore"] == "all"
        assert store.about["selection"]["make"].endswith(":Restarts")


def test_options_change_an_experiment_that_names_its_method(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "named_run.py").write_text(
        "from popbandits import Experiment\n"
        "from tests.engines.agents import Walker, space\n"
        "experiment = Experiment(Walker, space(), 'mf-pbt')\n"
    )
    for options, method, selection in (
        ("--method pbt", "PBT", Truncation()),
        ("--method ipbt", "BGPBT", Restarts()),
        ("--selection smoothed", "PBT", Smoothed()),
        ("--quantile 0.5", "PBT", MFPBT(0.5)),
    ):
        assert main(["run", f"{tmp_path}/named_run.py", "--dry-run", *options.split()]) == 0
        said = capsys.readouterr().out
        assert f"  {method}(" in said
        assert f"  {selection!r}\n" in said


def test_an_unknown_name_is_refused_with_those_there_are(tmp_path: Path) -> None:
    selections = ", ".join(SELECTIONS)
    method = f"method must be an explorer or one of {', '.join(METHODS)}, got 'PB2Mix'; did you mean 'pb2-mix'?"
    for wrong in (lambda: Population(SPACE, "PB2Mix"), lambda: tune(Walker, SPACE, "PB2Mix", directory=tmp_path / "a")):
        with pytest.raises(ArgumentError, match=f"^{re.escape(method)}$"):
            wrong()
    with pytest.raises(ArgumentError, match=rf"^selection must be a Selection or one of {selections}, got 'best'$"):
        Population(SPACE, selection="best")
    with pytest.raises(ArgumentError, match=r"^selection must be a Selection or one of .*, got 'best'$"):
        tune(Walker, SPACE, selection="best", directory=tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_quantiles_that_disagree_are_refused_for_objects_only() -> None:
    assert choose(selection="smoothed", quantile=0.5).selection == Smoothed(0.5)
    with pytest.raises(ArgumentError, match=r"quantile must be that of selection, 0.25, got 0.5; leave it out"):
        choose(selection=Smoothed(), quantile=0.5)
