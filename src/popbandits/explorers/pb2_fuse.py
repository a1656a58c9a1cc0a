"""PB2-Fuse (ours): labels chosen by the bandit and by the model's prediction for each.

    P(label c) ~ q(c) exp(max_x UCB(c, x) / temperature),   q from TV.EXP3.M, y standardised

The bandit alone is the weak half of PB2-Mix: after 25 rounds it draws a good label hardly more often than chance,
because it does not know what the numbers can still gain. The model alone is good, but fails with many labels.
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from popbandits.basics.rules import real
from popbandits.basics.typing import FloatArray, IntArray
from popbandits.explorers.explorer import Parents, Proposal
from popbandits.explorers.pb2_mix import PB2Mix
from popbandits.explorers.surrogate import Arms, Models, Surrogate
from popbandits.history import History
from popbandits.models.acquisition import UpperConfidenceBound, maximise
from popbandits.models.gp import NotFittedError
from popbandits.space import Points, Space

COMBINATIONS = 64
"""Maximum number of combinations of labels that are compared; of more, the bandits draw a sample."""


@dataclass(frozen=True)
class PB2Fuse(PB2Mix):
    """Choose labels by TV.EXP3.M and the model together, numbers by maximising the model's bound.

    Args:
        c1: Scale of the weight of uncertainty in the upper confidence bound, sqrt(c1 log(c2 n)) after n observations;
            at least 0. Default 0.2. Raise it to explore more, lower it to stay with what worked.
        c2: Scale of the number of observations in that weight; above 0. Default 0.4. Raise it to explore earlier in a
            run.
        window: Maximum number of observations that a decision uses: the model uses the recent half and older ones with
            new configurations, bandits the last. Default 300, which keeps a decision under half a second. None uses
            all.
        per_dimension: Whether each number has its own length-scale instead of one for all. Default False. Use True if
            few of many numbers matter, and there are enough observations.
        score_before: Whether the model sees the score before the interval. Default False. Use True if gains depend on
            how good a member already is; it harms if the score is a running total.
        temperature: Weight of the bandit against the model when labels are drawn, above 0. Default 0.25. Raise it to
            trust the bandit more, lower it to trust the model more.
        continued_only: Whether the model leaves out intervals with a new configuration, as the published code does.
            Default False. Who is copied was lucky, so the score falls next, least where hardly anything is learnt: a
            model of all intervals prefers that. Without them it sees no collapse; on four tasks it was not better.
        edition: Edition of the rules. Default 2. Edition 1 is for runs of earlier versions: one collapse makes the
            bandit's other gains nearly equal, and a first decision takes the raw score as the score before.
    """

    temperature: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        real("above 0", lambda number: number > 0, "the default is 0.25").check("temperature", self.temperature)

    def propose(
        self, space: Space, history: History, pending: Points, parents: Parents, rng: np.random.Generator
    ) -> list[Proposal]:
        """Fit once; for each member find the best numbers at all labels, then draw one of these points."""
        arms = self.arms(space, history)
        proposals: list[Proposal] = []
        try:
            model = Models(self, space, history).at(np.zeros(0, dtype=np.int64))
            for parent in parents:
                point = self._draw(model, arms, model.bound(history, parent).with_pending(pending), pending, rng)
                pending = Points.concatenate([pending, point])
                proposals.append(Proposal(space.decode(point)[0], {**arms.record(), **model.record}))
        except NotFittedError:  # as PB2-Mix: labels by the bandits alone, numbers at random
            proposals += super().propose(space, history, pending, parents[len(proposals) :], rng)
        return proposals

    def _draw(
        self, model: Surrogate, arms: Arms, bound: UpperConfidenceBound, pending: Points, rng: np.random.Generator
    ) -> Points:
        labels, prior = combinations(arms, rng)
        points, group = model.candidates(labels, pending.x, max(16, 256 // len(labels)), rng)
        best = maximise(bound, model.space, points, group, groups=len(labels), starts=1 + (len(labels) < 4))
        score = np.log(prior) + best.values / self.temperature
        if not np.isfinite(score).any():
            raise NotFittedError("no legal configuration was found at any labels")
        # The Gumbel trick: the largest of score + noise is a draw with probability ~ exp(score).
        chosen = int(np.argmax(score + rng.gumbel(size=len(score))))
        return best.points[[chosen]]


def combinations(arms: Arms, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Return the (g, m) labels to compare, and the bandits' probability of each up to a factor."""
    p = arms.probabilities
    count = math.prod(len(each) for each in p)
    if count <= COMBINATIONS:
        labels = np.array(list(product(*(range(len(each)) for each in p))), dtype=np.int64).reshape(count, len(p))
        return labels, np.prod([each[labels[:, j]] for j, each in enumerate(p)], axis=0) * np.ones(count)
    drawn = np.stack([rng.choice(len(each), size=COMBINATIONS, p=each / each.sum()) for each in p], axis=1)
    # Drawn with the bandits' probability already: a combination drawn twice counts twice.
    labels, times = np.unique(drawn, axis=0, return_counts=True)
    return labels, times.astype(np.float64)
