"""ASHA, asynchronous successive halving (Li et al. 2020, algorithm 2).

A free slot promotes a trial that is among the best 1/eta of its rung, the highest rung first; if there is none it
starts a new trial. The rungs are those of successive halving (`halving.py`). The budget ends the run.
"""

from collections.abc import Collection

from popbandits_experiments.ground.rivals.halving import ETA, levels, most_promotions, ranked
from popbandits_experiments.ground.rivals.trials import Draws, Scheduler, Trial


class ASHA(Scheduler):
    """Promotions whenever a slot is free, without waiting for a rung to be complete."""

    def __init__(self, draws: Draws, slots: int, rounds: int):
        super().__init__(draws, slots, rounds)
        self.levels = levels(rounds, most_promotions(rounds))
        self.goals: dict[Trial, int] = {}
        """Level that each trial was promoted to."""

    def choose(self, chosen: Collection[Trial]) -> Trial | None:
        """Choose a trial on its way to a level, or promote one, or start one."""
        for trial in self.trials:
            if trial not in chosen and trial.age < self.goals[trial] and not trial.failed:
                return trial
        trial, goal = self.promotion() or (self.start(), self.levels[0])
        self.goals[trial] = goal
        return trial

    def promotion(self) -> tuple[Trial, int] | None:
        """Return a trial that can be promoted, and the level that it trains to next; None if there is none."""
        for level, following in reversed(list(zip(self.levels, self.levels[1:], strict=False))):
            for trial in self.promotable(level):
                if self.goals[trial] == level:
                    return trial, following
        return None

    def promotable(self, level: int) -> list[Trial]:
        """Return the best 1/eta of a rung, those that have been promoted among them."""
        return ranked(self.trials, level)[: self.size(level) // ETA]

    def size(self, level: int) -> int:
        """Count the trials that have reached a level, or failed on the way there."""
        return sum(self.goals[trial] >= level and (trial.age >= level or trial.failed) for trial in self.trials)

    def may_go_on(self, trial: Trial) -> bool:
        """Tell whether the trial is not at the end: a paused one can be promoted as others join its rung."""
        return trial.age < self.rounds and not trial.failed
