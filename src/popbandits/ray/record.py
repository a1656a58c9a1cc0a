"""Population and record of a Tune experiment; the record is the run's file in the experiment's folder.

The record is the only state: decisions follow from it and the seed. So a restored experiment resumes from the record,
however old Tune's own snapshot of the trials is.
"""

from collections.abc import Callable

from popbandits.errors import HistoryError
from popbandits.history import Assignment, Observation
from popbandits.population import Population
from popbandits.run.recorder import Recorder
from popbandits.storage import Store

CHECKPOINT = "checkpoint_path"
"""Metric with the path of an observation's checkpoint, relative to the experiment's folder."""
TIME = "time_attr"
"""Metric with an observation's time, in the units of the scheduler's `time_attr`."""


class Record(Recorder):
    """The recorder of a Tune experiment, which also maps trials to members; `keep` is called after each commit."""

    def __init__(self, store: Store, population: Population, keep: Callable[[Store], None]):
        super().__init__(population, store, committed=keep)
        self.members: dict[str, int] = {trial: member for member, trial in enumerate(store.about["trials"])}
        """Members by trial id."""

    def join(self, trial: str) -> int:
        """Return the member of a trial; a new trial gets the next one."""
        if trial not in self.members:
            if len(self.members) == self.population.size:
                raise HistoryError(
                    f"{self.store.path} holds the run of {self.population.size} other trials, got trial {trial}; "
                    "give the experiment another name, or resume that one with Tuner.restore"
                )
            self.members[trial] = len(self.members)
            self.store.describe(trials=list(self.members))
            self._committed(self.store)
        return self.members[trial]

    def source(self, assignment: Assignment) -> Observation | None:
        """Return the observation whose checkpoint an assignment begins with."""
        return None if assignment.parent is None else self.population.history.find(assignment.parent)
