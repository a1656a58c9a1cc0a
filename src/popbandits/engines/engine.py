"""The contract of an engine: who does jobs, where; and the simplest one, which does them itself."""

from abc import ABC, abstractmethod
from collections import deque

from popbandits.agent import MakeAgent
from popbandits.engines.work import Bench, Job, Report


class Engine(ABC):
    """Does jobs and reports on each exactly once, whatever happens to agents and workers."""

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Take a job; jobs of one member follow one another."""

    @abstractmethod
    def wait(self) -> list[Report]:
        """Reports on jobs that ended, at least one; none only if there is nothing to do."""

    @abstractmethod
    def close(self) -> None:
        """End everything at once; jobs that are not done are forgotten."""


class InProcess(Engine):
    """One job after another, in the calling thread: nothing to set up, and debuggers and profilers see everything."""

    def __init__(self, make_agent: MakeAgent):
        self._bench = Bench(make_agent)
        self._jobs: deque[Job] = deque()

    def submit(self, job: Job) -> None:
        """Queue it."""
        self._jobs.append(job)

    def wait(self) -> list[Report]:
        """Do the first of the queue."""
        return [self._bench.do(self._jobs.popleft())] if self._jobs else []

    def close(self) -> None:
        """Let the agents go."""
        self._jobs.clear()
        self._bench.close()
