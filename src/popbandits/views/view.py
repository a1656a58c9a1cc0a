"""The contract of a view: it is told what happens in a run. It can ask for an end, and changes nothing else."""

from collections.abc import Sequence
from pathlib import Path

from popbandits.history import Decision, Event, Observation
from popbandits.population import Population


class View:
    """A view that shows nothing. Give `tune` a subclass with the methods that you need.

    >>> class Scores(View):
    ...     def told(self, observation):
    ...         print(observation.member, observation.score)
    """

    def opened(self, population: Population, directory: Path) -> None:
        """Handle the start or resume of the run.

        Args:
            population: The population of the run; do not change it.
            directory: Folder of the run.
        """

    def asked(self, decisions: Sequence[Decision]) -> None:
        """Handle new decisions: members start training, or wait for a worker.

        Args:
            decisions: The decision for each of these members.
        """

    def told(self, observation: Observation) -> None:
        """Handle the end of an interval.

        Args:
            observation: Its result; the population's history already contains it.
        """

    def happened(self, event: Event) -> None:
        """Handle any other event.

        Args:
            event: The event, such as a failure with its traceback.
        """

    def stop(self) -> str | None:
        """Return the reason to stop the run, or None to continue; called before assignments are submitted.

        Intervals in training then finish, no new ones start, and the run can be resumed.
        """
        return None

    def closed(self) -> None:
        """Handle the end of the run, or its stop."""
