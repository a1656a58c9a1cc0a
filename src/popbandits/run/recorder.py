"""A population with its record: everything is on disk before it is used."""

from collections.abc import Callable, Mapping
from typing import Any

from popbandits.history import Assignment, Event, Observation
from popbandits.population import Population
from popbandits.storage import Store


class Recorder:
    """Asks and tells a population, and commits each decision and result before it is used.

    It raises WriteError if the disk refuses; the run can be resumed from the last commit.

    Args:
        population: The population of the run.
        store: The run's file.
        committed: Function to call after each commit. Default: none.
    """

    def __init__(self, population: Population, store: Store, committed: Callable[[Store], None] = lambda store: None):
        self.population, self.store, self._committed = population, store, committed

    def ask(self) -> list[Assignment]:
        """Ask the population and return its assignments; `population.decided` has the decisions."""
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
        signed: str | None = None,
    ) -> Observation:
        """Tell the population a result, with the signature of its checkpoint if there is one.

        For a failure, `event` has the reason. Kind "lost": its parent was lost.
        """
        lost = event is not None and event.kind == "lost"
        self.population.tell(assignment, score, steps=steps, seconds=seconds, metrics=metrics, lost=lost)
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
