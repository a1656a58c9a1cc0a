"""A method and a selection can be named, in Python as on the command line, and a name means the same everywhere."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import popbandits
from popbandits import (
    PBT,
    ArgumentError,
    Experiment,
    Explorer,
    History,
    Observation,
    Population,
    Selection,
    Space,
    Truncation,
    resume,
    tune,
)
from popbandits.cli import main
from popbandits.history import Config
from popbandits.methods import (
    METHODS,
    SELECTIONS,
    Choice,
    Method,
    choose,
    implied,
    load_class,
    make_selection,
    recorded_names,
)
from popbandits.run.recipes import Role, Untrusted, address, prepare, recipe
from popbandits.storage.store import Store
from tests.engines.agents import Walker, space
from tests.selection import calm
from tests.selection.calm import Calm

SPACE = {"x": (0.0, 1.0), "h": ["a", "b"]}


@pytest.fixture(autouse=True)
def _steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method whose name brings a selection."""
    calm.register(monkeypatch)
    monkeypatch.setitem(METHODS, "steady", Method("Steady", METHODS["pbt"].explorer, selection="calm"))


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
    assert Population(SPACE, "steady", selection=Truncation(0.5)).selection == Truncation(0.5)
    assert Population(SPACE, "steady", selection="truncation").selection == Truncation()
    assert Population(SPACE, "steady", quantile=0.5).selection == Calm(0.5)
    assert Population(SPACE, "pb2-fuse/all", explore="replaced").explore == "replaced"


def test_a_run_with_names_is_the_run_with_the_objects_and_its_record_holds_the_objects(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rounds": 3, "progress": False}
    named = tune(Walker, space(), "steady", directory=tmp_path / "named", **settings)
    built = tune(Walker, space(), PBT(), directory=tmp_path / "built", selection=Calm(), **settings)
    assert named.history == built.history
    with Store.open(tmp_path / "named", readonly=True) as store:
        assert (store.about["method"]["name"], store.about["selection"]["name"]) == ("pbt", "calm")
    assert resume(tmp_path / "named", rounds=4, progress=False).done


REGISTERED: list[tuple[Role, str]] = [
    *(("method", name) for name in METHODS),
    *(("selection", name) for name in SELECTIONS),
]


@pytest.mark.parametrize(("role", "name"), REGISTERED)
def test_a_record_names_a_method_and_no_file(role: Role, name: str) -> None:
    kind = load_class(dict(recorded_names(role))[name])
    assert dict(recorded_names(role))[name] == address(kind)
    given = recipe(kind())
    assert given is not None
    assert given.keys() == {"name", "settings"}
    assert load_class(dict(recorded_names(role))[given["name"]]) is kind
    assert role == "selection" or not implied(given["name"])
    assert prepare(given, role) == prepare(given | {"name": name}, role) == kind()


@pytest.mark.parametrize(("role", "name"), REGISTERED)
def test_a_record_that_names_the_file_is_still_read_wherever_the_class_is_now(role: Role, name: str) -> None:
    kind = load_class(dict(recorded_names(role))[name])
    package = kind.__module__.rpartition(".")[0]
    for module in (kind.__module__, package, f"{package}.a_former_file", f"{package}.a.former.folder"):
        old = {"make": f"{module}:{kind.__name__}", "settings": {}, "root": "/srv/popbandits/src"}
        # Settings that an old record lacks have their values of then.
        assert prepare(old, role) == kind(**kind.earlier)
    for module in ("elsewhere", f"{package}s.pbt", f"a.{package}.pbt"):
        with pytest.raises(Untrusted):
            prepare({"make": f"{module}:{kind.__name__}", "settings": {}, "root": ""}, role)


def test_every_method_can_be_imported_and_those_that_copy_weights_are_schedulers_of_ray() -> None:
    ray = pytest.importorskip("popbandits.ray", exc_type=ImportError)
    for role, name in REGISTERED:
        kind = load_class(dict(recorded_names(role))[name])
        assert getattr(popbandits, kind.__name__) is kind
        if role == "method" and kind.exploits:
            assert getattr(ray, kind.__name__).explorer is kind


@dataclass(frozen=True)
class Still(Explorer):
    """Keeps the parent's configuration."""

    note: str = "as it was"
    within: Selection = field(default_factory=lambda: Truncation(0.5))

    def explore(
        self,
        space: Space,
        history: History,
        pending: Sequence[Config],
        parent: Observation | None,
        rng: np.random.Generator,
    ) -> Config:
        return space.decode(space.sample(1, rng))[0] if parent is None else parent.config


def test_a_method_needs_its_file_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By name in Python and on the command line, on record, read back by anyone, resumed, and shown by its label."""
    monkeypatch.setitem(METHODS, "still", Method("Still water", f"{__name__}:Still", selection="calm"))
    settings: dict[str, Any] = {"agent": Walker, "space": space(), "progress": False}
    whole = tune(**settings, method="still", rounds=4, directory=tmp_path / "whole").history
    run = tmp_path / "run"
    tune(**settings, method=Still("again"), selection="calm", rounds=2, directory=run)
    within = {"name": "truncation", "settings": {"quantile": 0.5}, "role": "selection"}
    with Store.open(run, readonly=True) as store:
        given = store.about["method"]
    assert given == {"name": "still", "settings": {"note": "again"}, "parts": {"within": within}}
    assert prepare(given, "method") == Still("again")  # Without trust, and nothing is signed.
    assert resume(run, rounds=4, progress=False).history == whole
    capsys.readouterr()
    assert main(["status", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["method"] == "Still water"
    assert main(["resume", str(run), "--method", "still", "--rounds", "5"]) == 0


def test_a_resumed_run_can_be_given_a_name_and_gets_what_it_brings(tmp_path: Path) -> None:
    tune(Walker, space(), "pbt", rounds=2, directory=tmp_path, progress=False)
    resume(tmp_path, rounds=3, method="steady", progress=False)
    with Store.open(tmp_path, readonly=True) as store:
        assert (store.about["method"]["name"], store.about["selection"]["name"]) == ("pbt", "calm")
    resume(tmp_path, rounds=4, method="pb2-fuse/all", progress=False)
    with Store.open(tmp_path, readonly=True) as store:
        assert store.about["explore"] == "all"
        assert (store.about["method"]["name"], store.about["selection"]["name"]) == ("pb2-fuse", "calm")


def test_options_change_an_experiment_that_names_its_method(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "named_run.py").write_text(
        "from popbandits import Experiment\n"
        "from tests.engines.agents import Walker, space\n"
        "experiment = Experiment(Walker, space(), 'steady')\n"
    )
    for options, method, selection in (
        ("--method pbt", "PBT", Truncation()),
        ("--method pb2-mix --selection calm", "PB2Mix", Calm()),
        ("--selection truncation", "PBT", Truncation()),
        ("--quantile 0.5", "PBT", Calm(0.5)),
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


@pytest.mark.parametrize(
    ("run", "changes", "resumed", "method", "selection", "explore"),
    [
        ({}, {}, False, None, Truncation(), "replaced"),
        ({"method": "pb2-fuse/all"}, {"method": "pbt"}, False, PBT(), Truncation(), "replaced"),
        ({"method": PBT(), "explore": "all"}, {"method": "pbt"}, False, PBT(), Truncation(), "replaced"),
        ({"method": PBT(), "explore": "all"}, {"method": "pbt"}, True, PBT(), Truncation(), "all"),
        ({"method": PBT(), "explore": "all"}, {"method": "pbt", "explore": None}, True, PBT(), Truncation(), "all"),
        ({"method": "pbt", "selection": Truncation(0.5)}, {"method": "steady"}, True, PBT(), Calm(), "replaced"),
        ({"method": "steady"}, {"method": "pbt"}, False, PBT(), Truncation(), "replaced"),
        ({"method": "pbt", "selection": Calm()}, {"method": "pbt"}, False, PBT(), Calm(), "replaced"),
        ({"method": "pbt", "quantile": 0.5}, {"selection": "calm"}, False, PBT(), Calm(0.5), "replaced"),
        ({"method": "pbt", "quantile": 0.5}, {"selection": "calm"}, True, PBT(), Calm(), "replaced"),
        ({"method": "pbt", "quantile": 0.5}, {"selection": Calm(0.1)}, True, PBT(), Calm(0.1), "replaced"),
        ({"method": "pbt", "selection": Calm()}, {"quantile": 0.5}, False, PBT(), Calm(0.5), "replaced"),
        ({"method": "steady"}, {"quantile": 0.5, "rounds": 9}, False, PBT(), Calm(0.5), "replaced"),
    ],
)
def test_one_table_says_which_value_counts(
    run: Any, changes: Any, resumed: bool, method: Any, selection: Any, explore: str
) -> None:
    assert choose(**run, changes=changes, resumed=resumed) == Choice(method, selection, explore)


def test_a_quantile_is_for_selections_that_have_one() -> None:
    class Loyal(Selection):
        pass

    with pytest.raises(ArgumentError, match=r"quantile is for selections that have one, got 0.5 for .*; leave it out"):
        choose(selection=Loyal(), changes={"quantile": 0.5})


def test_quantiles_that_disagree_are_refused_for_objects_only() -> None:
    assert choose(selection="calm", quantile=0.5).selection == Calm(0.5)
    with pytest.raises(ArgumentError, match=r"quantile must be that of selection, 0.25, got 0.5; leave it out"):
        choose(selection=Calm(), quantile=0.5)
