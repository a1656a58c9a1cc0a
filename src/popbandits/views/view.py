"""What can be seen of a run while it goes on. A view is told what happens; all it can do is to ask for an end."""

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
        """Take in that the run begins, or is resumed.

        Args:
            population: The population that decides; not to be changed.
            directory: Folder of the run.
        """

    def asked(self, decisions: Sequence[Decision]) -> None:
        """Take in that members begin to train, or wait for a worker.

        Args:
            decisions: What was decided for each of them.
        """

    def told(self, observation: Observation) -> None:
        """Take in that an interval ended.

        Args:
            observation: What came of it; the population's history has it already.
        """

    def happened(self, event: Event) -> None:
        """Take in something worth recording.

        Args:
            event: What happened, such as a failure with its traceback.
        """

    def stop(self) -> str | None:
        """Return why the run is to stop, or None to go on; called before members are given something to train.

        What is in training then ends, nothing new begins, and the run can be resumed.
        """
        return None

    def closed(self) -> None:
        """Take in that the run ended, or was stopped."""
