"""The progress of a run, which views draw: the state of every member, the best, the pace."""

import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from popbandits.advice import advise
from popbandits.basics.arithmetic import mean
from popbandits.basics.records import merit
from popbandits.basics.wording import counted, first_line
from popbandits.errors import HistoryError
from popbandits.history import Assignment, Decision, Event, Key, Observation
from popbandits.population import Population
from popbandits.views.view import View

State = Literal["training", "waiting", "idle", "failed", "done"]

EVALUATION_WORDS = {"evaluating": "Evaluating", "evaluated": "Handed over:", "unevaluated": "Warning:"}
"""First words of what is said of an evaluation, by the kind of its event."""


@dataclass
class Member:
    """The state of a member."""

    number: int
    last: Observation | None = None
    """Its last interval that ended."""
    completed: Observation | None = None
    """Its last interval that completed."""
    next: Assignment | None = None
    """Its pending assignment, in training or waiting for a worker."""


class Progress(View):
    """A view that follows a run at almost no cost: figures are computed when they are read.

    Readers in another thread must hold `lock`. It is reentrant, since a Ctrl-C is reported by a signal handler, which
    may interrupt any line.
    """

    def __init__(self, workers: int | None = None):
        self.workers = workers
        """Number of members that train at a time; None for all."""
        self.lock = threading.RLock()
        self.members: list[Member] = []
        self.best: Observation | None = None
        self.failures: deque[Event] = deque(maxlen=3)
        self.failed = 0
        self.deciding: float | None = None
        """Seconds taken by the last decisions."""
        self._given: dict[Key, None] = {}  # pending intervals, in the order of their decisions
        self.ending: Literal["", "stopping", "stopped", "finished"] = ""
        self.reason = ""
        """Why a callback stopped it."""
        self.evaluation = ""
        """What is said of the evaluation of candidates: its extent, then its result."""

    def opened(self, population: Population, directory: Path) -> None:
        """Read the history so far."""
        history = population.history
        self.population, self.directory = population, directory
        method = type(getattr(population.method, "plain", population.method)).__name__
        tunes = population.size > 1 or (population.explore == "all" and not population.space.fixed)
        self.who = f"{method}, {counted(population.size, 'member')}" if tunes else "one agent, nothing tuned"
        self.sign = history.sign
        self.begun = self.told_at = time.monotonic()
        self.done_before = self.done = len(history)
        self.total = None if population.rounds is None else population.size * population.rounds
        self.best = history.best
        for number in range(population.size):
            self.members.append(Member(number, history.latest(number), history.last_completed(number)))

    def asked(self, decisions: Sequence[Decision]) -> None:
        """Note the new assignments."""
        with self.lock:
            for assignment in (decision.assignment for decision in decisions):
                self.members[assignment.member].next = assignment
                if not self.ending:
                    self._given[assignment.key] = None
            seconds = [decision.seconds for decision in decisions if decision.seconds is not None]
            if seconds:
                self.deciding = sum(seconds)

    def told(self, observation: Observation) -> None:
        """Note the end of an interval."""
        with self.lock:
            member = self.members[observation.member]
            member.last, member.next = observation, None
            self._given.pop(observation.key, None)
            self.done += 1
            self.told_at = time.monotonic()
            if observation.failed:
                self.failed += 1
                return
            member.completed = observation
            if self.best is None or merit(observation, self.sign) > merit(self.best, self.sign):
                self.best = observation

    def happened(self, event: Event) -> None:
        """Note a failure, or the end of the run."""
        with self.lock:
            if event.member is not None:
                self.failures.append(event)
            elif event.kind in EVALUATION_WORDS:
                self.evaluation = f"{EVALUATION_WORDS[event.kind]} {first_line(event.text)}."
            elif event.kind in ("stopping", "stopped", "finished"):
                self.ending = event.kind  # type: ignore[assignment]
                self.reason = str(event.data.get("reason", ""))
                if self.ending == "stopped":
                    self._given.clear()

    # Figures

    @property
    def mean(self) -> float:
        """Mean of the members' last scores."""
        scores = [member.completed.score for member in self.members if member.completed is not None]
        return mean(scores) if scores else math.nan

    @property
    def elapsed(self) -> float:
        """Seconds since the run was opened."""
        return time.monotonic() - self.begun

    @property
    def left(self) -> float | None:
        """Estimated seconds left, at the pace so far; None if unknown."""
        done = self.done - self.done_before
        if self.total is None or not done:
            return None
        pace = (self.told_at - self.begun) / done
        return max(0.0, pace * (self.total - self.done) - (time.monotonic() - self.told_at))

    def warnings(self) -> list[str]:
        """List the warnings about the history."""
        try:
            return [one.text for one in advise(self.population.history)]
        except (HistoryError, OSError):  # A disk error, which the run itself reports.
            return []

    def states(self) -> list[State]:
        """Return the state of every member."""
        rounds = self.population.rounds
        training = self._training()
        found: list[State] = []
        for member in self.members:
            if member.next is not None:
                found.append("training" if member.next.key in training else "waiting")
            elif member.last is not None and member.last.failed:
                found.append("failed")
            elif member.last is not None and rounds is not None and member.last.round + 1 >= rounds:
                found.append("done")
            else:
                found.append("idle")
        return found

    def _training(self) -> set[Key]:
        """Return the intervals in training: for each worker, the first pending one of its members."""
        heads: dict[int, Key] = {}
        workers = self.workers or len(self.members)
        for key in self._given:
            heads.setdefault(key[0] % workers, key)
        return set(heads.values())

    def ranking(self) -> list[int]:
        """Rank members by their last completed interval, the best first; those without one come last."""
        done = [member.completed for member in self.members if member.completed is not None]
        done.sort(key=lambda o: merit(o, self.sign), reverse=True)
        return [o.member for o in done] + [member.number for member in self.members if member.completed is None]


def copied_from(member: int, parent: Key | None) -> int | None:
    """Return the member whose weights were copied; None if it continues with its own, or starts afresh."""
    return None if parent is None or parent[0] == member else parent[0]
