"""What can be seen of a run while it goes on. A view is told what happens; it changes nothing."""

from collections.abc import Sequence
from pathlib import Path

from popbandits.history import Decision, Event, Observation
from popbandits.population import Population


class View:
    """Sees nothing. Subclasses look at what they care for."""

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
