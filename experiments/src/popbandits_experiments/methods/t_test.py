"""Selection by a t-test: a member copies another that is significantly better (Jaderberg et al. 2017, section 4.1).

Paper: a member draws another one at random and compares the last 10 episodic returns by Welch's t-test; if the other's
mean is higher and the difference significant, it copies the other's weights and hyperparameters, and explores. Here:
the scores are those of the last 10 intervals of each lineage, because a population is told one score an interval.
Intervals that both descend from say nothing about their difference and are left out, so a member that has just copied
is not replaced for a while. If both scores have a standard error, only the last scores are compared, as normal
variables with these errors.

No member is replaced without evidence, so equal members continue as they are. Failures are replaced as in truncation.
"""

import math
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy.special import ndtr

from popbandits.basics.rules import SHARE, real, whole
from popbandits.basics.typing import IntArray
from popbandits.history import History, Observation
from popbandits.selection.selection import Picks, Selection
from popbandits.selection.truncation import rank, replace_members
from popbandits_experiments.paper.score_tables import welch


@dataclass(frozen=True)
class TTest(Selection):
    """Compare each member with one other, and copy the other if it is significantly better.

    Args:
        quantile: Top share of members, above 0 and at most 0.5, from which a member that failed loads weights. Default
            0.25. Change it if you have many members.
        level: Two-sided p-value below which a difference is significant. Default 0.05. Raise it to copy sooner, at the
            risk of copying by luck.
        last: Number of intervals of each lineage that are compared, at least 2. Default 10. Lower it if skill changes
            fast.
    """

    quantile: float = 0.25
    level: float = 0.05
    last: int = 10

    def __post_init__(self) -> None:
        SHARE.check("quantile", self.quantile)
        real("between 0 and 1", lambda level: 0 < level < 1, "0.05 is usual").check("level", self.level)
        whole(2, fix="10 is usual").check("last", self.last)

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Pick another member's weights if they are significantly better."""
        states = history.member_states()
        ranking = rank(history, self.quantile, rng, history.scores)
        sound = np.flatnonzero((states.latest >= 0) & ~ranking.failed)
        weights, replaced = states.latest.copy(), ranking.failed.copy()
        weights[replaced] = ranking.draw(int(replaced.sum()), rng)
        for member in members[~replaced[members]].tolist():
            others = sound[sound != member]
            if not len(others):
                continue
            rival = int(states.latest[others[rng.integers(len(others))]])
            if self._is_better(history, rival, int(states.latest[member])):
                weights[member], replaced[member] = rival, True
        return replace_members(history, members, replaced, weights[replaced])

    def _is_better(self, history: History, rival: int, own: int) -> bool:
        """Tell whether the checkpoint at index `rival` is significantly better than the one at `own`."""
        a, b = history[rival], history[own]
        if a.standard_error is not None and b.standard_error is not None:
            difference, error = history.sign * (a.score - b.score), math.hypot(a.standard_error, b.standard_error)
            p = 2 * float(ndtr(-abs(difference) / error)) if error else 0.0
            return difference > 0 and p < self.level
        theirs, mine = (last_intervals(history, index, self.last) for index in (rival, own))
        shared = {o.key for o in theirs} & {o.key for o in mine}
        x, y = ([history.sign * o.score for o in line if o.key not in shared] for line in (theirs, mine))
        return welch(x, y) < self.level and np.mean(x) > np.mean(y)


def last_intervals(history: History, index: int, count: int) -> list[Observation]:
    """Return the observation at an index and those it descends from, at most `count`, oldest first."""
    return list(islice(history.ancestors(history[index]), count))[::-1]
