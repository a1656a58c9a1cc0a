"""Noise-aware truncation: rank by the skill estimated from a lineage's scores, not by the last score.

The skill is the mean m that the filter of `popbandits.history.noise` follows along a lineage. Without noise it is the
score: exactly plain truncation. Measured on real training, it was not ahead of truncation (docs/default.md).
"""

import math
from dataclasses import dataclass

import numpy as np

from popbandits.basics.rules import SHARE, real, whole
from popbandits.basics.typing import FloatArray, IntArray
from popbandits.history import History
from popbandits.history.noise import MAX_OBSERVATIONS, estimate
from popbandits.selection.selection import Picks, Selection
from popbandits.selection.truncation import rank, replace_members


@dataclass(frozen=True)
class Smoothed(Selection):
    """Truncation by scores that are smoothed along each lineage, as far as they are noise.

    >>> from popbandits import Population
    >>> Population({"lr": (0.0, 1.0)}, selection=Smoothed(quantile=0.5)).quantile
    0.5

    Args:
        quantile: Share of members that is replaced, above 0 and at most 0.5: rounded down, at least one member. Default
            0.25. Raise it to give up weak members sooner.
        noise: Standard deviation of a score's noise, for scores without a standard error. None (default) estimates it.
            Use it if you have measured it.
        window: Maximum number of rounds that a lineage is followed back, and the noise is estimated from. Default 16.
            Raise it if scores are very noisy and training is slow.
    """

    quantile: float = 0.25
    noise: float | None = None
    window: int = 16

    def __post_init__(self) -> None:
        SHARE.check("quantile", self.quantile)
        real("at least 0", lambda noise: 0 <= noise < math.inf).or_none("to estimate it").check("noise", self.noise)
        whole(1, fix="16 is usual").check("window", self.window)

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Pick by the estimated skill."""
        size = len(history.member_states().latest)
        recent = history[-size * min(self.window, max(3, MAX_OBSERVATIONS // size)) :]
        model = estimate(recent, history.sign, self.noise)
        levels = {} if model is None else model.follow(recent)[0]

        def scorer(indices: IntArray) -> FloatArray:
            scores = history.scores(indices)
            for row in np.flatnonzero(~np.isnan(scores)).tolist() if levels else ():
                scores[row] = levels.get(history[int(indices[row])].key, scores[row])
            return scores

        ranking = rank(history, self.quantile, rng, scorer)
        return replace_members(history, members, ranking.weak, ranking.draw(int(ranking.weak.sum()), rng))
