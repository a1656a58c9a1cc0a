"""The contract of engines: the same run on each of them, and the same answer to each fault."""

import copy
import inspect
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from popbandits import PBT, History, Population, resume
from popbandits.basics.settings import ENGINES as ALL_ENGINES
from popbandits.errors import AgentError, ArgumentError, DiskError, HistoryError, RunError
from popbandits.history import Event, Observation
from popbandits.run import Experiment, Result, run, tune
from popbandits.run.loop import agent_seed
from popbandits.space import Space
from popbandits.storage.store import Store
from popbandits.views.view import View
from tests.engines.agents import Deaf, Faulty, Once, Releasing, Stubborn, Walker, space
from tests.engines.batches import together

ENGINES = tuple(name for name in ALL_ENGINES if name not in ("ray", "slurm"))  # tests/ray and tests/slurm hold those
ONE_BY_ONE = tuple(name for name in ENGINES if name != "batched")
WORKERS = tuple(name for name in ONE_BY_ONE if name != "in-process")


def events(directory: Path, *kinds: str) -> list[Event]:
    with Store.open(directory, readonly=True) as store:
        return [event for event in store.events() if event.kind in kinds]


def tuned(agent: Any, directory: str | Path, **settings: Any) -> Result:
    settings = {"method": PBT(), "rounds": 4, "progress": False} | settings
    agent = together(agent) if settings.get("engine") == "batched" else agent
    return tune(agent, space(), directory=directory, **settings)


@pytest.fixture(scope="module")
def by_hand() -> History:
    """What ask and tell give with agents of the same seeds, without any engine."""
    population, weights = Population(space(), PBT(), rounds=4), {}
    while not population.done:
        for assignment in population.ask():
            agent = Walker(agent_seed(0, assignment.key))
            if assignment.parent is not None:
                vars(agent).update(copy.deepcopy(weights[assignment.parent]))
            outcome = agent.train(dict(assignment.config))
            weights[assignment.key] = copy.deepcopy(vars(agent))
            population.tell(assignment, outcome.score, steps=outcome.steps, metrics=outcome.metrics)
    return population.history


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_makes_the_history_that_ask_and_tell_make(engine: Any, by_hand: History, tmp_path: Path) -> None:
    result = tuned(Walker, tmp_path, engine=engine)
    assert result.done
    assert result.history == by_hand


@pytest.mark.parametrize("engine", ONE_BY_ONE)
def test_agents_are_closed_when_the_run_ends(engine: Any, tmp_path: Path) -> None:
    (closed := tmp_path / "closed").mkdir()
    tuned(partial(Releasing, folder=closed), tmp_path / "run", engine=engine, rounds=2)
    assert len(list(closed.iterdir())) == 4


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_number_of_workers_does_not_change_the_history(workers: int, by_hand: History, tmp_path: Path) -> None:
    assert tuned(Walker, tmp_path, engine="threads", workers=workers).history == by_hand


@pytest.mark.parametrize(
    ("engine", "way", "reason"),
    [
        *((engine, "raise", "ValueError: the loss exploded") for engine in ONE_BY_ONE),
        *((engine, "exit", "SystemExit: 3") for engine in ONE_BY_ONE),
        *((engine, "nan", "finite, got nan") for engine in ENGINES),
    ],
)
def test_a_failure_is_recorded_and_its_member_replaced(engine: Any, way: str, reason: str, tmp_path: Path) -> None:
    result = tuned(partial(Once, way=way), tmp_path, engine=engine, rounds=3)
    failed = [o for o in result.history if o.failed]
    assert failed
    assert result.done
    recorded = events(tmp_path, "raised", "score")
    assert [(event.member, event.round) for event in recorded] == [o.key for o in failed]
    assert all(reason in event.text for event in recorded)
    if way == "raise":
        assert all("in misbehave" in event.data["traceback"] for event in recorded)
    for failure in failed:
        after = result.history.find((failure.member, failure.round + 1))
        assert after is not None
        assert not result.history.find(after.parent).failed


@pytest.mark.parametrize("engine", WORKERS)
def test_an_agent_that_hangs_is_given_up(engine: Any, tmp_path: Path) -> None:
    result = tuned(partial(Once, way="hang"), tmp_path, engine=engine, rounds=3, round_timeout=1.0)
    assert result.done
    failed = [o for o in result.history if o.failed]
    assert failed
    assert all(o.seconds >= 1.0 for o in failed)
    assert {event.text for event in events(tmp_path, "timeout")} == {"did not end within 1 seconds"}


def test_an_agent_whose_process_is_killed_is_replaced(tmp_path: Path) -> None:
    result = tuned(partial(Once, way="die"), tmp_path, engine="processes", rounds=3)
    assert result.done
    assert any(o.failed for o in result.history)
    assert {event.text for event in events(tmp_path, "died")} == {"its process was ended by signal 9"}


def test_a_run_survives_every_fault_at_once(tmp_path: Path) -> None:
    result = tuned(Faulty, tmp_path, engine="processes", rounds=12, round_timeout=1.0)
    assert result.done
    assert sorted(o.key for o in result.history) == [(m, r) for m in range(4) for r in range(12)]
    failed = {o.key for o in result.history if o.failed}
    recorded = events(tmp_path, "raised", "score", "timeout", "died")
    assert {(event.member, event.round) for event in recorded} == failed
    assert len(recorded) == len(failed)
    assert {event.kind for event in recorded} == {"raised", "score", "timeout", "died"}


class Vandal(View):
    """Spoils the checkpoint of an interval as soon as it is recorded."""

    def __init__(self, directory: Path, victims: list[tuple[int, int]], how: str):
        self.directory, self.victims, self.how = directory, victims, how

    def told(self, observation: Observation) -> None:
        if observation.key in self.victims and not observation.failed:
            file = self.directory / "checkpoints" / "member-{}-round-{}".format(*observation.key) / "arrays.npz"
            match self.how:
                case "missing":
                    file.unlink()
                case "shorter":
                    os.truncate(file, 100)
                case "flipped":
                    content = bytearray(file.read_bytes())
                    content[50] ^= 1
                    file.write_bytes(content)


@pytest.mark.parametrize("engine", ONE_BY_ONE)
@pytest.mark.parametrize("how", ["missing", "shorter", "flipped"])
def test_a_spoilt_checkpoint_is_found_before_training_on_it(engine: Any, how: str, tmp_path: Path) -> None:
    vandal = Vandal(tmp_path, [(1, 1), (2, 1)], how)
    result = tuned(Walker, tmp_path, engine=engine, rounds=5, progress=vandal)
    assert result.done
    lost = [o for o in result.history if o.status == "lost"]
    assert {o.parent for o in lost} <= {(1, 1), (2, 1)}
    assert lost
    assert len(events(tmp_path, "lost")) == len(lost)
    assert "arrays.npz" in events(tmp_path, "lost")[0].text
    for o in lost:
        after = result.history.find((o.member, o.round + 1))
        assert not after.failed
        assert after.parent not in {(1, 1), (2, 1)}


def test_when_every_checkpoint_is_lost_members_start_afresh(tmp_path: Path) -> None:
    vandal = Vandal(tmp_path, [(m, r) for m in range(4) for r in range(3)], "missing")
    result = tuned(Walker, tmp_path, rounds=6, progress=vandal)
    assert result.done
    assert any(o.parent is None and o.round > 0 and not o.failed for o in result.history)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_stops_when_an_agent_trains_with_other_hyperparameters(engine: Any, tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"must train with the hyperparameters it is given.*expected"):
        tuned(Stubborn if engine == "batched" else Deaf, tmp_path, engine=engine, explore="all")
    assert len(History.load(tmp_path)) >= 4
    assert len(events(tmp_path, "misapplied")) == 1


@pytest.mark.parametrize("engine", ["in-process", "batched"])
def test_a_run_in_which_nothing_completes_ends_at_once(engine: Any, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"(?s)no interval has completed yet.*KeyError: 'wrong'.*Traceback"):
        tuned(Broken, tmp_path, engine=engine)
    assert len(History.load(tmp_path)) == 4


class Broken(Walker):
    def train(self, config: dict[str, Any]) -> float:
        return float(config["wrong"])


@pytest.mark.parametrize("engine", ["in-process", "batched"])
def test_max_failures_ends_a_run_with_everything_saved(engine: Any, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="2 intervals failed and max_failures is 1"):
        tuned(partial(Once, way="nan"), tmp_path, rounds=40, max_failures=1, population=8, engine=engine)
    assert sum(o.failed for o in History.load(tmp_path)) == 2


class Full(Walker):
    def save(self, directory: Path) -> None:
        with open("/dev/full", "w") as file:
            file.write("x" * 100_000)


@pytest.mark.parametrize("engine", ["in-process", "batched"])
def test_a_full_disk_stops_the_run_with_a_clear_error(engine: Any, tmp_path: Path) -> None:
    with pytest.raises(DiskError, match=r"could not use .*: No space left on device; everything so far is in"):
        tuned(Full, tmp_path, engine=engine)
    assert not list((tmp_path / "checkpoints").iterdir())


def test_a_folder_that_another_run_holds_is_refused(tmp_path: Path) -> None:
    reached, go_on = threading.Event(), threading.Event()

    class Slow(Walker):
        def train(self, config: dict[str, Any]) -> Any:
            reached.set()
            go_on.wait()
            return super().train(config)

    first = threading.Thread(target=tuned, args=(Slow, tmp_path))
    first.start()
    reached.wait()
    try:
        words = f"another process is running .* then resume with: popbandits resume {tmp_path}$"
        with pytest.raises(RunError, match=words):
            tuned(Walker, tmp_path)
    finally:
        go_on.set()
        first.join()
    assert Result(tmp_path).done


def test_a_folder_with_a_run_is_not_overwritten_and_the_error_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tuned(Walker, "runs/first")
    with pytest.raises(ValueError, match=r"holds a run already; .* resume with: popbandits resume runs/first$"):
        tuned(Walker, "runs/first")


PROGRAM = """
from popbandits import resume, tune
from popbandits.errors import ArgumentError, RunError
from tests.engines.agents import Walker, space

class Own(Walker): ...

try:
    tune(Own, space(), rounds=1, directory="run", engine="processes", progress=False)
except ArgumentError as error:
    print(error)
tune(Own, space(), rounds=1, directory="run", progress=False)
try:
    resume("run", rounds=2, progress=False)
except RunError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("arguments", "program"),
    [
        (["-"], "a program from the standard input"),
        (["-c", PROGRAM], "a notebook, an interactive session or python -c"),
    ],
)
def test_an_agent_of_a_program_without_a_file_is_told_to_be_put_into_one(
    arguments: list[str], program: str, tmp_path: Path
) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command, given = [sys.executable, *arguments], "" if "-c" in arguments else PROGRAM
    ran = subprocess.run(command, input=given, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert ran.stderr == ""
    refused, not_found = ran.stdout.splitlines()
    assert f"got <class '__main__.Own'> in {program}, which they cannot import; put it into a file" in refused
    assert "does not say where that can be imported from; give it with agent=, or with --agent file.py" in not_found


MOVING = """
import os
from popbandits import tune
from tests.engines.agents import Walker, space

class Own(Walker): ...

if __name__ == "__main__":
    os.mkdir("elsewhere")
    os.chdir("elsewhere")
    print(tune(Own, space(), rounds=1, directory="run", engine="processes", workers=1, progress=False).done)
"""


def test_a_program_that_was_started_by_a_relative_path_may_change_its_folder(tmp_path: Path) -> None:
    (tmp_path / "moving.py").write_text(MOVING)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    code = "import popbandits, runpy; runpy.run_path('moving.py', run_name='__main__')"  # as launchers do
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (ran.stdout, ran.stderr) == ("True\n", "")


@pytest.mark.parametrize("broken", [lambda seed: None, lambda seed: Broken(seed)])
def test_a_run_that_ended_before_an_interval_completed_makes_way_for_a_new_one(broken: Any, tmp_path: Path) -> None:
    with pytest.raises((AgentError, RunError)):
        tuned(broken, tmp_path)
    with Store.open(tmp_path, readonly=True) as store:
        refused = store.about["id"]
    assert tuned(Walker, tmp_path).done
    with Store.open(tmp_path, readonly=True) as store:
        assert store.about["id"] != refused
        assert [event.kind for event in store.events()] == ["started", "finished"]


def test_a_run_that_was_killed_in_its_first_interval_keeps_its_folder(tmp_path: Path) -> None:
    with pytest.raises(AgentError):
        tuned(lambda seed: None, tmp_path)
    with Store.open(tmp_path) as store:
        store.write(events=[Event("resumed", "a process that was killed")])
    with pytest.raises(HistoryError, match="holds a run already"):
        tuned(Walker, tmp_path)


def test_a_record_of_another_program_is_not_replaced_though_it_is_empty(tmp_path: Path) -> None:
    Store.create(tmp_path, Space(space()), {"seed": 1}).close()
    before = (tmp_path / "run.sqlite").read_bytes()
    with pytest.raises(HistoryError, match="holds a run already"):
        tuned(Walker, tmp_path)
    assert (tmp_path / "run.sqlite").read_bytes() == before


@pytest.mark.parametrize("engine", ["in-process", "threads"])
@pytest.mark.parametrize("method", ["save", "load"])
def test_an_agent_without_a_method_is_refused_when_it_is_built(engine: Any, method: str, tmp_path: Path) -> None:
    trained = []

    class Half(Walker):
        def train(self, config: dict[str, Any]) -> Any:
            trained.append(config)
            return super().train(config)

    setattr(Half, method, None)
    with pytest.raises(AgentError, match=f"an agent has train, save and load, got .*Half.* without {method}; add it"):
        tuned(Half, tmp_path, engine=engine)
    assert not trained
    assert len(History.load(tmp_path)) == 0
    assert [event.text.endswith("add it") for event in events(tmp_path, "incomplete")] == [True]
    assert resume(tmp_path, agent=Walker, progress=False).done


def test_a_function_that_returns_no_agent_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"^make_agent\(seed\) must return an agent, .*, got None; return the agent$"):
        tuned(lambda seed: None, tmp_path)


def test_a_lambda_cannot_go_to_processes(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"top level of a module, got <function .*use engine='threads'"):
        tuned(lambda seed: Walker(seed), tmp_path / "run", engine="processes")
    assert list(tmp_path.iterdir()) == []
    assert tuned(Walker, tmp_path / "run", engine="processes").done


def test_a_resume_that_is_refused_changes_nothing_on_record(tmp_path: Path) -> None:
    tuned(Walker, tmp_path)
    with Store.open(tmp_path, readonly=True) as store:
        before, events = store.about, list(store.events())
    with pytest.raises(ArgumentError, match="top level of a module, got <function"):
        resume(tmp_path, agent=lambda seed: Walker(seed), engine="processes", rounds=6, progress=False)
    with Store.open(tmp_path, readonly=True) as store:
        assert (store.about, list(store.events())) == (before, events)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "gpu"}, "engine must be one of in-process, threads, processes, ray, slurm, batched, got 'gpu'"),
        ({"workers": 2, "engine": "batched"}, "trains all at once, got workers=2; leave it out"),
        (
            {"round_timeout": 3, "engine": "batched"},
            "cannot end a program that hangs, got round_timeout=3; leave it out",
        ),
        ({"resources": {"gpus": 1}, "engine": "batched"}, "only Ray assigns resources, got resources for batched"),
        (
            {"slurm": {"qos": "x"}, "engine": "ray"},
            "only SLURM takes options of its jobs, got slurm= for ray; use engine='sl",
        ),
        ({"workers": 0}, "workers must be a whole number"),
        ({"workers": 2}, "trains one at a time, got workers=2"),
        ({"round_timeout": 3}, r"cannot end an agent that hangs, got round_timeout=3"),
        ({"round_timeout": -1, "engine": "threads"}, "above 0 seconds, got -1"),
        ({"resources": {"cpus": 2}}, "only Ray assigns resources, got resources for in-process"),
        ({"resources": {"gpus": -1}, "engine": "ray"}, "in the plural, got {'gpus': -1}"),
        ({"resources": {"gpus": 1, "cpus": "two"}, "engine": "ray"}, "in the plural, got .*'two'"),
        ({"resources": {"gpus": float("nan")}, "engine": "ray"}, "in the plural, got {'gpus': nan}"),
        ({"max_failures": -1}, "max_failures must be"),
        ({"keep": -1}, "keep must be a whole number of at least 0, or 'all', got -1"),
        ({"keep": "some"}, "keep must be a whole number of at least 0, or 'all', got 'some'"),
        ({"agent": 3}, "agent must be callable"),
    ],
)
def test_bad_settings_name_the_rule(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Experiment(**({"agent": Walker, "space": space()} | settings))


@pytest.mark.parametrize(
    "settings",
    [
        {"resources": {"gpus": 0.5, "cpus": 0}, "engine": "ray"},
        {"resources": {}, "engine": "ray"},
        {"round_timeout": 0.1, "workers": 1, "engine": "threads"},
        {"max_failures": 0, "keep": 0, "workers": 1},
        {"keep": "all"},
    ],
)
def test_settings_at_the_edge_of_a_rule_are_taken(settings: dict[str, Any]) -> None:
    assert vars(Experiment(Walker, space(), **settings)).items() >= settings.items()


def test_run_takes_an_experiment(by_hand: History, tmp_path: Path) -> None:
    experiment = Experiment(Walker, space(), PBT(), rounds=4, directory=tmp_path)
    assert run(experiment, progress=False).history == by_hand


def test_tune_takes_the_fields_of_an_experiment_with_their_defaults() -> None:
    taken = {name: p.default for name, p in inspect.signature(tune).parameters.items()}
    fields = {name: p.default for name, p in inspect.signature(Experiment).parameters.items()}
    assert list(taken.items()) == list(fields.items())
    population = {"size" if name == "population" else name: default for name, default in fields.items()}
    own = {
        name: p.default
        for name, p in inspect.signature(Population).parameters.items()
        if name not in ("space", "history")
    }
    assert own.items() <= population.items(), "and a population by itself has the same"
