"""The contract of an engine, which does jobs, and the simplest engine, which does them in the calling thread."""

from abc import ABC, abstractmethod
from collections import deque

from popbandits.agent import MakeAgent
from popbandits.engines.work import AgentPool, Job, JobReport, describe_error
from popbandits.errors import ArgumentError, RunError

MAX_EARLY_DEATHS = 5
"""Number of workers in a row that may die before a first job; the last one ends the run."""
MAX_CLOSE_SECONDS = 15.0
"""Maximum seconds for which the end of an engine waits while workers close their agents."""


class Engine(ABC):
    """An engine does jobs and reports on each exactly once, whatever happens to agents and workers."""

    def __init__(self) -> None:
        self._queue: deque[Job] = deque()
        self._early_deaths = 0  # in a row

    def submit(self, job: Job) -> None:
        """Queue a job; a member has one job at a time."""
        self._queue.append(job)

    def _count_early_death(self, workers: str, what: str) -> None:
        """Count a worker that died before its first job; raise if too many did in a row."""
        self._early_deaths += 1
        if self._early_deaths >= MAX_EARLY_DEATHS:
            raise RunError(f"{workers} must be able to start, got {MAX_EARLY_DEATHS} in a row that {what}")

    @abstractmethod
    def wait(self) -> list[JobReport]:
        """Wait until a job ends, and return the reports on all that ended; none only if there are no jobs."""

    @abstractmethod
    def close(self) -> None:
        """End everything at once; unfinished jobs are dropped."""


def unpicklable(engine: str, make_agent: MakeAgent, error: Exception) -> ArgumentError:
    """Return the error for a maker of agents that cannot be sent to other processes."""
    return ArgumentError(
        f"engine={engine!r} sends the agent's maker to other processes, got {make_agent!r}, which cannot be pickled "
        f"({describe_error(error)}); build what it holds inside the function"
    )


class InProcess(Engine):
    """An engine that does one job after another in the calling thread; debuggers and profilers see everything."""

    def __init__(self, make_agent: MakeAgent):
        super().__init__()
        self._pool = AgentPool(make_agent)

    def wait(self) -> list[JobReport]:
        """Do the first job of the queue."""
        return [self._pool.do(self._queue.popleft())] if self._queue else []

    def close(self) -> None:
        """Close the agents."""
        self._queue.clear()
        self._pool.close()
