"""Engines with workers: threads that share an accelerator, or processes with one each in turn.

Every member has its worker (member modulo workers), which keeps the member's agent. A worker has one job at a time; the
rest waits here, so that a worker's death costs one job, and the clock of `round_timeout` starts when its job does.
"""

import math
import os
import pickle
import signal
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from popbandits.agent import MakeAgent
from popbandits.engines.engine import Engine
from popbandits.engines.spawning import end_with, spawning
from popbandits.engines.work import Bench, Failure, Job, Report
from popbandits.errors import ArgumentError, RunError
from popbandits.wording import error_text

READY = "ready"
STARTS = 5
"""How many times in a row a process may die before it is ready for its first job."""
START_SECONDS = 120.0
"""How long it may take to be ready, at least, where there is a limit: it imports whatever its agents need."""
TICK = 1.0
"""Seconds after which a wait looks up: for a signal that arrived just before it, and for workers that died."""


class Worker:
    """One thread or process, as its engine sees it."""

    def __init__(self, connection: Connection):
        self.connection = connection
        """To send jobs and to receive reports."""
        self.jobs: deque[Job] = deque()
        """Not sent yet."""
        self.job: Job | None = None
        """Sent, and not reported on."""
        self.ready = False
        self.since = time.monotonic()
        """When it was started, or its job was sent."""

    def is_dead(self) -> bool:
        """Tell whether it ended on its own. Its line may not say so: what it forked keeps that open."""
        return False

    def death(self) -> str | None:
        """How it ended on its own; None if it lives."""
        return None

    def end(self) -> None:
        """End it now, or turn away from it where it cannot be ended."""
        self.connection.close()


class WorkerEngine(Engine):
    """Hands jobs to workers, watches over them, and replaces those that hang or die."""

    def __init__(self, make_agent: MakeAgent, workers: int, round_timeout: float | None = None):
        self.make_agent, self.round_timeout = make_agent, round_timeout
        self._early_deaths = 0
        self._workers: list[Worker] = []
        try:
            for number in range(workers):
                self._workers.append(self.start(number))
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def start(self, number: int) -> Worker:
        """A new worker, to be the one of this number."""

    def submit(self, job: Job) -> None:
        """Queue it with its member's worker."""
        worker = self._workers[job.assignment.member % len(self._workers)]
        worker.jobs.append(job)
        self._send(worker)

    def wait(self) -> list[Report]:
        """Until a job is done, a worker dies, or one is past its deadline."""
        reports: list[Report] = []
        while not reports and any(worker.job or worker.jobs for worker in self._workers):
            patience = min(TICK, *map(self._patience, self._workers))
            ready = wait([worker.connection for worker in self._workers], patience)
            for number, worker in enumerate(self._workers):
                if worker.connection in ready:
                    reports += self._receive(number, worker)
                elif worker.is_dead() and not worker.connection.poll():
                    reports += self._replace(number, worker, Failure("died", worker.death() or "its worker ended"))
                elif self._patience(worker) == 0:
                    limit = f"did not end within {self.round_timeout:g} seconds"
                    reports += self._replace(number, worker, Failure("timeout", limit))
        return reports

    def close(self) -> None:
        """End every worker."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def _patience(self, worker: Worker) -> float:
        """How many seconds it may still take, 0 for none."""
        if self.round_timeout is None or (worker.ready and worker.job is None):
            return math.inf
        limit = self.round_timeout if worker.ready else max(self.round_timeout, START_SECONDS)
        return max(0.0, worker.since + limit - time.monotonic())

    def _send(self, worker: Worker) -> None:
        if worker.ready and worker.job is None and worker.jobs:
            worker.job, worker.since = worker.jobs.popleft(), time.monotonic()
            with suppress(OSError):  # A broken line is seen when it is next read from.
                worker.connection.send(worker.job)

    def _receive(self, number: int, worker: Worker) -> list[Report]:
        """What a worker has to say: that it is ready, a report, or, when its line is broken, nothing any more."""
        try:
            message = worker.connection.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            return self._replace(number, worker, Failure("died", worker.death() or "its worker ended"))
        if isinstance(message, Failure):
            raise RunError(f"a worker cannot build agents: {message.text}\n{message.traceback}")
        if message == READY:
            worker.ready, self._early_deaths = True, 0
        else:
            worker.job = None
        self._send(worker)
        return [] if message == READY else [message]

    def _replace(self, number: int, worker: Worker, failure: Failure) -> list[Report]:
        """Put a new worker in the place of one that is no use any more, and report on the job that it had."""
        worker.end()
        if not worker.ready:
            self._early_deaths += 1
            if self._early_deaths >= STARTS:
                raise RunError(
                    f"workers must be able to start, got {STARTS} in a row that {failure.text} before their first job; "
                    "in a script of your own call tune below `if __name__ == '__main__':`"
                )
        self._workers[number] = self.start(number)
        self._workers[number].jobs = worker.jobs
        if worker.job is None:
            return []
        return [Report(worker.job.assignment.key, time.monotonic() - worker.since, failure=failure)]


def serve(connection: Connection, make_agent: MakeAgent, abandoned: threading.Event | None = None) -> None:
    """A worker's life: do one job after another until nobody listens."""
    bench = Bench(make_agent, abandoned)
    with suppress(EOFError, OSError):
        connection.send(READY)
        while True:
            connection.send(bench.do(connection.recv()))
    bench.close()


class ThreadWorker(Worker):
    """A thread, which cannot be ended: one that hangs is left behind, and saves nothing any more."""

    def __init__(self, connection: Connection, abandoned: threading.Event):
        super().__init__(connection)
        self.abandoned = abandoned

    def end(self) -> None:
        """Turn away from it."""
        self.abandoned.set()
        super().end()


class Threads(WorkerEngine):
    """A thread for each member: they share one accelerator, and one trains while another steps its environments."""

    def start(self, number: int) -> Worker:
        """Start a thread."""
        ours, theirs = Pipe()
        abandoned = threading.Event()
        job = (theirs, self.make_agent, abandoned)
        threading.Thread(target=serve, args=job, name=f"popbandits-{number}", daemon=True).start()
        return ThreadWorker(ours, abandoned)


class ProcessWorker(Worker):
    """A process, in a group of its own with whatever its agents start."""

    def __init__(self, connection: Connection, process: Any, line: Connection):
        super().__init__(connection)
        self.process, self.line = process, line

    def is_dead(self) -> bool:
        """Tell whether its process has ended."""
        return not self.process.is_alive()

    def death(self) -> str | None:
        """Its exit status in words."""
        self.process.join(5)  # The line breaks a moment before the process is gone.
        code = self.process.exitcode
        if code is None:
            return None
        return f"its process was ended by signal {-code}" if code < 0 else f"its process ended with status {code}"

    def end(self) -> None:
        """Kill it and what it started."""
        super().end()
        if hasattr(os, "killpg"):  # Also if it died: what it had started lives on in its group.
            with suppress(ProcessLookupError, PermissionError):  # Nobody is left in it, or there is none yet.
                os.killpg(self.process.pid, signal.SIGKILL)
        self.line.close()
        self.process.kill()
        self.process.join()
        self.process.close()


class Processes(WorkerEngine):
    """Spawned processes that stay; where there are several GPUs, each sees one of them in turn."""

    def __init__(self, make_agent: MakeAgent, workers: int, round_timeout: float | None = None):
        try:
            self._packed = pickle.dumps(make_agent)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ArgumentError(
                "engine='processes' sends the agent's maker to other processes, so it must be a function or class at "
                f"the top level of a module, got {make_agent!r} ({error}); move it there, or use engine='threads'"
            ) from None
        self._gpus = visible_gpus(os.environ)
        super().__init__(make_agent, workers, round_timeout)

    def start(self, number: int) -> Worker:
        """Spawn a process."""
        context = get_context("spawn")
        ours, theirs = Pipe()
        listen, line = Pipe(duplex=False)
        environment = {"CUDA_VISIBLE_DEVICES": self._gpus[number % len(self._gpus)]} if len(self._gpus) > 1 else {}
        process = context.Process(target=_serve_alone, args=(theirs, listen, self._packed), name=f"popbandits-{number}")
        with spawning(environment):
            process.start()
        theirs.close()
        listen.close()
        return ProcessWorker(ours, process, line)


def _serve_alone(connection: Connection, line: Connection, packed: bytes) -> None:
    """The main function of a worker process."""
    if hasattr(os, "setsid"):
        os.setsid()
    end_with(line)
    signal.signal(signal.SIGINT, lambda number, frame: None)  # Ctrl-C is the driver's: who raises it here is an agent.
    try:
        make_agent = pickle.loads(packed)
    except BaseException as error:
        connection.send(Failure("raised", f"{type(error).__name__}: {error_text(error)}"))
        return
    serve(connection, make_agent)


def visible_gpus(environment: Mapping[str, str], known: Path = Path("/proc/driver/nvidia/gpus")) -> Sequence[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    if "CUDA_VISIBLE_DEVICES" in environment:
        return [name for name in environment["CUDA_VISIBLE_DEVICES"].split(",") if name.strip()]
    return [str(number) for number in range(len(list(known.iterdir())))] if known.is_dir() else []
