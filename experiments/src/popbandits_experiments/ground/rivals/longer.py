"""Few runs that have much of the budget: what is there to gain by training longer, with little tuning or none."""

from collections.abc import Collection

from popbandits_experiments.ground.rivals.halving import ETA, Halving, Plan
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


class Sifted(Halving):
    """Successive halving among nine short trials with about R intervals; the winner has the rest of the slots x R.

    >>> Sifted.plan(4, 30), Sifted.plan(4, 30).cost
    (Plan(trials=(9, 3, 1), levels=(2, 6, 96)), 120)
    """

    def __init__(self, draws: Draws, slots: int, rounds: int):
        plan = self.plan(slots, rounds)
        super().__init__(draws, slots, plan.levels[-1], [plan])
        self._budget = slots * rounds

    @property
    def budget(self) -> int:
        """Intervals that may be trained: those of a population, though one trial trains longer than its members."""
        return self._budget

    @staticmethod
    def plan(slots: int, rounds: int) -> Plan:
        """Plan the rungs."""
        first = max(1, rounds // (2 * ETA**2 - ETA))
        short = Plan((ETA**2, ETA), (first, ETA * first))
        return Plan((*short.trials, 1), (*short.levels, short.levels[-1] + slots * rounds - short.cost))
