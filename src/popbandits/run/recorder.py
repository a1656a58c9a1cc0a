"""A population with its record: everything is on disk before it is used."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from popbandits.basics.records import Assignment, Decision, Event, Observation
from popbandits.population import Population
from popbandits.storage import Store


class Recorder:
    """Asks and tells a population, and commits each decision and result, with its time, before it is used.

    It raises WriteError if the disk refuses; the run can be resumed from the last commit.

    Args:
        population: The population of the run.
        store: The run's file.
        committed: Function to call after each commit. Default: none.
    """

    def __init__(self, population: Population, store: Store, committed: Callable[[Store], None] = lambda store: None):
        self.population, self.store, self._committed = population, store, committed
        self.decided: list[Decision] = []
        """Decisions of the last `ask`, with their times, in the order of its assignments."""

    def ask(self) -> list[Assignment]:
        """Ask the population and return its assignments; `decided` has the decisions."""
        began = time.perf_counter()
        assignments = self.population.ask()
        self.decided = _timed(self.population.decided, time.perf_counter() - began)
        if assignments:
            self._commit(decisions=self.decided)
        return assignments

    def tell(
        self,
        assignment: Assignment,
        score: float | None,
        *,
        event: Event | None = None,
        signed: str | None = None,
        **told: Any,
    ) -> Observation:
        """Tell the population a result, with the signature of its checkpoint if there is one.

        For a failure, `event` has the reason. Kind "lost": its parent was lost. `told` goes to `Population.tell`.
        """
        self.population.tell(assignment, score, lost=event is not None and event.kind == "lost", **told)
        observation = self.population.history[-1]
        signatures = {} if signed is None else {observation.key: signed}
        self._commit(observations=[observation], events=[event] if event else [], signatures=signatures)
        return observation

    def say(self, event: Event) -> None:
        """Record any other event."""
        self._commit(events=[event])

    def _commit(self, **records: Any) -> None:
        self.store.write(**records)
        self._committed(self.store)


def _timed(decisions: Sequence[Decision], seconds: float) -> list[Decision]:
    """Add the time of now to decisions, and to those that the explorer made their share of the seconds they took."""
    share = seconds / max(1, sum(decision.explored for decision in decisions))
    now = time.time()
    return [replace(each, seconds=share if each.explored else None, time=now) for each in decisions]
