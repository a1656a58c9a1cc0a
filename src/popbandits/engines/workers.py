"""Engines with workers: threads that share an accelerator, or processes, each with one of the GPUs.

Every member has a worker (member modulo workers), which holds the member's agent. A worker has one job at a time; the
others wait here, so that a worker's death costs one job, and `round_timeout` is measured from the start of its job.
"""

import math
import multiprocessing.process
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from popbandits.agent import MakeAgent
from popbandits.engines.engine import MAX_CLOSE_SECONDS, Engine
from popbandits.engines.generators import States, read_states, used_since
from popbandits.engines.spawning import end_with, spawning
from popbandits.engines.work import AgentPool, Failure, Job, JobReport, describe_error, reports_of, time_limit_failure
from popbandits.errors import ArgumentError, PopbanditsWarning, RunError

READY, CLOSED = "ready", "closed"
MIN_START_TIMEOUT_SECONDS = 120.0
"""Minimum time limit for the start of a process, which imports everything that its agents need."""
MAX_WAIT_SECONDS = 1.0
"""Maximum seconds of one wait: a signal may have arrived just before it, and workers may have died."""


class Worker:
    """A thread, as its engine sees it. It cannot be ended: one that hangs is abandoned, and saves nothing more."""

    def __init__(self, connection: Connection):
        self.connection = connection
        """Pipe for jobs and reports."""
        self.thread: threading.Thread | None = None
        self.abandoned = threading.Event()
        self.jobs: deque[Job] = deque()
        """Jobs not sent yet."""
        self.job: Job | None = None
        """Job that was sent and not reported on yet."""
        self.ready = False
        self.since = time.monotonic()
        """Time at which it was started, or its job was sent."""

    def is_dead(self) -> bool:
        """Tell whether it ended on its own. Its pipe may still be open in a process that it forked."""
        return False

    def death(self) -> str:
        """Describe how it ended on its own."""
        return "its worker ended"

    def end(self) -> None:
        """Abandon it; it closes its agents, once it has no job."""
        self.abandoned.set()
        with suppress(OSError):  # Closing is not enough: processes that agents forked have the pipe, too.
            self.connection.send(None)
        self.connection.close()


class WorkerEngine(Engine):
    """An engine that sends jobs to workers, and replaces workers that hang or die."""

    def __init__(self, make_agent: MakeAgent, workers: int, round_timeout: float | None = None):
        super().__init__()
        self.make_agent, self.round_timeout = make_agent, round_timeout
        self._workers: list[Worker] = []
        try:
            for number in range(workers):
                self._workers.append(self.start(number))
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def start(self, number: int) -> Worker:
        """Start a worker with this number."""

    def submit(self, job: Job) -> None:
        """Queue a job for its member's worker."""
        worker = self._workers[job.assignment.member % len(self._workers)]
        worker.jobs.append(job)
        self._send(worker)

    def wait(self) -> list[JobReport]:
        """Wait until a job is done, a worker dies, or one is past its deadline; return the reports."""
        reports: list[JobReport] = []
        while not reports and any(worker.job or worker.jobs for worker in self._workers):
            seconds = min(MAX_WAIT_SECONDS, *map(self._seconds_left, self._workers))
            ready = wait([worker.connection for worker in self._workers], seconds)
            for number, worker in enumerate(self._workers):
                if worker.connection in ready:
                    reports += self._receive(number, worker)
                elif worker.is_dead() and not worker.connection.poll():
                    reports += self._replace(number, worker, Failure("died", worker.death()))
                elif self._seconds_left(worker) == 0:
                    reports += self._replace(number, worker, time_limit_failure(self.round_timeout))
        return reports

    def close(self) -> None:
        """End every worker."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def _seconds_left(self, worker: Worker) -> float:
        """Return the seconds that it may still take."""
        if self.round_timeout is None or (worker.ready and worker.job is None):
            return math.inf
        limit = self.round_timeout if worker.ready else max(self.round_timeout, MIN_START_TIMEOUT_SECONDS)
        return max(0.0, worker.since + limit - time.monotonic())

    def _send(self, worker: Worker) -> None:
        if worker.ready and worker.job is None and worker.jobs:
            worker.job, worker.since = worker.jobs.popleft(), time.monotonic()
            with suppress(OSError):  # A broken pipe is noticed at the next read.
                worker.connection.send(worker.job)

    def _receive(self, number: int, worker: Worker) -> list[JobReport]:
        """Handle a worker's message, that it is ready or a report, or its broken pipe; return the reports."""
        try:
            message = worker.connection.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            return self._replace(number, worker, Failure("died", worker.death()))
        if isinstance(message, Failure):
            raise RunError(f"a worker cannot build agents: {message.text}\n{message.traceback}")
        if message == READY:
            worker.ready, self._early_deaths = True, 0
        else:
            worker.job = None
        self._send(worker)
        return [] if message == READY else [message]

    def _replace(self, number: int, worker: Worker, failure: Failure) -> list[JobReport]:
        """Replace a worker by a new one, and report on its job."""
        worker.end()
        if not worker.ready:
            fix = "in a script, call tune below `if __name__ == '__main__':`"
            self._count_early_death("workers", f"{failure.text} before their first job; {fix}")
        self._workers[number] = self.start(number)
        self._workers[number].jobs = worker.jobs
        return reports_of(worker.job, worker.since, failure)


def serve(connection: Connection, make_agent: MakeAgent, abandoned: threading.Event | None = None) -> None:
    """Do one job after another until there is None, or the pipe is closed."""
    pool = AgentPool(make_agent, abandoned)
    with suppress(EOFError, OSError):
        connection.send(READY)
        while (job := connection.recv()) is not None:
            connection.send(pool.do(job))
    pool.close()
    with suppress(OSError):
        connection.send(CLOSED)


class Threads(WorkerEngine):
    """An engine with threads: they share one accelerator, and one trains while another steps its environments.

    They share the global random generators too: the engine warns, once, if these were used while members trained.
    """

    _before: States | None = None
    _warned = False

    def submit(self, job: Job) -> None:
        """Queue a job for its member's worker."""
        self._watch()
        super().submit(job)

    def wait(self) -> list[JobReport]:
        """Wait as other engines do; then warn if a global generator was used meanwhile."""
        self._watch()
        reports = super().wait()
        if self._before is not None and (used := used_since(self._before)):
            self._warned = True
            warnings.warn(
                f"engine='threads' lets members share the global generator of {' and '.join(used)}, which was used "
                "while they trained: the same seed may not give the same history; use engine='processes', or draw "
                "from generators of the agent's own",
                PopbanditsWarning,
                stacklevel=2,
            )
        self._before = None  # Callbacks, which come next, may use them.
        return reports

    def _watch(self) -> None:
        """Read the states of the global generators, unless that was done since the last wait."""
        if len(self._workers) > 1 and not self._warned and self._before is None:
            self._before = read_states()

    def start(self, number: int) -> Worker:
        """Start a thread."""
        ours, theirs = Pipe()
        worker = Worker(ours)
        job = (theirs, self.make_agent, worker.abandoned)
        worker.thread = threading.Thread(target=serve, args=job, name=f"popbandits-{number}", daemon=True)
        worker.thread.start()
        return worker

    def close(self) -> None:
        """End every worker, and wait while those without a job close their agents."""
        # A thread that trains is abandoned. The others are quick, and what their agents hold, such as memory of a GPU,
        # is free for the next run; the end of the program would interrupt them.
        idle = [worker.thread for worker in self._workers if worker.job is None and worker.thread is not None]
        super().close()
        end = time.monotonic() + MAX_CLOSE_SECONDS
        for thread in idle:
            thread.join(max(0.0, end - time.monotonic()))


class ProcessWorker(Worker):
    """A process, in its own process group, with every process that its agents start."""

    def __init__(self, connection: Connection, process: Any, line: Connection):
        super().__init__(connection)
        self.process, self.line = process, line

    def is_dead(self) -> bool:
        """Tell whether its process has ended."""
        return not self.process.is_alive()

    def death(self) -> str:
        """Describe its exit status."""
        self.process.join(5)  # The pipe breaks a moment before the process ends.
        code = self.process.exitcode
        if code is None:
            return super().death()
        return f"its process was ended by signal {-code}" if code < 0 else f"its process ended with status {code}"

    def end(self) -> None:
        """Kill it and the processes that it started."""
        if self.connection.closed:
            return
        self.connection.close()
        if hasattr(os, "killpg"):  # Even if it died: processes that it started may still be in its group.
            with suppress(ProcessLookupError, PermissionError):  # The group is empty, or does not exist yet.
                os.killpg(self.process.pid, signal.SIGKILL)
        self.line.close()
        self.process.kill()
        self.process.join()
        self.process.close()


def pack(make_agent: MakeAgent) -> bytes:
    """Pickle a maker of agents for spawned processes; raise ArgumentError if they could not load it."""
    if (program := _program_without_file(make_agent)) is not None:
        raise ArgumentError(
            f"engine='processes' imports the agent's maker in other processes, got {make_agent!r} in {program}, which "
            "they cannot import; put it into a file, or use engine='threads'"
        )
    try:
        return pickle.dumps(make_agent)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ArgumentError(
            "engine='processes' sends the agent's maker to other processes, so it must be a function or class at "
            f"the top level of a module, got {make_agent!r} ({error}); move it there, or use engine='threads'"
        ) from None


def _program_without_file(make_agent: MakeAgent) -> str | None:
    """Name the program if spawned processes cannot import what they need of it; None if they can.

    They run its file first, if it claims to have one; without one, they can import anything but what it defines.
    """
    main = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is not None or getattr(sys, "frozen", False):
        return None
    if (file := getattr(main, "__file__", None)) is not None:
        began_in = getattr(multiprocessing.process, "ORIGINAL_DIR", None) or ""  # It may be elsewhere by now.
        return None if Path(began_in, file).is_file() else "a program from the standard input"
    while isinstance(make_agent, partial):
        make_agent = make_agent.func
    where = make_agent if hasattr(make_agent, "__qualname__") else type(make_agent)
    own = getattr(where, "__module__", None) == "__main__"
    return "a notebook, an interactive session or python -c" if own else None


class Processes(WorkerEngine):
    """An engine with long-lived spawned processes; if there are several GPUs, each process sees one, in turn."""

    def __init__(self, make_agent: MakeAgent, workers: int, round_timeout: float | None = None):
        self._packed = pack(make_agent)
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

    def close(self) -> None:
        """End every worker, after those without a job have closed their agents."""
        idle = [worker.connection for worker in self._workers if worker.ready and worker.job is None]
        closing = [connection for connection in idle if not connection.closed]
        try:
            for connection in closing:
                with suppress(OSError):  # It has died.
                    connection.send(None)
            end = time.monotonic() + MAX_CLOSE_SECONDS
            while closing and (left := end - time.monotonic()) > 0:
                answered = wait(closing, left)
                closing = [connection for connection in closing if connection not in answered]
        finally:
            super().close()


def _serve_alone(connection: Connection, line: Connection, packed: bytes) -> None:
    """Run a worker process."""
    if hasattr(os, "setsid"):
        os.setsid()
    end_with(line)
    # Ctrl-C is for the driver; one raised here is an agent's. So is SIGTERM, though managers of services and of jobs
    # on a cluster send it to every process: the driver lets what is in training end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: None)
    if hasattr(os, "register_at_fork"):  # Windows has none.
        _let_sigterm_end_forks()
    try:
        make_agent = pickle.loads(packed)
    except BaseException as error:
        connection.send(Failure("raised", describe_error(error)))
        return
    serve(connection, make_agent)


def _let_sigterm_end_forks() -> None:
    """Let SIGTERM end what agents fork from now on, however early it comes; new programs inherit no handler anyway."""
    masks = threading.local()

    def before() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def in_parent() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def in_child() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        in_parent()

    os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)


def visible_gpus(environment: Mapping[str, str], known: Path = Path("/proc/driver/nvidia/gpus")) -> Sequence[str]:
    """List the GPUs that this process may use, as named in CUDA_VISIBLE_DEVICES."""
    if "CUDA_VISIBLE_DEVICES" in environment:
        return [name for name in environment["CUDA_VISIBLE_DEVICES"].split(",") if name.strip()]
    return [str(number) for number in range(len(list(known.iterdir())))] if known.is_dir() else []
