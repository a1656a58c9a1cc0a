"""The usual settings in one run that has the whole budget: what is there to gain by training longer, not by tuning."""

from collections.abc import Collection

from popbandits_experiments.ground.rivals.trials import Draws, Scheduler, Trial


class Longer(Scheduler):
    """One trial of the defaults for slots x R intervals, on one slot; `draws` must begin with the defaults."""

    def __init__(self, draws: Draws, slots: int, rounds: int):
        super().__init__(draws, 1, slots * rounds)

    def choose(self, chosen: Collection[Trial]) -> Trial | None:
        """Choose the trial, unless it has failed."""
        trial = self.trials[0] if self.trials else self.start()
        return None if chosen or trial.failed else trial

    def may_go_on(self, trial: Trial) -> bool:
        """Tell whether the trial can train again."""
        return not trial.failed
