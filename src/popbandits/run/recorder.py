"""A population and its record: everything is on disk before it is built on."""

from collections.abc import Callable, Mapping
from typing import Any

from popbandits.history import Assignment, Event, Observation
from popbandits.population import Population
from popbandits.storage import Store


class Recorder:
    """Asks and tells a population, and commits what it decided and what happened before anybody acts on it.

    A WriteError says that the disk refused; the run can be resumed from what was committed before.

    Args:
        population: The population that decides.
        store: The run's file.
        committed: Called after each commit. Default: nothing is.
    """

    def __init__(self, population: Population, store: Store, committed: Callable[[Store], None] = lambda store: None):
        self.population, self.store, self._committed = population, store, committed

    def ask(self) -> list[Assignment]:
        """Return what the population decides now; `population.decided` says from what."""
        assignments = self.population.ask()
        if assignments:
            self._commit(decisions=self.population.decided)
        return assignments

    def tell(
        self,
        assignment: Assignment,
        score: float | None,
        *,
        steps: float | None = None,
        seconds: float | None = None,
        metrics: Mapping[str, Any] | None = None,
        event: Event | None = None,
    ) -> Observation:
        """Take in what came of an assignment; an event says why, where nothing did. Of kind "lost", its parent was."""
        lost = event is not None and event.kind == "lost"
        self.population.tell(assignment, score, steps=steps, seconds=seconds, metrics=metrics, lost=lost)
        observation = self.population.history[-1]
        self._commit(observations=[observation], events=[event] if event else [])
        return observation

    def say(self, event: Event) -> None:
        """Put on record what else happened."""
        self._commit(events=[event])

    def _commit(self, **records: Any) -> None:
        self.store.write(**records)
        self._committed(self.store)
