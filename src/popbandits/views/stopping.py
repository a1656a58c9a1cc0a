"""Reasons to stop a run before its last round, as callbacks. A run that was stopped can be resumed."""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from popbandits.basics.rules import Rule, real, whole
from popbandits.basics.wording import duration, number
from popbandits.history import Decision, History, Key, Observation
from popbandits.population import Population
from popbandits.views.view import View

_EXACT = 1e-9
"""Relative difference up to which sums of costs are equal."""


class StopAfter(View):
    """Stop a run before some time has passed since it was opened; a resumed run has all of it again.

    Nothing begins that would not end in time, judged by how long each member's last interval took since it was decided,
    with its wait for a worker. So what begins first, of which nothing is known yet, may still end late; leave room for
    one interval of every member if a job has a strict limit.

    Args:
        seconds: Time after which nothing is to train.
    """

    def __init__(self, seconds: float):
        real("above 0 seconds", lambda value: value > 0).check("seconds", seconds)
        self.seconds = seconds
        self._now = time.monotonic

    def opened(self, population: Population, directory: Path) -> None:
        """Start the clock."""
        self._end = self._now() + self.seconds
        self._synchronous = population.synchronous
        self._asked: dict[Key, float] = {}  # when the pending intervals were decided
        self._took: dict[int, float] = {}  # by member: seconds from the decision to the end of its last interval

    def asked(self, decisions: Sequence[Decision]) -> None:
        """Note when intervals begin."""
        now = self._now()
        self._asked |= {decision.assignment.key: now for decision in decisions}

    def told(self, observation: Observation) -> None:
        """Note how long an interval took."""
        now = self._now()
        self._took[observation.member] = now - self._asked.pop(observation.key, now)

    def stop(self) -> str | None:
        """Return the reason when the time is over, or too short for what would begin now."""
        now = self._now()
        if now >= self._end:
            return f"{self.seconds:g} seconds are over"
        waits = self._synchronous and self._asked  # Nothing begins before the round has ended.
        longest = 0.0 if waits else max(self._took.values(), default=0.0)
        if now + longest <= self._end:
            return None
        return f"the next intervals take about {duration(longest)}, and {duration(self._end - now)} are left"


class StopWhen(View):
    """Stop a run when a function of its history says so.

    >>> from popbandits import History
    >>> def enough(history):
    ...     return len(history) >= 100 and "100 intervals are enough"
    >>> enough(History({"x": (0.0, 1.0)}))
    False
    >>> callbacks = [StopWhen(enough)]

    Args:
        function: Function of the `History` that returns True, or the reason as text, to stop the run.
    """

    def __init__(self, function: Callable[[History], Any]):
        Rule(callable, "callable: it takes the history", "give a function").check("function", function)
        self.function = function

    def opened(self, population: Population, directory: Path) -> None:
        """Keep the history, which grows as the run goes on."""
        self._history = population.history

    def stop(self) -> str | None:
        """Return what the function says."""
        said = self.function(self._history)
        if isinstance(said, str):
            return said
        return f"{getattr(self.function, '__name__', 'a callback')} says so" if said else None


class StopAtScore(StopWhen):
    """Stop a run when its best score is as good as this: at least in mode "max", at most in mode "min".

    Args:
        score: Score that is good enough.
    """

    def __init__(self, score: float):
        real("a finite number").check("score", score)
        self.score = score
        super().__init__(self._reached)

    def _reached(self, history: History) -> str | None:
        best = history.best
        if best is None or history.sign * best.score < history.sign * self.score:
            return None
        return f"the score {number(best.score)} of member {best.member}, round {best.round}, is as good as asked for"


class StopOnPlateau(View):
    """Stop a run when the best score has not become better for some rounds.

    It is judged by rounds that every member has finished, so it does not matter who is faster.

    Args:
        rounds: Number of rounds without progress.
        min_change: Change of the best score for the better, within them, above which it is progress. Default 0.0.
    """

    def __init__(self, rounds: int, min_change: float = 0.0):
        whole(1).check("rounds", rounds)
        real("at least 0", lambda value: value >= 0).check("min_change", min_change)
        self.rounds, self.min_change = rounds, min_change

    def opened(self, population: Population, directory: Path) -> None:
        """Take in what happened before."""
        self._sign, self._size = population.history.sign, population.size
        self._best: list[float] = []  # of each round, turned so that more is better
        self._finished: list[int] = []  # members that have finished each round
        for observation in population.history:
            self.told(observation)

    def told(self, observation: Observation) -> None:
        """Keep the best score of its round."""
        missing = observation.round + 1 - len(self._best)
        self._best += [-math.inf] * missing
        self._finished += [0] * missing
        self._finished[observation.round] += 1
        if not observation.failed:
            self._best[observation.round] = max(self._best[observation.round], self._sign * observation.score)

    def stop(self) -> str | None:
        """Return the reason when the last rounds brought nothing."""
        whole_rounds = sum(count == self._size for count in self._finished)  # A member's rounds follow one another.
        before = max(self._best[: max(0, whole_rounds - self.rounds)], default=-math.inf)
        if before == -math.inf:
            return None
        gained = max(0.0, max(self._best[:whole_rounds]) - before)
        return None if gained > self.min_change else f"no progress in {self.rounds} rounds"


class StopAtCost(View):
    """Stop a run before it has spent more than a limit; a resumed run counts what was spent before. See `max_cost`.

    Nothing begins that would exceed it, judged by the mean cost of an interval so far; the first ones always begin.

    Args:
        cost: The limit, in the unit of the metric `cost` that agents report, or in seconds if they report none.
    """

    def __init__(self, cost: float):
        self.cost = cost

    def opened(self, population: Population, directory: Path) -> None:
        """Count what was spent before."""
        self._population = population
        # Number and sum of the intervals that said what they cost.
        self._known: dict[str, list[float]] = {"cost": [0, 0.0], "seconds": [0, 0.0]}
        for observation in population.history:
            self.told(observation)

    def told(self, observation: Observation) -> None:
        """Count what an interval cost."""
        for name, known in self._known.items():
            if (cost := getattr(observation, name)) is not None:
                known[0], known[1] = known[0] + 1, known[1] + cost

    def stop(self) -> str | None:
        """Return the reason when the limit is reached, or too near for what would begin now."""
        population = self._population
        number_known, total = self._known["cost"] if self._known["cost"][0] else self._known["seconds"]
        if not number_known:
            return None
        mean = total / number_known  # also of intervals that failed before they could report
        spent = mean * len(population.history)
        if spent >= self.cost * (1 - _EXACT):
            return f"the run has cost {number(spent)}, and max_cost is {number(self.cost)}"
        # A synchronous round begins as a whole. Otherwise the others are in training when one begins.
        within_round = population.synchronous and len(population.history) % population.size
        if within_round or spent + mean * population.size <= self.cost * (1 + _EXACT):
            return None
        left = self.cost - spent
        return f"the next intervals cost about {number(mean * population.size)}, and {number(left)} of max_cost is left"
