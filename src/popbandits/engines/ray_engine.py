"""An engine whose workers are Ray actors: on this machine, or on the cluster that Ray is connected to.

It requests as many actors as members may train at a time. Those that get their resources do the jobs of any member. So
a cluster that is too small is only slower, and one that grows is used as it grows. An agent stays with its actor as
long as that is free: every interval begins with a checkpoint, so any actor can do any job.
"""

import io
import math
import os
import shutil
import tarfile
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from popbandits.agent import MakeAgent
from popbandits.basics.extras import library
from popbandits.basics.scratch import scratch
from popbandits.basics.settings import Resources
from popbandits.engines.engine import MAX_CLOSE_SECONDS, Engine, unpicklable
from popbandits.engines.spawning import Watchdog
from popbandits.engines.work import AgentPool, Failure, Job, JobReport, reports_of, time_limit_failure
from popbandits.errors import CheckpointError
from popbandits.storage.checkpoints import CHECKPOINTS, verify
from popbandits.storage.disk import required, resume_command


class Host:
    """The class that an actor runs."""

    def __init__(self, make_agent: MakeAgent):
        self._pool = AgentPool(make_agent)

    def ready(self, marker: Path) -> tuple[str, bool]:
        """Return the actor's node, and whether it sees the run's folder."""
        import ray

        return ray.get_runtime_context().get_node_id(), marker.exists()

    def do(self, job: Job) -> JobReport:
        """Do a job in the run's folder."""
        return self._pool.do(job)

    def close(self) -> None:
        """Close the agents."""
        self._pool.close()

    def do_apart(self, job: Job, source: bytes | None) -> tuple[JobReport, bytes | None]:
        """Do a job without access to the run's folder: checkpoints are sent as bytes."""
        with scratch() as folder:
            if source is not None:
                unpack(source, folder / "source")
            here = replace(job, source=None if source is None else folder / "source", draft=folder / "draft")
            report = self._pool.do(here)
            return report, pack(here.draft) if report.outcome is not None and job.evaluation is None else None


@dataclass(eq=False)  # Each is itself, also if it looks like another.
class RayWorker:
    """An actor, as its engine sees it."""

    actor: Any
    coming: Any
    """Reference to its next answer: that it is ready, or a report; None if it has nothing to do."""
    lost_before: frozenset[str]
    """Nodes that were lost already when it was requested."""
    is_unreachable: bool = False
    """True if it was unreachable during its job, and has been asked if it is still alive."""
    job: Job | None = None
    since: float = 0.0
    """Time at which its job was sent."""
    node: str | None = None
    """Its node; None until it is ready."""
    sees_folder: bool = False


class RayEngine(Engine):
    """An engine with long-lived actors. One that dies is replaced; if its node was lost, its job is done again."""

    def __init__(
        self,
        make_agent: MakeAgent,
        workers: int,
        directory: Path,
        resources: Resources | None = None,
        round_timeout: float | None = None,
    ):
        super().__init__()
        self._ray = ray = library("ray", "ray", "engine='ray'")
        self._started_ray = not ray.is_initialized()
        if self._started_ray:  # It connects to the cluster of RAY_ADDRESS, or starts one on this machine.
            ray.init(include_dashboard=False, log_to_driver=False)
        self.round_timeout = round_timeout
        self._homes: dict[int, RayWorker] = {}  # by member: where it trained last
        self._workers: list[RayWorker] = []
        # A temporary name among the checkpoints: if the run is killed, it is removed on resume.
        self._marker = directory.resolve() / CHECKPOINTS / f"seen-{uuid.uuid4().hex}-0"
        self._marker.mkdir(parents=True)
        # Ray ends this process at once, from C++, if the raylet of this machine dies.
        self._watchdog = Watchdog(
            "popbandits: the run's process ended while it was connected to Ray. If Ray says above that a raylet was "
            "terminated, it was this machine's, often for lack of memory, and Ray then ends every process that is "
            f"connected to it. Everything so far is in {directory}; resume it with: {resume_command(directory)}"
        )
        try:
            self._make_agent = ray.put(make_agent)
        except TypeError as error:
            self.close()
            raise unpicklable("ray", make_agent, error) from None
        self._host: Any = ray.remote(**_options(resources or {}))(Host)
        self._workers += [self._start() for _ in range(workers)]

    def wait(self) -> list[JobReport]:
        """Wait until a job is done, an actor dies, or one is past its deadline; return the reports."""
        reports: list[JobReport] = []
        while not reports and (self._queue or any(worker.job for worker in self._workers)):
            reports += self._send()
            coming = {worker.coming: worker for worker in self._workers if worker.coming is not None}
            seconds = 0.0 if reports else min(map(self._seconds_left, self._workers))
            done, _ = self._ray.wait(list(coming), timeout=None if seconds == math.inf else seconds)
            for answer in done:
                reports += self._receive(coming[answer])
            for worker in [worker for worker in self._workers if self._seconds_left(worker) == 0]:
                reports += self._replace(worker, time_limit_failure(self.round_timeout))
        return reports

    def close(self) -> None:
        """End every actor, after those without a job have closed their agents, and Ray if this engine started it."""
        idle = [worker for worker in self._workers if worker.node is not None and worker.coming is None]
        if closing := [worker.actor.close.remote() for worker in idle]:
            self._ray.wait(closing, num_returns=len(closing), timeout=MAX_CLOSE_SECONDS)
        # Those that still wait for resources first: if the end of another gave them theirs at the moment that they are
        # killed, Ray (2.60) would keep these resources until the program ends.
        for worker in sorted(self._workers, key=lambda worker: worker.node is not None):
            self._ray.kill(worker.actor)
        self._workers.clear()
        self._queue.clear()
        self._watchdog.dismiss()
        with suppress(OSError):
            self._marker.rmdir()
        if self._started_ray:
            self._ray.shutdown()

    # Actors

    def _start(self) -> RayWorker:
        lost = frozenset(self._nodes(alive=False))
        actor = self._host.remote(self._make_agent)
        return RayWorker(actor, actor.ready.remote(self._marker), lost)

    def _replace(self, worker: RayWorker, failure: Failure) -> list[JobReport]:
        """Replace an actor by a new one, and report on its job."""
        self._ray.kill(worker.actor)
        self._workers[self._workers.index(worker)] = self._start()
        self._homes = {member: home for member, home in self._homes.items() if home is not worker}
        return reports_of(worker.job, worker.since, failure)

    def _seconds_left(self, worker: RayWorker) -> float:
        """Return the seconds that its job may still take. Waiting for resources has no limit."""
        if self.round_timeout is None or worker.job is None:
            return math.inf
        return max(0.0, worker.since + self.round_timeout - time.monotonic())

    def _send(self) -> list[JobReport]:
        """Send jobs to free actors, if possible to those that have the member's agent; return reports on the jobs
        whose checkpoint cannot be read."""
        reports: list[JobReport] = []
        free = [worker for worker in self._workers if worker.node is not None and worker.job is None]
        while self._queue and free:
            job = self._queue.popleft()
            member = job.assignment.member
            home = self._homes.get(member)
            worker = home if home in free else free[0]
            try:
                worker.coming = self._begin(worker, job)
            except CheckpointError as error:
                reports.append(JobReport(job.assignment.key, 0.0, Failure("lost", str(error))))
                continue
            free.remove(worker)
            worker.job, worker.since, self._homes[member] = job, time.monotonic(), worker
        return reports

    def _begin(self, worker: RayWorker, job: Job) -> Any:
        if worker.sees_folder:
            return worker.actor.do.remote(job)
        if job.source is None:
            return worker.actor.do_apart.remote(job, None)
        verify(job.source)
        with required("read", job.source):
            content = pack(job.source)
        return worker.actor.do_apart.remote(job, self._ray.put(content))

    # Answers

    def _receive(self, worker: RayWorker) -> list[JobReport]:
        """Handle an actor's answer, that it is ready or a report, or its death; return the reports."""
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(worker.coming)
        except errors.RayTaskError as error:
            return self._replace(worker, Failure("raised", f"{type(error).__name__}: {error}"[:1000]))
        except errors.ActorUnavailableError:  # Ray does not know yet whether it or its node is dead.
            worker.is_unreachable, worker.coming = (worker.job is not None, worker.actor.ready.remote(self._marker))
            return []
        except errors.RayError as error:  # It died, alone or with its node.
            if self._is_node_lost(worker):
                self._put_back(worker)
            elif worker.node is None:
                self._count_early_death("Ray's actors", f"died first: {error}")
            return self._replace(worker, Failure("died", f"its actor died: {str(error).splitlines()[0]}"))
        worker.coming = None
        if worker.node is None:
            (worker.node, worker.sees_folder), self._early_deaths = answer, 0
            return []
        if worker.is_unreachable:
            self._put_back(worker)
            return self._replace(worker, Failure("died", "its actor is alive, but its report was lost"))
        job, worker.job = worker.job, None
        assert job is not None
        if worker.sees_folder:
            return [answer]
        report, content = answer
        if content is not None:
            with required("write to", job.draft):
                unpack(content, job.draft)
            verify(job.draft)
        return [report]

    def _is_node_lost(self, worker: RayWorker) -> bool:
        if worker.node is not None:
            return worker.node not in self._nodes(alive=True)
        # It died before it could report its node.
        return not self._nodes(alive=False) <= worker.lost_before

    def _put_back(self, worker: RayWorker) -> None:
        """Queue an actor's job again. No agent is at fault, so that no failure is recorded."""
        if worker.job is not None:
            self._ray.kill(worker.actor)
            shutil.rmtree(worker.job.draft, ignore_errors=True)
            self._queue.appendleft(worker.job)
            worker.job = None

    def _nodes(self, alive: bool) -> set[str]:
        return {node["NodeID"] for node in self._ray.nodes() if node["Alive"] is alive}


def _options(resources: Resources) -> dict[str, Any]:
    custom = {name: amount for name, amount in resources.items() if name not in ("cpus", "gpus")}
    return {"num_cpus": resources.get("cpus", 1), "num_gpus": resources.get("gpus", 0), "resources": custom}


def pack(folder: Path) -> bytes:
    """Return a folder as bytes."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.add(folder, arcname=".")
    return content.getvalue()


def unpack(content: bytes, folder: Path) -> None:
    """Write a folder from the bytes of `pack`, and flush it to the disk."""
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb+") as file, suppress(OSError):
                os.fsync(file)
