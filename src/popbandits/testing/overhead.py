"""The cost of a run besides its agents, measured on a short run whose agents do nothing."""

import time
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from popbandits.agent import MakeAgent
from popbandits.engines.workers import Processes
from popbandits.history import Observation
from popbandits.run import View, tune

SPACE = {"x": (0.0, 1.0)}
MEMBERS, ROUNDS = 2, 4


class IdleAgent:
    """An agent that does nothing."""

    def train(self, config: dict[str, Any]) -> float:
        """Return a score."""
        return 0.0

    def save(self, directory: Path) -> None:
        """Make an empty folder; without anything a run warns."""
        (directory / "idle").mkdir()

    def load(self, directory: Path) -> None:
        """Read nothing."""


class _Clock(View):
    """Times the intervals of a run."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.trained = 0.0

    def told(self, observation: Observation) -> None:
        """Note the time at the end of an interval."""
        self.ends.append(time.perf_counter())
        if len(self.ends) > MEMBERS:
            self.trained += observation.seconds or 0.0


@cache
def time_idle_run() -> tuple[float, float]:
    """Return the seconds of a run whose agents do nothing: to open and close it, and for each interval.

    An interval is decided and recorded, and checkpoints are moved and removed. It is measured once in a process, in the
    system's temporary folder and with the default method. What the first round takes longer counts as opening.
    """
    clock = _Clock()
    with TemporaryDirectory(prefix="popbandits-check-", ignore_cleanup_errors=True) as folder:
        begun = time.perf_counter()
        # An agent without a name that can be imported: nothing is signed for this run.
        tune(lambda seed: IdleAgent(), SPACE, population=MEMBERS, rounds=ROUNDS, directory=folder, progress=clock)
        whole = time.perf_counter() - begun
    counted = clock.ends[MEMBERS - 1 :]
    if len(counted) < 2:  # A Ctrl-C stopped the run.
        raise KeyboardInterrupt
    interval = max(0.0, (counted[-1] - counted[0] - clock.trained) / (len(counted) - 1))
    return max(0.0, whole - clock.trained - MEMBERS * ROUNDS * interval), interval


def time_process(make_agent: MakeAgent, folder: Path) -> float:
    """Return the seconds that a worker process takes to start, with the imports of the agent's module."""
    Processes(make_agent, workers=0).close()  # Raises if it cannot be sent to a process.
    started = time.perf_counter()
    make = partial(_make_idle, make_agent)
    tune(make, SPACE, population=1, rounds=1, engine="processes", directory=folder / "process", progress=False)
    return time.perf_counter() - started


def _make_idle(make_agent: MakeAgent, seed: int) -> IdleAgent:
    """Build an agent that does nothing, in a process that has imported what builds the user's."""
    return IdleAgent()
