"""BOHB (Falkner et al. 2018): Hyperband whose configurations come from a model of the good ones.

| symbol | meaning |
|---|---|
| D | hyperparameters of the space |
| N_min | configurations that a density needs: D + 1 |
| D_b | configurations with a score at a rung's level b; the model uses the largest b that has N_min + 2 of them |

A third of the configurations, and all before there is a model, are drawn as the others' are.
"""

from typing import Any

from popbandits_experiments.ground.rivals.densities import propose
from popbandits_experiments.ground.rivals.halving import Halving, hyperband_plans, ranked
from popbandits_experiments.ground.rivals.trials import Draws, Trial

RANDOM = 1 / 3
GOOD = 0.15


class BOHB(Halving):
    """Hyperband's brackets with a tree-structured Parzen estimator."""

    def __init__(self, draws: Draws, slots: int, rounds: int):
        super().__init__(draws, slots, rounds, hyperband_plans(slots * rounds, rounds))

    def start(self) -> Trial:
        """Start a trial with a configuration of the model's, or with a draw."""
        trial = super().start()
        if (made := self._propose()) is not None:
            trial.config = made
        return trial

    def _propose(self) -> dict[str, Any] | None:
        """Return the model's choice; None if there is no model, or chance decides for a draw."""
        space, rng = self.draws.space, self.draws.rng
        least = len(space.names) + 1
        for level in sorted({level for bracket in self.brackets for level in bracket.plan.levels}, reverse=True):
            best = [trial.config for trial in ranked(self.trials, level)]
            if len(best) < least + 2:
                continue
            if rng.random() < RANDOM:
                return None
            good, bad = max(least, int(GOOD * len(best))), max(least, int((1 - GOOD) * len(best)))
            return propose(space, best[:good], best[-bad:], rng)
        return None
