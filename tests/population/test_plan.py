"""One plan of a run: made once, whatever door a user comes through, and carried where nothing of it changes."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from popbandits import PBT, Experiment, NearPBT, Population, cosine, log, resume, tune
from popbandits.cli import main
from popbandits.population import Plan
from popbandits.population.population import Population as Built
from popbandits.run import run
from popbandits.space import Space, encoding
from tests.engines.agents import Walker, space
from tests.selection import calm
from tests.selection.calm import Calm

SPACE = {"x": (0.0, 1.0)}


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    calm.register(monkeypatch)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the populations and spaces that are built from here on."""
    seen: Counter[str] = Counter()

    def count(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            seen[name] += 1
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(Built, "_open", count("populations", Built._open))
    monkeypatch.setattr(encoding, "build", count("spaces", encoding.build))
    return seen


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user's file with an agent, a space that a record can name, and an experiment."""
    (tmp_path / "counted_run.py").write_text(
        "from popbandits import Experiment\n"
        "from tests.engines.agents import Walker, space as written\n"
        "class Mine(Walker): pass\n"
        "space = written()\n"
        "experiment = Experiment(Mine, space, 'near-pbt', rounds=2, start='defaults', directory='run')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "counted_run", raising=False)
    return "counted_run.py"


def test_a_run_and_a_resume_build_one_population_and_one_space(tmp_path: Path, counted: Counter[str]) -> None:
    settings: Any = {"method": "near-pbt", "rounds": 2, "start": "defaults", "progress": False}
    tune(Walker, space(), directory=tmp_path / "tune", **settings)
    assert counted == {"populations": 1, "spaces": 1}
    counted.clear()
    run(Experiment(Walker, space(), directory=tmp_path / "run", **settings))
    assert counted == {"populations": 1, "spaces": 1}
    counted.clear()
    resume(tmp_path / "tune", rounds=3, method="pb2-fuse/all", selection="calm", progress=False)
    assert counted == {"populations": 1, "spaces": 1}


def test_so_do_the_commands(counted: Counter[str], file: str) -> None:
    assert main(["run", file, "--dry-run", "--method", "pbt", "--quantile", "0.5"]) == 0
    assert counted == {"spaces": 1}
    counted.clear()
    assert main(["run", file, "--selection", "calm", "--seed", "1"]) == 0
    assert counted == {"populations": 1, "spaces": 1}
    counted.clear()
    assert main(["resume", "run", "--rounds", "3", "--keep", "1"]) == 0
    assert counted == {"populations": 1, "spaces": 2}  # The recorded one, and the file's, to tell what was edited.


def test_a_past_run_is_read_once(tmp_path: Path, counted: Counter[str]) -> None:
    tune(Walker, space(), rounds=2, directory=tmp_path / "past", progress=False)
    counted.clear()
    tune(Walker, space(), rounds=2, start=tmp_path / "past", directory=tmp_path / "next", progress=False)
    assert counted == {"populations": 1, "spaces": 2}


def test_an_experiment_makes_its_plan_once_and_keeps_it_with_other_settings() -> None:
    experiment = Experiment(Walker, space(), "near-pbt", population=3)
    plan = experiment.plan
    assert experiment.plan is plan
    assert experiment.changed(directory="elsewhere", progress=False, workers=None).plan is plan
    assert experiment.changed(population=5).plan.size == 5
    assert experiment.make_population().plan is plan
    assert experiment == Experiment(Walker, experiment.space, "near-pbt", population=3)


def test_a_population_of_a_plan_is_the_one_of_its_arguments() -> None:
    given: dict[str, Any] = {"method": "pb2-fuse/all", "size": 3, "selection": "calm", "start": {"x": 0.5}}
    one = Population(SPACE, **given)
    two = Population.of(one.plan)
    assert one.ask() == two.ask()
    assert isinstance(one.plan, Plan)
    assert (one.explore, one.selection, one.quantile, one.plan.rounds) == ("all", Calm(), 0.25, 50)


def test_a_space_of_a_space_is_not_built_again(counted: Counter[str]) -> None:
    made = Space(SPACE)
    assert Population(Space(made)).space.names == made.names
    assert counted["spaces"] == 1


@pytest.mark.parametrize(
    ("settings", "method", "control"),
    [
        ({}, PBT(), False),
        ({"start": "random"}, PBT(), False),
        ({"start": "defaults"}, NearPBT(), True),
        ({"start": {"lr": 1e-3}}, NearPBT(), True),
        ({"start": {"lr": cosine(1e-3, 1e-4)}}, NearPBT(), True),
        ({"start": "defaults", "control": False}, NearPBT(), False),
        ({"start": "defaults", "size": 3}, NearPBT(), False),
        ({"start": "defaults", "size": 3, "control": True}, NearPBT(), True),
        ({"start": "defaults", "method": "near-pbt", "size": 8}, NearPBT(), True),
        ({"start": "defaults", "method": "pbt"}, PBT(), False),
        ({"start": "defaults", "method": PBT(), "control": True}, PBT(), True),
    ],
)
def test_a_start_brings_the_method_that_stays_near_it_and_a_control(settings: Any, method: Any, control: bool) -> None:
    plan = Population({"lr": log(1e-5, 1e-1)}, **settings).plan
    assert (plan.method, plan.control) == (method, control)


class Falsy(PBT):
    """A method that is empty in some sense."""

    def __bool__(self) -> bool:
        return False


def test_a_method_that_is_given_is_used_whatever_its_truth() -> None:
    method = Falsy()
    assert Population(SPACE, method, start={"x": 0.5}).plan.method is method


class Plain:
    """A method of a user's own that keeps a start."""

    keeps_start = True

    def explore(self, *given: Any) -> dict[str, Any]:
        raise AssertionError("nobody explores in the first round")


def test_a_method_of_the_users_own_may_keep_a_start_too() -> None:
    assert Population(SPACE, Plain(), start={"x": 0.5}).plan.control
    assert not Population(SPACE, Plain()).plan.control
