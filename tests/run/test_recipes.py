"""Recipes: what can be built again is, from where it was, and nothing is built that the caller did not allow."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from popbandits import PB2Mix
from popbandits.basics.extras import load_plugins
from popbandits.errors import ArgumentError, RunError
from popbandits.run.recipes import Untrusted, load, on_record, prepare, recipe
from popbandits.selection import Selection
from tests.engines.agents import Once, Walker
from tests.selection.calm import Calm

STARTS = """
from pathlib import Path
from popbandits import tune
from tests.engines.agents import Walker
tune(Walker, {"lr": (0.1, 1.0)}, population=2, rounds=1, directory=Path(__file__).parent / "run")
"""
"""A file that starts a run, also when it is imported."""


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """A folder with a package, as a user has one beside a training script."""
    before, path = set(sys.modules), list(sys.path)
    inner = tmp_path / "popbandits_made" / "inner"
    inner.mkdir(parents=True)
    for module in (inner.parent / "__init__.py", inner / "__init__.py", inner / "deep.py"):
        module.write_text("class Mine: ...\n")
    (tmp_path / "popbandits_made_flat.py").write_text("class Mine:\n    class Part: ...\n")
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name.startswith("popbandits_made"):
            del sys.modules[name]


@pytest.mark.parametrize(
    "module",
    ["popbandits_made_flat", "popbandits_made", "popbandits_made.inner", "popbandits_made.inner.deep"],
)
def test_a_recipe_names_the_folder_from_which_its_module_can_be_imported(module: str, package: Path) -> None:
    made = load(f"{module}:Mine", package)
    given = recipe(made)
    assert given is not None
    assert (given["import"], given["root"]) == (f"{module}:Mine", str(package))
    sys.path.remove(str(package))
    for name in [name for name in sys.modules if name.startswith("popbandits_made")]:
        del sys.modules[name]
    again = prepare(given, "agent", trust=True)
    assert (again.__module__, again.__qualname__) == (module, "Mine")


def test_a_module_is_looked_for_where_it_is_said_and_nowhere_else(package: Path) -> None:
    path = list(sys.path)
    with pytest.raises(ArgumentError, match="'popbandits_made_flat' cannot be imported: No module named"):
        load("popbandits_made_flat:Mine")
    assert sys.path == path
    for _ in range(2):
        load("popbandits_made_flat:Mine.Part", package)
        assert sys.path == [str(package), *path]
    with pytest.raises(ArgumentError, match=r"'popbandits_made_flat' has no 'Mine.Gone'"):
        load("popbandits_made_flat:Mine.Gone")


def test_a_file_is_imported_as_if_it_had_been_run(package: Path, tmp_path: Path) -> None:
    path, file = list(sys.path), package / "popbandits_made_flat.py"
    for _ in range(2):
        assert load(f"{file}:Mine").__name__ == "Mine"
        assert sys.path == [str(package), *path]
    other = tmp_path / "other" / file.name
    other.parent.mkdir()
    other.write_text("class Mine: ...\n")
    with pytest.raises(ArgumentError, match=r"the name popbandits_made_flat is taken by .*; rename the file"):
        load(f"{other}:Mine")
    with pytest.raises(ArgumentError, match=r"there is no file .*gone\.py"):
        load(f"{tmp_path / 'gone.py'}:Mine")
    for wrong in ("popbandits_made_flat", ":Mine", "popbandits_made_flat:"):
        with pytest.raises(ArgumentError, match=r"give it as module:name or file.py:name, got"):
            load(wrong)


def test_a_file_starts_no_run_when_its_agent_is_imported(package: Path, tmp_path: Path) -> None:
    file = package / "popbandits_made_to_run.py"
    file.write_text(STARTS)
    with pytest.raises(
        RunError, match=rf"must start no run, got a call of tune in {re.escape(str(file))}; put it below"
    ):
        load(f"{file}:Walker")
    assert not (tmp_path / "run").exists()


def test_a_file_starts_no_run_in_a_process_that_is_spawned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(STARTS)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "train.py"), raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None, raising=False)
    process = get_context("spawn").Process(target=print)
    process.start()
    process.join()
    assert process.exitcode == 1
    assert not (tmp_path / "run").exists()


def test_keywords_can_be_put_on_record_and_other_arguments_cannot() -> None:
    again = prepare(recipe(partial(Once, way="nan")), "agent", trust=True)
    assert (again.func, again.args, again.keywords) == (Once, (), {"way": "nan"})
    assert recipe(partial(Once, 3, way="nan")) is None
    assert recipe(partial(Once, way=Walker(0))) is None


@dataclass(frozen=True)
class Around(Selection):
    """Holds another selection."""

    within: Selection


def test_settings_that_an_older_record_lacks_have_their_former_values() -> None:
    method: Any = recipe(PB2Mix(window=30))
    assert prepare(method, "method") == PB2Mix(window=30)
    del method["settings"]["edition"]
    assert prepare(method, "method") == PB2Mix(window=30, edition=1)
    selection: Any = recipe(Around(Calm(quantile=0.5)))
    assert prepare(selection, "selection", trust=True) == Around(Calm(quantile=0.5))
    (part,) = selection["parts"].values()
    del part["settings"]["wait"]
    assert prepare(selection, "selection", trust=True) == Around(Calm(quantile=0.5, wait=0.0))


@dataclass(frozen=True)
class Dated:
    """Makes agents, and has a setting with the name of what older records of our methods lack."""

    earlier: bool = True

    def __call__(self, seed: int) -> Walker:
        return Walker(seed)


def test_only_methods_and_selections_say_what_older_records_lack() -> None:
    assert prepare(recipe(Dated(earlier=False)), "agent", trust=True) == Dated(earlier=False)


def test_a_record_is_not_trusted_unless_somebody_says_so(tmp_path: Path) -> None:
    foreign: Any = {"import": "tests.engines.agents:Walker", "settings": {}, "root": ""}
    with pytest.raises(Untrusted, match=r"tests.engines.agents:Walker"):
        prepare(foreign, "agent")
    with pytest.raises(RunError, match=r"names tests.engines.agents:Walker .*popbandits resume .* --trust"):
        on_record({"agent": foreign}, "agent", tmp_path, "resume")
    assert prepare(foreign, "agent", trust=True) is Walker
    assert on_record({"agent": foreign}, "agent", tmp_path, "resume", trust=True) is Walker


@pytest.fixture
def elsewhere(package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The module that another distribution names by an entry point, to be written."""
    monkeypatch.syspath_prepend(package)
    points = [EntryPoint("made", "popbandits_made.agents", "popbandits.agents")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    load_plugins.cache_clear()
    yield package / "popbandits_made" / "agents.py"
    load_plugins.cache_clear()


MINE = {"import": "popbandits_made.inner.deep:Mine", "settings": {}, "root": "/nowhere"}


def test_a_record_may_name_the_agents_of_an_installed_distribution(elsewhere: Path) -> None:
    elsewhere.write_text(
        f"AGENTS = {{('import', {MINE['import']!r})}}\nMOVED = {{'popbandits.paper.old.': 'popbandits_made.inner.'}}"
    )
    made = prepare(MINE, "agent")
    assert (made.__module__, made.__qualname__) == ("popbandits_made.inner.deep", "Mine")
    assert prepare(MINE | {"import": "popbandits.paper.old.deep:Mine"}, "agent") is made
    with pytest.raises(Untrusted):
        prepare(MINE | {"import": "popbandits_made.inner:Mine"}, "agent")
    with pytest.raises(Untrusted):
        prepare(MINE, "method")


def test_agents_of_a_distribution_that_cannot_be_loaded_are_a_warning_and_not_trusted(elsewhere: Path) -> None:
    elsewhere.write_text("1 / 0")
    with (
        pytest.warns(UserWarning, match=r"the agents of popbandits_made\.agents cannot be loaded: ZeroDivisionError"),
        pytest.raises(Untrusted),
    ):
        prepare(MINE, "agent")
    assert prepare(recipe(Walker), "agent", trust=True) is Walker
