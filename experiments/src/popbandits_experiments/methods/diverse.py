"""Truncation that keeps behaviours apart, for tasks whose nearest optimum is not the best one.

Truncation soon leaves the descendants of one member. Here a member is worth its rank and what its behaviour adds to the
others', and the members worth least are replaced, as DvD (Parker-Holder et al. 2020, "Effective diversity in population
based reinforcement learning") adds the volume of behaviours to the returns.

| symbol | meaning | shape |
|---|---|---|
| n | members whose last interval completed | |
| φ | behaviours: what each member does on the same states, such as mean actions | (n, d) |
| K | k(φᵢ, φⱼ) = exp(-‖φᵢ - φⱼ‖² / (2 d ℓ²)), and a small number on the diagonal | (n, n) |
| uᵢ | rank by the last score: 1 for the best member, 0 for the worst | (n,) |
| λ | weight of diversity | |

    vᵢ = (1 - λ) uᵢ + λ σᵢ²                                                                              (1)
    σᵢ² = det K / det K₋ᵢ = 1 / (K⁻¹)ᵢᵢ                                                                  (2)

K₋ᵢ is K without member i: σᵢ² is the factor by which the volume of behaviours shrinks if i is lost, 0 for a copy of
another member and 1 for one that nobody resembles.

Paper: DvD maximises (1 - λ) Σ reward + λ det K by the gradient of the weights, and adapts λ by a bandit. Here: λ is
fixed, and the selection alone trades the two, so that any agent can be trained.
"""

from dataclasses import dataclass

import numpy as np

from popbandits.basics.rules import FLAG, PROBABILITY, SHARE, real
from popbandits.basics.typing import BoolArray, FloatArray, IntArray
from popbandits.history import History
from popbandits.selection.selection import Picks, Selection
from popbandits.selection.truncation import Ranking, rank, replace_members

BEHAVIOUR = "behaviour"
"""Name of the metric that holds a member's behaviour: a list of numbers, of the same states for all members."""
_JITTER = 1e-6


@dataclass(frozen=True)
class Diverse(Selection):
    """Replace the members that are worth least by rank and difference; weights come from the best, as in truncation.

    The agents report a metric named `behaviour`; without it this is truncation, as it is in asynchronous runs while the
    members are in different rounds. The best member is never replaced, a
    member whose last interval failed always is.

    Args:
        quantile: Share of members that is replaced, above 0 and at most 0.5: rounded down, at least one member. Default
            0.25. Raise it to give up weak members sooner.
        weight: Weight of diversity, λ, from 0 (truncation) to 1. Default 0.5. Raise it if populations get stuck.
        length: Distance at which behaviours begin to differ, as the root of the mean squared difference. Default 0.5,
            for actions between -1 and 1, or probabilities.
        shuffled: Whether members get one another's behaviours, drawn at random. Default False. True is a control for
            comparisons: it spares members as often, but not those that differ.
    """

    quantile: float = 0.25
    weight: float = 0.5
    length: float = 0.5
    shuffled: bool = False

    def __post_init__(self) -> None:
        SHARE.check("quantile", self.quantile)
        PROBABILITY.check("weight", self.weight)
        real("above 0", lambda length: 0 < length < np.inf, fix="0.5 is usual").check("length", self.length)
        FLAG.check("shuffled", self.shuffled)

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Pick by rank and difference."""
        ranking = rank(history, self.quantile, rng, history.scores)
        weak = self._weak(history, ranking, rng)
        return replace_members(history, members, weak, ranking.draw(int(weak.sum()), rng))

    def _weak(self, history: History, ranking: Ranking, rng: np.random.Generator) -> BoolArray:
        """Return, by member, whether it is replaced: as many as truncation replaces."""
        sound = ranking.order[~ranking.failed[ranking.order]]  # best first
        behaviours = read_behaviours(history, sound)
        if behaviours is None:
            return ranking.weak
        if self.shuffled:
            behaviours = behaviours[rng.permutation(len(behaviours))]
        weak, left = ranking.failed.copy(), np.arange(len(sound))
        ranks = np.linspace(1.0, 0.0, len(sound))
        for _ in range(int((ranking.weak & ~ranking.failed).sum())):
            worth = (1 - self.weight) * ranks[left] + self.weight * novelty(behaviours[left], self.length)  # (1)
            # All but the best can be replaced; among equals, the one with the lowest rank is.
            least = len(left) - 1 - int(np.argmin(worth[:0:-1]))
            weak[sound[left[least]]] = True
            left = np.delete(left, least)
        return weak


def read_behaviours(history: History, members: IntArray) -> FloatArray | None:
    """Return the last behaviours of members, (n, d); None if one is missing, or not of the same states."""
    latest = history.member_states().latest[members]
    last = [history[int(index)] for index in latest]
    found = [observation.metrics.get(BEHAVIOUR) for observation in last]
    if not found or any(each is None for each in found) or len({observation.round for observation in last}) > 1:
        return None
    rows = [np.asarray(each, dtype=np.float64) for each in found]
    if len({row.shape for row in rows}) > 1 or not all(np.isfinite(row).all() for row in rows):
        return None
    return np.stack(rows)


def novelty(behaviours: FloatArray, length: float) -> FloatArray:
    """Compute σ² of (2), (n,), from behaviours, (n, d).

    >>> novelty(np.array([[0.0, 0.0], [0.0, 0.0], [9.0, 9.0]]), 0.5).round(3)
    array([0., 0., 1.])
    """
    squares = np.square(behaviours[:, None] - behaviours).mean(-1)
    kernel = np.exp(-squares / (2 * length**2)) + _JITTER * np.eye(len(behaviours))
    found: FloatArray = 1 / np.diag(np.linalg.inv(kernel))
    return found
