"""Workers: who gets which job, what their deaths cost, what they see, and that none outlives its owner."""

import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe, active_children, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from popbandits import tune
from popbandits.agent import Outcome
from popbandits.engines import spawning, workers
from popbandits.engines.batched import BatchedEngine
from popbandits.engines.engine import MAX_EARLY_DEATHS as DEATHS
from popbandits.engines.engine import Engine
from popbandits.engines.ray_engine import RayEngine, RayWorker
from popbandits.engines.work import Failure, Job, JobReport
from popbandits.engines.workers import MIN_START_TIMEOUT_SECONDS as START_LIMIT
from popbandits.engines.workers import READY, Processes, ProcessWorker, Threads, Worker, WorkerEngine
from popbandits.errors import RunError
from popbandits.history import Assignment
from popbandits.run import Experiment
from tests.engines.agents import Walker, space
from tests.engines.batches import Walkers
from tests.processes import until
from tests.run.test_kills import none_lives


def job(member: int, draft: Path = Path("draft")) -> Job:
    return Job(Assignment(member, 0, {}), 0, None, draft)


class Puppet(Worker):
    """A worker whose end of the line the test holds."""

    def __init__(self) -> None:
        ours, self.theirs = Pipe()
        super().__init__(ours)
        self.status: str | None = None
        self.ended = False

    def is_dead(self) -> bool:
        return self.status is not None

    def death(self) -> str:
        return self.status or super().death()

    def end(self) -> None:
        self.ended = True
        super().end()

    def works(self, *members: int) -> None:
        """Be ready, and do the jobs of these members in turn."""
        self.theirs.send(READY)
        for member in members:
            self.theirs.send(JobReport((member, 0), 1.0, Outcome(1.0)))

    def sent(self) -> list[int]:
        """The members whose jobs arrived."""
        found = []
        while self.theirs.poll():
            found.append(self.theirs.recv().assignment.member)
        return found


class Puppets(WorkerEngine):
    """Every worker that it starts does the next thing of its script, if that says anything."""

    def __init__(self, count: int, limit: float | None = None, script: Sequence[Callable[[Puppet], Any]] = ()):
        self.script = list(script)
        self.started: list[tuple[int, Puppet]] = []
        super().__init__(Walker, count, limit)

    def start(self, number: int) -> Worker:
        worker = Puppet()
        self.started.append((number, worker))
        if self.script:
            self.script.pop(0)(worker)
        return worker


def test_a_worker_has_one_job_at_a_time_and_those_of_its_own_members() -> None:
    engine = Puppets(2)
    (_, first), (_, second) = engine.started
    for member in range(5):
        engine.submit(job(member))
    assert first.sent() == second.sent() == []
    first.works(0)
    assert [report.key for report in engine.wait()] == [(0, 0)]
    assert (first.sent(), second.sent()) == ([0, 2], [])
    second.works(1, 3)
    keys = [report.key for _ in range(2) for report in engine.wait()]
    assert keys == [(1, 0), (3, 0)]
    assert second.sent() == [1, 3]
    first.works(2)
    assert [report.key for report in engine.wait()] == [(2, 0)]


def test_without_jobs_there_is_nothing_to_wait_for() -> None:
    assert Puppets(2).wait() == []


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("broken", "its process ended with status 3", "its process ended with status 3"),
        ("kept open by a forked process", "its process ended with status 3", "its process ended with status 3"),
        ("broken", None, "its worker ended"),
    ],
)
def test_a_death_costs_one_job_and_says_how_it_came(line: str, status: str | None, said: str) -> None:
    engine = Puppets(2)
    (_, first), (_, second) = engine.started
    for member in (0, 1, 3):
        engine.submit(job(member))
    second.works()
    engine._receive(1, second)
    second.since -= 7.0
    if line == "broken":
        second.theirs.close()
    second.status = status
    (report,) = engine.wait()
    assert report.key == (1, 0)
    assert report.failure == Failure("died", said)
    assert 7.0 <= report.seconds < 60.0
    assert second.ended
    assert not first.ended
    (_, _, (number, third)) = engine.started
    assert number == 1
    third.works(3)
    assert [report.key for report in engine.wait()] == [(3, 0)]
    assert third.sent() == [3]


def test_what_a_worker_said_before_it_died_counts() -> None:
    engine = Puppets(1)
    [(_, worker)] = engine.started
    engine.submit(job(0))
    worker.works(0)
    worker.status = "its process ended with status 1"
    (report,) = engine.wait()
    assert report.failure is None


def dies(worker: Puppet) -> None:
    worker.status = "its process ended with status 1"
    worker.theirs.close()


def works_and_dies(worker: Puppet) -> None:
    worker.works()
    worker.theirs.close()


def test_workers_that_cannot_start_end_the_run() -> None:
    engine = Puppets(1, script=[dies] * DEATHS)
    engine.submit(job(0))
    with pytest.raises(RunError, match=f"got {DEATHS} in a row that its process ended with status 1 before their"):
        engine.wait()


@pytest.mark.parametrize("more", [DEATHS - 1, DEATHS])
def test_one_worker_that_starts_lets_the_others_try_again(more: int) -> None:
    engine = Puppets(1, script=[dies] * (DEATHS - 1) + [works_and_dies] + [dies] * more + [lambda w: w.works(2)])
    engine.submit(job(0))
    (report,) = engine.wait()
    assert report.failure is not None
    engine.submit(job(2))
    if more < DEATHS:
        assert [report.key for report in engine.wait()] == [(2, 0)]
    else:
        with pytest.raises(RunError, match="workers must be able to start"):
            engine.wait()


def test_a_worker_that_cannot_build_agents_ends_the_run() -> None:
    engine = Puppets(1, script=[lambda worker: worker.theirs.send(Failure("raised", "ImportError: x", "Trace"))])
    engine.submit(job(0))
    with pytest.raises(RunError, match="a worker cannot build agents: ImportError: x\nTrace"):
        engine.wait()


def test_the_clock_of_an_interval_starts_with_its_job_and_that_of_a_start_is_longer() -> None:
    engine = Puppets(1, limit=5.0)
    [(_, worker)] = engine.started
    assert 5.0 < engine._seconds_left(worker) <= START_LIMIT
    worker.since -= START_LIMIT
    assert engine._seconds_left(worker) == 0.0
    worker.works()
    engine._receive(0, worker)
    assert engine._seconds_left(worker) == math.inf  # it has nothing to do
    engine.submit(job(0))
    assert 0.0 < engine._seconds_left(worker) <= 5.0
    worker.since -= 5.0
    (report,) = engine.wait()
    assert report.failure == Failure("timeout", "did not end within 5 seconds")
    assert worker.ended
    assert START_LIMIT < Puppets(1, limit=2 * START_LIMIT)._seconds_left(Puppet()) <= 2 * START_LIMIT
    assert Puppets(1)._seconds_left(Puppet()) == math.inf


def test_waiting_costs_no_time_of_a_core() -> None:
    engine = Puppets(1, script=[Puppet.works])
    [(_, worker)] = engine.started
    engine.submit(job(0))
    later = threading.Timer(0.5, worker.theirs.send, [JobReport((0, 0), 1.0, Outcome(1.0))])
    later.start()
    before = time.thread_time()
    assert len(engine.wait()) == 1
    assert time.thread_time() - before < 0.05
    later.join()


def test_a_closed_engine_has_ended_every_worker_and_forgotten_every_job() -> None:
    engine = Puppets(3)
    engine.submit(job(0))
    engine.close()
    assert all(worker.ended for _, worker in engine.started)
    assert engine.wait() == []
    batched = BatchedEngine(Walkers, 2)
    batched.submit(job(0))
    batched.close()
    assert batched.wait() == []


class Holding:
    """An agent that is closed only when the test lets it."""

    def __init__(self, seed: int, may_close: threading.Event, closed: threading.Event) -> None:
        self.may_close, self.closed = may_close, closed

    def train(self, config: dict[str, Any]) -> float:
        return 0.0

    def save(self, directory: Path) -> None:
        (directory / "nothing").touch()

    def load(self, directory: Path) -> None: ...

    def close(self) -> None:
        self.may_close.wait(60)
        self.closed.set()


@pytest.mark.parametrize("hangs", [False, True])
def test_threads_close_their_agents_before_their_engine_is_closed_unless_that_hangs(
    hangs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MAX_CLOSE_SECONDS", 0.1 if hangs else 60.0)
    may_close, closed = threading.Event(), threading.Event()
    engine = Threads(partial(Holding, may_close=may_close, closed=closed), 2)
    engine.submit(job(0, tmp_path / "draft"))
    reports: list[JobReport] = []
    while not reports:  # A thread that is ready comes first.
        reports = engine.wait()
    assert reports[0].failure is None
    later = threading.Timer(0.2, may_close.set)
    if not hangs:
        later.start()
    engine.close()
    assert closed.is_set() is not hangs
    may_close.set()
    assert closed.wait(60)


class Forking(Holding):
    """An agent with a forked process that its close ends, as vectorised environments have them."""

    def __init__(self, seed: int, closed: threading.Event) -> None:
        super().__init__(seed, threading.Event(), closed)
        self.line, theirs = Pipe()
        self.forked = get_context("fork").Process(target=theirs.recv, daemon=True)
        self.forked.start()

    def close(self) -> None:
        self.line.send("end")
        self.forked.join(60)
        self.closed.set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_threads_close_agents_with_processes_that_they_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MAX_CLOSE_SECONDS", 10.0)
    closed = threading.Event()
    engine = Threads(partial(Forking, closed=closed), 1)
    engine.submit(job(0, tmp_path / "draft"))
    assert [report.failure for report in engine.wait()] == [None]
    engine.close()
    assert closed.is_set()


def test_workers_are_ended_if_the_next_one_cannot_be_started() -> None:
    def refuse(worker: Puppet) -> None:
        raise OSError("no more processes")

    made: list[Puppet] = []
    with pytest.raises(OSError, match="no more processes"):
        Puppets(3, script=[made.append, made.append, refuse])
    assert [worker.ended for worker in made] == [True, True]


# Processes


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forking beside threads: it uses none of them
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "its process ended with status 0"),
        (1, "its process ended with status 1"),
        (-9, "its process was ended by signal 9"),
    ],
)
def test_the_death_of_a_process_is_told_in_words(code: int, said: str) -> None:
    process = get_context("fork").Process(target=os._exit if code >= 0 else signal.raise_signal, args=(abs(code),))
    process.start()
    connection, line = Pipe()
    worker = ProcessWorker(connection, process, line)
    assert worker.death() == said
    assert worker.is_dead()
    worker.end()
    assert connection.closed
    assert line.closed


class Fatal:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> Any:
        return os._exit, (3,)


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_that_end_before_their_first_job_end_the_run_with_the_likely_cause(workers: int) -> None:
    engine: Processes = Processes(Fatal(), workers)  # type: ignore[arg-type]
    for member in range(workers):
        engine.submit(job(member))
    with pytest.raises(RunError, match="its process ended with status 3 before their first job; in a script, call"):
        engine.wait()
    engine.close()  # One of them is closed already.
    until(lambda: not active_children())


class Terminating(Walker):
    """Terminates a process that it has forked, as libraries do when they are closed."""

    def train(self, config: dict[str, Any]) -> Any:
        forked = get_context("fork").Process(target=time.sleep, args=(600,))
        forked.start()
        forked.terminate()
        forked.join()
        return Outcome(float(forked.exitcode or 0))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_agents_can_terminate_what_they_fork(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"population": 1, "rounds": 1, "engine": "processes", "round_timeout": 60}
    result = tune(Terminating, space(), directory=tmp_path / "run", progress=False, **settings)
    assert result.history[0].score == -signal.SIGTERM


class Sighted(Walker):
    """Tells which GPUs it sees, and in which process."""

    def train(self, config: dict[str, Any]) -> Any:
        return Outcome(0.0, metrics={"gpus": os.environ.get("CUDA_VISIBLE_DEVICES"), "process": os.getpid()})


def test_each_process_sees_one_gpu_in_turn_and_they_are_gone_after_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    files = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    engine = Processes(Sighted, 2)
    for member in range(2):
        engine.submit(job(member, tmp_path / str(member)))
    reports: list[JobReport] = []
    while len(reports) < 2:
        reports += engine.wait()
    engine._workers[0].end()  # As where a worker has died and no other could be started.
    engine.close()
    seen = {report.key[0]: report.outcome.metrics for report in reports if report.outcome is not None}
    assert {member: metrics["gpus"] for member, metrics in seen.items()} == {0: "3", 1: "5"}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3,5"
    for metrics in seen.values():
        with pytest.raises(ProcessLookupError):
            os.kill(int(metrics["process"]), 0)
    if sys.platform == "linux":
        assert len(os.listdir("/proc/self/fd")) <= files + 1  # that of Python's own helper, started with the first


def test_the_gpus_are_those_that_the_user_or_else_the_driver_names(tmp_path: Path) -> None:
    assert workers.visible_gpus({"CUDA_VISIBLE_DEVICES": "1,GPU-ab, ,7"}, tmp_path) == ["1", "GPU-ab", "7"]
    assert workers.visible_gpus({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == []
    assert workers.visible_gpus({}, tmp_path / "missing") == []
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
    assert workers.visible_gpus({}, tmp_path) == ["0", "1"]


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({}, 1),
        ({"workers": 1}, 1),
        ({"engine": "threads"}, 6),
        ({"engine": "threads", "workers": 4}, 4),
        ({"engine": "threads", "workers": 9}, 6),
        ({"engine": "processes"}, 3),
        ({"engine": "processes", "workers": 5}, 5),
        ({"engine": "processes", "population": 2}, 2),
    ],
)
def test_so_many_members_train_at_a_time(settings: dict[str, Any], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 4, 5}, raising=False)
    assert Experiment(**({"agent": Walker, "space": space(), "population": 6} | settings)).at_a_time == count


@pytest.mark.parametrize(("known", "cores"), [(7, 7), (None, 1)])
def test_where_nobody_tells_which_cores_may_be_used_all_may(
    known: int | None, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: known)
    assert spawning.cores() == cores


# Processes and their owners


@pytest.mark.parametrize("way", ["to the end", "interrupted"])
def test_what_processes_inherit_is_put_back(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POPBANDITS_OLD", "before")
    monkeypatch.delenv("POPBANDITS_NEW", raising=False)
    with suppress(KeyboardInterrupt), spawning.spawning({"POPBANDITS_OLD": "1", "POPBANDITS_NEW": "2"}):
        assert (os.environ["POPBANDITS_OLD"], os.environ["POPBANDITS_NEW"]) == ("1", "2")
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
        if way == "interrupted":
            raise KeyboardInterrupt
    assert os.environ["POPBANDITS_OLD"] == "before"
    assert "POPBANDITS_NEW" not in os.environ
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def live(way: str, listen: Connection, line: Connection, group: int, pids: Path) -> None:
    """A process that ends with its owner: with all of its group if it leads one."""
    line.close()
    os.setpgid(0, group)
    if not group:
        (pids / str(subprocess.Popen(["sleep", "1000"]).pid)).touch()
    if way == "by a thread":
        spawning._kill_on_close = unknown
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # what the kernel sends to those who do not say
    spawning.end_with(listen)
    (pids / "living").touch()
    if way == "by the kernel":
        re.match(r"(a+)+$", "a" * 64 + "b")  # Would take centuries, and lets no other thread run.
    if way != "by itself":
        time.sleep(1000)


def unknown(handle: int, victim: int) -> None:
    raise OSError("this kernel does not know how to")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel does not kill")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("way", ["by the kernel", "by a thread", "by itself"])
def test_a_process_ends_with_its_owner_or_before_it_and_takes_its_own_group_along(
    way: str, leads: bool, tmp_path: Path
) -> None:
    listen, line = Pipe(duplex=False)
    with subprocess.Popen(["sleep", "1000"], process_group=0) as other:
        try:
            group = 0 if leads else other.pid
            process = get_context("fork").Process(target=live, args=(way, listen, line, group, tmp_path))
            process.start()
            if way != "by itself":
                until((tmp_path / "living").exists)
                assert process.is_alive()
                line.close()
            process.join(60)
            assert process.exitcode == (0 if way == "by itself" else 1 if not leads and "thread" in way else -9)
            line.close()
            if leads and way != "by itself":
                until(lambda: none_lives(tmp_path))
            assert other.poll() is None
        finally:
            other.kill()
            process.kill()
            for path in tmp_path.iterdir():
                with suppress(ValueError, ProcessLookupError):
                    os.kill(int(path.name), signal.SIGKILL)


def test_a_checkpoint_lost_before_it_is_sent_to_an_actor_is_reported(tmp_path: Path) -> None:
    engine = RayEngine.__new__(RayEngine)  # without a cluster
    Engine.__init__(engine)
    engine.round_timeout, engine._homes = None, {}
    engine._ray = SimpleNamespace(wait=lambda coming, timeout: ([], []))
    engine._workers = [RayWorker(None, None, frozenset(), node="free")]
    engine.submit(Job(Assignment(0, 1, {}, (0, 0)), 0, tmp_path / "missing", tmp_path / "draft"))
    (report,) = engine.wait()
    assert report.failure is not None
    assert report.failure.kind == "lost"
