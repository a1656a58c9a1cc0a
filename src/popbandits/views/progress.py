"""What there is to show of a run: where every member stands, the best, the pace. Views draw from it."""

import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from popbandits.advice import advise
from popbandits.errors import HistoryError
from popbandits.history import Assignment, Decision, Event, Key, Observation
from popbandits.population import Population
from popbandits.records import merit
from popbandits.views.view import View

State = Literal["training", "waiting", "idle", "failed", "done"]


@dataclass
class Member:
    """Where a member stands."""

    number: int
    last: Observation | None = None
    """Its last interval that ended."""
    completed: Observation | None = None
    """Its last interval that completed."""
    next: Assignment | None = None
    """What it trains, or will when a worker is free."""


class Progress(View):
    """Follows a run, at next to no cost: the figures are made when somebody looks.

    Whoever looks from another thread holds `lock` meanwhile. It can be taken twice by one thread, since a Ctrl-C is
    reported by a signal handler, which may interrupt any line.
    """

    def __init__(self, workers: int | None = None):
        self.workers = workers
        """How many members train at a time; None if all do."""
        self.lock = threading.RLock()
        self.members: list[Member] = []
        self.best: Observation | None = None
        self.failures: deque[Event] = deque(maxlen=3)
        self.failed = 0
        self.fallbacks = 0
        self.deciding: float | None = None
        """Seconds that the last decisions took."""
        self._given: dict[Key, None] = {}  # what is in training or waits for it, in the order in which it was asked
        self.ending: Literal["", "stopping", "stopped", "finished"] = ""
        self.reason = ""
        """Why a callback stopped it."""

    def opened(self, population: Population, directory: Path) -> None:
        """Take in what happened before."""
        history = population.history
        self.population, self.directory = population, directory
        self.method = type(getattr(population.method, "plain", population.method)).__name__
        self.sign = history.sign
        self.begun = self.told_at = time.monotonic()
        self.done_before = self.done = len(history)
        self.total = None if population.rounds is None else population.size * population.rounds
        self.best = history.best
        for number in range(population.size):
            self.members.append(Member(number, history.latest(number), history.last_completed(number)))

    def asked(self, decisions: Sequence[Decision]) -> None:
        """Members have something to do."""
        with self.lock:
            for assignment in (decision.assignment for decision in decisions):
                self.members[assignment.member].next = assignment
                if not self.ending:
                    self._given[assignment.key] = None
            self.fallbacks += sum(decision.assignment.decision.get("fallback") is not None for decision in decisions)
            seconds = [decision.seconds for decision in decisions if decision.seconds is not None]
            if seconds:
                self.deciding = sum(seconds)

    def told(self, observation: Observation) -> None:
        """A member has done it."""
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
        """A failure, or the end."""
        with self.lock:
            if event.member is not None:
                self.failures.append(event)
            elif event.kind in ("stopping", "stopped", "finished"):
                self.ending = event.kind  # type: ignore[assignment]
                self.reason = str(event.data.get("reason", ""))
                if self.ending == "stopped":
                    self._given.clear()

    # Figures

    @property
    def mean(self) -> float:
        """The mean over members of their last scores."""
        scores = [member.completed.score for member in self.members if member.completed is not None]
        return sum(scores) / len(scores) if scores else math.nan

    @property
    def elapsed(self) -> float:
        """Seconds since it was opened."""
        return time.monotonic() - self.begun

    @property
    def left(self) -> float | None:
        """Seconds that the rest will take at the pace so far; None if nobody can tell."""
        done = self.done - self.done_before
        if self.total is None or not done:
            return None
        pace = (self.told_at - self.begun) / done
        return max(0.0, pace * (self.total - self.done) - (time.monotonic() - self.told_at))

    def warnings(self) -> list[str]:
        """Say what the history warns of."""
        try:
            return [one.text for one in advise(self.population.history, type(self.population.selection).__name__)]
        except (HistoryError, OSError):  # The disk's fault, and not for a view to complain of.
            return []

    def states(self) -> list[State]:
        """What every member is doing."""
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
        """Of each worker's members, the one that it was given first."""
        heads: dict[int, Key] = {}
        workers = self.workers or len(self.members)
        for key in self._given:
            heads.setdefault(key[0] % workers, key)
        return set(heads.values())

    def ranking(self) -> list[int]:
        """Members by their last completed interval, the best first; those without one last."""
        done = [member.completed for member in self.members if member.completed is not None]
        done.sort(key=lambda o: merit(o, self.sign), reverse=True)
        return [o.member for o in done] + [member.number for member in self.members if member.completed is None]


def copied_from(member: int, parent: Key | None) -> int | None:
    """Whose weights it took; None if it goes on with its own, or starts afresh."""
    return None if parent is None or parent[0] == member else parent[0]
