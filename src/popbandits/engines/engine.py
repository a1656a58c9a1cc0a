"""The contract of an engine, which does jobs, and the simplest engine, which does them in the calling thread."""

from abc import ABC, abstractmethod
from collections import deque

from popbandits.agent import MakeAgent
from popbandits.engines.work import Bench, Job, Report


class Engine(ABC):
    """An engine does jobs and reports on each exactly once, whatever happens to agents and workers."""

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Accept a job; a member has one job at a time."""

    @abstractmethod
    def wait(self) -> list[Report]:
        """Wait until a job ends, and return the reports on all that ended; none only if there are no jobs."""

    @abstractmethod
    def close(self) -> None:
        """End everything at once; unfinished jobs are dropped."""


class InProcess(Engine):
    """An engine that does one job after another in the calling thread; debuggers and profilers see everything."""

    def __init__(self, make_agent: MakeAgent):
        self._bench = Bench(make_agent)
        self._jobs: deque[Job] = deque()

    def submit(self, job: Job) -> None:
        """Queue a job."""
        self._jobs.append(job)

    def wait(self) -> list[Report]:
        """Do the first job of the queue."""
        return [self._bench.do(self._jobs.popleft())] if self._jobs else []

    def close(self) -> None:
        """Close the agents."""
        self._jobs.clear()
        self._bench.close()
