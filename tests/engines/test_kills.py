"""Kills at random instants: whatever is killed when, the run ends with the history of one that was left in peace."""

import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from popbandits import History
from popbandits.engines import Result, resume, tune
from popbandits.engines.view import View
from popbandits.errors import HistoryError
from popbandits.history import Observation
from popbandits.history.store import Store
from tests.engines.agents import Walker, space

SETTINGS: dict[str, Any] = {"rounds": 5, "population": 3, "progress": False}


def in_a_child(work: Callable[[], Any]) -> int:
    """Start work in a forked process, which begins at once, with everything imported; its id."""
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: the child uses none of them
        pid = os.fork()
    if pid:
        return pid
    try:  # The child never returns into pytest.
        work()
    finally:
        os._exit(0)


def begin_or_resume(directory: Path, **settings: Any) -> None:
    try:
        resume(directory, progress=False)
    except HistoryError:  # Killed before there was a run.
        tune(Walker, space(), directory=directory, **(SETTINGS | settings))


@pytest.mark.parametrize("synchronous", [True, False])
def test_a_killed_run_resumes_with_nothing_lost(synchronous: bool, tmp_path: Path) -> None:
    begin = time.monotonic()
    whole = tune(Walker, space(), directory=tmp_path / "whole", synchronous=synchronous, **SETTINGS)
    usual = time.monotonic() - begin
    instants = random.Random(0)
    for number in range(25):
        directory = tmp_path / str(number)
        for _ in range(2):  # The second kill hits a run that was resumed.
            pid = in_a_child(partial(begin_or_resume, directory, synchronous=synchronous))
            time.sleep(instants.uniform(0, usual))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        begin_or_resume(directory, synchronous=synchronous)
        assert list(History.load(directory)) == list(whole.history), f"run {number}"
        assert contents(directory) == contents(whole.directory), f"run {number}"


def contents(directory: Path) -> dict[str, bytes]:
    """The checkpoints of a run, file by file."""
    folder = directory / "checkpoints"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Watched(Walker):
    """Leaves the number of its process where a test finds it, and takes its time."""

    def __init__(self, seed: int, pids: Path):
        super().__init__(seed)
        (pids / str(os.getpid())).touch()

    def train(self, config: dict[str, Any]) -> Any:
        time.sleep(0.05)
        return super().train(config)


def test_workers_that_are_killed_cost_their_interval_and_nothing_else(tmp_path: Path) -> None:
    pids, over, instants = tmp_path / "pids", threading.Event(), random.Random(1)
    pids.mkdir()

    def kill() -> None:
        while not over.wait(instants.uniform(0.3, 1.0)):
            if known := list(pids.iterdir()):
                victim = instants.choice(known)
                victim.unlink()
                with suppress(ProcessLookupError):  # The run may have ended just now, and its workers with it.
                    os.kill(int(victim.name), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        maker = partial(Watched, pids=pids)
        result = tune(
            maker, space(), rounds=20, engine="processes", workers=2, directory=tmp_path / "run", progress=False
        )
    finally:
        over.set()
        killer.join()
    assert result.done
    assert sorted(o.key for o in result.history) == [(m, r) for m in range(4) for r in range(20)]
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


class Interrupting(View):
    """Presses Ctrl-C, or sends another signal, after some observations."""

    def __init__(self, after: int, signal_: int = signal.SIGINT):
        self.after, self.signal = after, signal_

    def told(self, observation: Observation) -> None:
        self.after -= 1
        if self.after == 0:
            signal.raise_signal(self.signal)


@pytest.mark.parametrize("engine", ["in-process", "threads"])
def test_the_first_interrupt_lets_what_is_in_training_end(engine: Any, tmp_path: Path) -> None:
    whole = tune(Walker, space(), directory=tmp_path / "whole", **SETTINGS)
    stopped = tune(
        Walker, space(), directory=tmp_path / "x", engine=engine, **(SETTINGS | {"progress": Interrupting(4)})
    )
    assert not stopped.done
    assert 4 <= len(stopped.history) <= 6
    assert resume(tmp_path / "x", progress=False).history == whole.history


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


def test_an_asynchronous_run_that_was_interrupted_keeps_what_undecided_members_need(tmp_path: Path) -> None:
    settings = SETTINGS | {"synchronous": False, "rounds": 8}
    whole = tune(Walker, space(), directory=tmp_path / "whole", **settings)
    for after in range(1, 24):
        directory = tmp_path / str(after)
        tune(Walker, space(), directory=directory, **(settings | {"progress": Interrupting(after)}))
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


def until(condition: Callable[[], Any], seconds: float = 60) -> None:
    """Wait until something is so; fail if it never is."""
    end = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except HistoryError:  # There is no run yet.
            pass
        assert time.monotonic() < end, "it never came to pass"
        time.sleep(0.01)
