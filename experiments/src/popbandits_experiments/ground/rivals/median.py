"""TPE with median stopping: what users of Optuna and Vizier run (Bergstra et al. 2011; Golovin et al. 2017).

A trial stops after interval t if its best score by then is below the median of the other trials' mean scores up to t.
Paper: the other trials are complete. Here, as in Ray Tune: they have reached t, because few trials of a population's
budget are ever complete. Configurations come from the densities of the best tenth and of the rest; trials that trained
longer rank before others, as Optuna ranks pruned ones. The first configurations are drawn.
"""

from collections.abc import Collection, Sequence

import numpy as np

from popbandits_experiments.ground.rivals.densities import propose
from popbandits_experiments.ground.rivals.trials import Draws, Scheduler, Trial

STARTUP = 10
"""Trials before the model, as in Optuna."""
SAMPLES = 3
"""Other trials that a median needs, as in Ray Tune."""
GOOD = 0.1
LEAST_GOOD = 2
"""Trials that a density needs at least, for a bandwidth."""


class MedianTPE(Scheduler):
    """Trials that train to the end unless they are worse than the median."""

    def __init__(self, draws: Draws, slots: int, rounds: int):
        super().__init__(draws, slots, rounds)
        self.grace = max(1, rounds // 10)
        """Intervals that every trial trains."""
        self._stopped: set[Trial] = set()

    def choose(self, chosen: Collection[Trial]) -> Trial | None:
        """Choose a trial that goes on, or start one."""
        going = (trial for trial in self.trials if trial not in chosen and self.may_go_on(trial))
        return next(going, None) or self.start()

    def may_go_on(self, trial: Trial) -> bool:
        """Tell whether the trial is not complete, not failed, and was never worse than the median.

        The verdict on an interval stays: those who reach it later do not change it.
        """
        return trial.age < self.rounds and not trial.failed and trial not in self._stopped

    def learn(self, trained: Sequence[Trial]) -> None:
        """Stop trials of the round that are worse than the median."""
        self._stopped |= {trial for trial in trained if not trial.failed and self.stops(trial)}

    def stops(self, trial: Trial) -> bool:
        """Tell whether a trial's best score is below the median of the others' means up to its age."""
        t = trial.age
        means = [float(np.mean(o.scores[:t])) for o in self.trials if o is not trial and o.age >= t]
        means = [mean for mean in means if np.isfinite(mean)]
        return t >= self.grace and len(means) >= SAMPLES and max(trial.scores) < float(np.median(means))

    def start(self) -> Trial:
        """Start a trial with the model's choice, or with a draw."""
        ranking = sorted((trial for trial in self.trials if trial.scores), key=_rank)
        trial = super().start()
        if len(ranking) >= STARTUP:
            good = max(LEAST_GOOD, int(np.ceil(GOOD * len(ranking))))
            configs = [one.config for one in ranking]
            made = propose(self.draws.space, configs[:good], configs[good:], self.draws.rng)
            trial.config = trial.config if made is None else made
        return trial


def _rank(trial: Trial) -> tuple[bool, int, float]:
    """Return a key that sorts the best trial first: sound ones, the longest trained, the best score."""
    return trial.failed, -trial.age, -max((score for score in trial.scores if np.isfinite(score)), default=-np.inf)
