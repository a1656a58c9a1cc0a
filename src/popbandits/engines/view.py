"""What can be seen of a run while it goes on. A view is told what happens; it changes nothing."""

from collections.abc import Sequence
from pathlib import Path

from popbandits.history import Decision, Event, Observation
from popbandits.population import Population


class View:
    """See nothing of a run. Give `tune` a subclass with the methods that you care for.

    >>> class Scores(View):
    ...     def told(self, observation):
    ...         print(observation.member, observation.score)
    """

    def opened(self, population: Population, directory: Path) -> None:
        """The run begins, or goes on."""

    def asked(self, decisions: Sequence[Decision]) -> None:
        """Members begin to train, or wait for a worker."""

    def told(self, observation: Observation) -> None:
        """An interval ended; the population's history has it."""

    def happened(self, event: Event) -> None:
        """Something worth recording, such as a failure with its traceback."""

    def closed(self) -> None:
        """The run ended, or was stopped."""
