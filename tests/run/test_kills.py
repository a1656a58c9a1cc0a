"""Kills at random instants: whatever is killed when, the run ends with the history of one that was left in peace."""

import multiprocessing
import os
import random
import shutil
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from popbandits import History
from popbandits.errors import ArgumentError, HistoryError, RunError
from popbandits.history import Event, Observation
from popbandits.run import Result, resume, tune
from popbandits.storage.store import Store
from popbandits.views.view import View
from tests.engines.agents import Walker, space
from tests.engines.batches import Walkers
from tests.processes import contents, in_a_child, until
from tests.views.watched import Heir, Parent, Watched

SETTINGS: dict[str, Any] = {"rounds": 5, "population": 3, "progress": False}
BATCHED: dict[str, Any] = {"agent": Walkers, "engine": "batched"}


def begin_or_resume(directory: Path, **settings: Any) -> None:
    try:
        resume(directory, progress=False)
    except HistoryError:  # Killed before there was a run.
        tune(**({"agent": Walker, "space": space(), "directory": directory} | SETTINGS | settings))


@pytest.mark.parametrize(("settings", "kills"), [({}, 6), (BATCHED, 4)], ids=["in-process", "batched"])
@pytest.mark.parametrize("synchronous", [True, False])
def test_a_killed_run_resumes_with_nothing_lost(
    settings: dict[str, Any], kills: int, synchronous: bool, tmp_path: Path
) -> None:
    begin = time.monotonic()
    whole = tune(Walker, space(), directory=tmp_path / "whole", synchronous=synchronous, **SETTINGS)
    usual = time.monotonic() - begin
    instants = random.Random(0)
    settings = settings | {"synchronous": synchronous}
    for number in range(kills):
        directory = tmp_path / str(number)
        for _ in range(2):  # The second kill hits a run that was resumed.
            pid = in_a_child(partial(begin_or_resume, directory, **settings))
            time.sleep(instants.uniform(0, usual))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        begin_or_resume(directory, **settings)
        assert list(History.load(directory)) == list(whole.history), f"run {number}"
        assert contents(directory) == contents(whole.directory), f"run {number}"


def test_workers_that_are_killed_cost_their_interval_and_nothing_else(tmp_path: Path) -> None:
    pids, over, instants = tmp_path / "pids", threading.Event(), random.Random(1)
    pids.mkdir()
    victims: list[Path] = []

    def kill() -> None:
        while len(victims) < 6 and not over.wait(instants.uniform(0.2, 0.6)):
            if known := list(pids.iterdir()):
                victim = instants.choice(known)
                victim.unlink()
                victims.append(victim)
                with suppress(ProcessLookupError):  # The run may have ended just now, and its workers with it.
                    os.kill(int(victim.name), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        maker = partial(Watched, pids=pids)
        result = tune(
            maker, space(), rounds=10, engine="processes", workers=2, directory=tmp_path / "run", progress=False
        )
    finally:
        over.set()
        killer.join()
    assert result.done
    assert sorted(o.key for o in result.history) == [(m, r) for m in range(4) for r in range(10)]
    with Store.open(result.directory, readonly=True) as store:
        died = [(event.member, event.round) for event in store.events() if event.kind == "died"]
    assert died
    assert sorted(died) == sorted(o.key for o in result.history if o.failed)


def test_workers_end_with_a_killed_driver(tmp_path: Path) -> None:
    pids, directory = tmp_path / "pids", tmp_path / "run"
    pids.mkdir()
    maker = partial(Watched, pids=pids)
    work = partial(
        tune, maker, space(), rounds=1000, engine="processes", workers=2, directory=directory, progress=False
    )
    driver = in_a_child(work)
    until(lambda: len(list(pids.iterdir())) == 2 and Result(directory).history)
    os.kill(driver, signal.SIGKILL)
    os.waitpid(driver, 0)
    until(lambda: not any(Path(f"/proc/{pid.name}").exists() for pid in pids.iterdir()))
    before = len(Result(directory).history)
    result = resume(directory, agent=maker, rounds=before // 4 + 2, engine="in-process", progress=False)
    assert result.done


def none_lives(pids: Path) -> bool:
    """Whether all processes have ended that left their number here; zombies have."""
    for path in pids.iterdir():
        with suppress(OSError):
            if path.name.isdigit() and Path("/proc", path.name, "cmdline").read_bytes():
                return False
    return True


def test_what_a_dead_worker_had_started_is_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    with pytest.raises(RunError, match="max_failures is 1"):
        tune(
            partial(Parent, pids=pids, way="die"),
            space(),
            engine="processes",
            workers=1,
            max_failures=1,
            directory=tmp_path / "run",
            **SETTINGS,
        )
    assert len(list(pids.iterdir())) >= 4
    until(lambda: none_lives(pids))


def test_a_dead_worker_is_noticed_though_a_process_that_it_forked_lives(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    with pytest.raises(RunError, match=r"2 intervals failed and max_failures is 1; .*ended by signal 9"):
        tune(
            partial(Heir, pids=pids),
            space(),
            engine="processes",
            workers=1,
            max_failures=1,
            directory=tmp_path / "run",
            **SETTINGS,
        )
    until(lambda: none_lives(pids))


def test_a_worker_that_holds_the_interpreter_lock_ends_with_a_killed_driver(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    maker = partial(Parent, pids=pids, way="hold")
    driver = in_a_child(
        partial(tune, maker, space(), engine="processes", workers=1, directory=tmp_path / "run", **SETTINGS)
    )
    until((pids / "holding").exists)
    assert not none_lives(pids)
    os.kill(driver, signal.SIGKILL)
    os.waitpid(driver, 0)
    until(lambda: none_lives(pids))


class Interrupting(View):
    """Presses Ctrl-C, or sends another signal, after some observations."""

    def __init__(self, after: int, signal_: int = signal.SIGINT):
        self.after, self.signal = after, signal_

    def told(self, observation: Observation) -> None:
        self.after -= 1
        if self.after == 0:
            signal.raise_signal(self.signal)


class Terminating(Interrupting):
    """Sends SIGTERM to workers, too, as managers of services and of jobs on a cluster do."""

    def told(self, observation: Observation) -> None:
        if self.after == 1:
            for worker in multiprocessing.active_children():
                worker.terminate()
        super().told(observation)


@pytest.mark.parametrize("engine", ["in-process", "threads"])
def test_the_first_interrupt_lets_what_is_in_training_end(engine: Any, tmp_path: Path) -> None:
    whole = tune(Walker, space(), directory=tmp_path / "whole", **SETTINGS)
    stopped = tune(
        Walker, space(), directory=tmp_path / "x", engine=engine, **(SETTINGS | {"progress": Interrupting(4)})
    )
    assert not stopped.done
    assert 4 <= len(stopped.history) <= 6
    assert resume(tmp_path / "x", progress=False).history == whole.history
    with Store.open(tmp_path / "x", readonly=True) as store:
        said = [event for event in store.events() if event.member is None]
    assert [event.kind for event in said] == ["started", "stopped", "resumed", "finished"]
    assert all(f"process {os.getpid()} on " in event.text for event in said[::2])
    assert all(abs(time.time() - event.time) < 600 for event in said)


@pytest.mark.parametrize("way", ["to its end", "interrupted"])
def test_a_run_gives_the_signals_back(way: str, tmp_path: Path) -> None:
    """Who calls `tune` from a program or a notebook keeps their own answer to Ctrl-C."""

    def theirs(number: int, frame: Any) -> None: ...

    before = {number: signal.signal(number, theirs) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        view = Interrupting(4) if way == "interrupted" else View()
        tune(Walker, space(), directory=tmp_path, **(SETTINGS | {"progress": view}))
        assert {signal.getsignal(number) for number in before} == {theirs}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_request_to_terminate_ends_the_process_after_what_is_in_training(tmp_path: Path) -> None:
    whole = tune(Walker, space(), directory=tmp_path / "whole", **SETTINGS)
    with pytest.raises(SystemExit, match="143"):
        tune(Walker, space(), directory=tmp_path / "x", **(SETTINGS | {"progress": Interrupting(4, signal.SIGTERM)}))
    assert 4 <= len(History.load(tmp_path / "x")) <= 6
    assert resume(tmp_path / "x", progress=False).history == whole.history


def test_workers_that_are_asked_to_terminate_with_the_run_end_what_they_train(tmp_path: Path) -> None:
    whole = tune(Walker, space(), directory=tmp_path / "whole", **SETTINGS)
    view = {"progress": Terminating(4, signal.SIGTERM)}
    with pytest.raises(SystemExit, match="143"):
        tune(Walker, space(), directory=tmp_path / "x", engine="processes", workers=2, **(SETTINGS | view))
    assert {each.status for each in History.load(tmp_path / "x")} == {"completed"}
    assert resume(tmp_path / "x", progress=False).history == whole.history


@pytest.mark.parametrize("synchronous", [True, False])
def test_a_killed_run_resumes_without_the_past_run_that_it_began_with(synchronous: bool, tmp_path: Path) -> None:
    old, directory = tmp_path / "old", tmp_path / "x"
    tune(Walker, space(), directory=old, **SETTINGS)
    settings = SETTINGS | {"start": old, "synchronous": synchronous}
    whole = tune(Walker, space(), directory=tmp_path / "whole", **settings)
    assert whole.history.find((0, 0)).decision["start"] == str(old)
    killed = settings | {"progress": Interrupting(1, signal.SIGKILL)}
    os.waitpid(in_a_child(partial(tune, Walker, space(), directory=directory, **killed)), 0)
    assert len(History.load(directory)) == 1, "most of the first round is to be decided again"
    shutil.rmtree(old)
    with pytest.raises(ArgumentError, match="a resumed run keeps its start, got 'defaults'"):
        resume(directory, progress=False, start="defaults")
    assert list(resume(directory, progress=False).history) == list(whole.history)


def test_a_run_recorded_before_there_were_starts_goes_on(tmp_path: Path) -> None:
    whole = tune(Walker, space(), directory=tmp_path, **SETTINGS)
    with Store.open(tmp_path) as store:
        store.connection.execute("DELETE FROM run WHERE name = 'start'")
    again = resume(tmp_path, rounds=6, progress=False)
    assert again.done
    assert list(again.history)[:15] == list(whole.history)[:15]


@pytest.mark.parametrize("engine", [{"agent": Walker}, BATCHED], ids=["in-process", "batched"])
def test_an_asynchronous_run_that_was_interrupted_keeps_what_undecided_members_need(
    engine: dict[str, Any], tmp_path: Path
) -> None:
    settings = SETTINGS | {"synchronous": False, "rounds": 8}
    whole = tune(Walker, space(), directory=tmp_path / "whole", **settings)
    for after in range(1, 24, 2 if engine is not BATCHED else 5):
        directory = tmp_path / str(after)
        tune(space=space(), directory=directory, **(settings | engine | {"progress": Interrupting(after)}))
        assert list(resume(directory, progress=False).history) == list(whole.history)


def test_the_second_interrupt_stops_at_once_and_loses_what_was_in_training_only(tmp_path: Path) -> None:
    class Impatient(Walker):
        def train(self, config: dict[str, Any]) -> Any:
            if trained.append(1) or len(trained) == 5:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
            return super().train(config)

    trained: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        tune(Impatient, space(), directory=tmp_path / "x", **SETTINGS)
    assert len(History.load(tmp_path / "x")) == 4
    whole = tune(Walker, space(), directory=tmp_path / "whole", **SETTINGS)
    assert resume(tmp_path / "x", agent=Walker, progress=False).history == whole.history


def _idle(begun: Any) -> None:
    begun.set()
    time.sleep(60)


class Forking(Walker):
    """Ends a process that it forked, as a pool does with its workers."""

    codes: ClassVar[list[int | None]] = []

    def train(self, config: dict[str, Any]) -> float:
        context = multiprocessing.get_context("fork")
        begun = context.Event()
        forked = context.Process(target=_idle, args=(begun,))
        forked.start()
        begun.wait(20)
        forked.terminate()
        forked.join(20)
        Forking.codes.append(forked.exitcode)
        forked.kill()
        return super().train(config)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_sigterm_ends_a_process_that_an_agent_forked(tmp_path: Path) -> None:
    Forking.codes.clear()
    assert tune(Forking, space(), rounds=1, population=1, directory=tmp_path, progress=False).done
    assert Forking.codes == [-signal.SIGTERM]


class Forwarding(Walker):
    """Gets a Ctrl-C in a process that it forked, as a terminal sends it to all that it shows."""

    def train(self, config: dict[str, Any]) -> float:
        forked = multiprocessing.get_context("fork").Process(target=signal.raise_signal, args=(signal.SIGINT,))
        forked.start()
        forked.join(20)
        assert forked.exitcode == 0
        return super().train(config)


class Notes(View):
    """Writes what it is told to a file, from whatever process."""

    def __init__(self, file: Path):
        self.file = file

    def happened(self, event: Event) -> None:
        with self.file.open("a") as file:
            print(event.kind, file=file)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_process_that_an_agent_forked_leaves_an_interrupt_to_the_run(tmp_path: Path) -> None:
    views = [Notes(tmp_path / "told")]
    tune(Forwarding, space(), rounds=1, population=1, directory=tmp_path / "x", callbacks=views, progress=False)
    assert (tmp_path / "told").read_text().split() == ["started", "finished"]
