"""MF-PBT (Doulazmi et al. 2025, arXiv 2506.03225): sub-populations with different selection intervals.

Short intervals select what pays off at once, long ones what pays off later; PBT has one interval and is greedy on its
scale. When a group's interval ends, its members are ranked among themselves and fall into quarters:

| quarter | what it continues with |
|---|---|
| first, second | its own weights and configuration |
| third | the weights of the best members of other groups, if these are better |
| last | the weights and the configuration of a member of the first quarter, and explores |

The third quarter does not explore. With weights from a slower group it takes their hyperparameters; with weights from a
faster group it takes the hyperparameters of the best of its own group. So greedy hyperparameters do not spread.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from popbandits.basics.rules import SHARE, is_whole
from popbandits.basics.typing import IntArray
from popbandits.errors import ArgumentError
from popbandits.history import History
from popbandits.selection.selection import Picks, Selection, stay
from popbandits.selection.truncation import Ranking, rank, replaced_count

PAPER_INTERVALS = (1, 10, 25, 50)
"""The paper's intervals, in rounds, for 32 members."""


@dataclass(frozen=True)
class MFPBT(Selection):
    """Truncation within each group at its own interval, and migration between groups.

    Member m is in group m modulo the number of groups. A failure is replaced at once, by a member of its group.

    Args:
        quantile: Share of a group that makes a quarter, above 0 and at most 0.5: rounded down, at least one member.
            Default 0.25. Raise it to give up weak members sooner.
        intervals: Rounds between two selections, a number for each group, such as (1, 3). None (default) suits the
            number of members. Longer ones help if late gains matter; a population too small for two members in each
            group drops the last groups.
    """

    quantile: float = 0.25
    intervals: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        SHARE.check("quantile", self.quantile)
        given: Any = self.intervals
        if given is None:
            return
        if not (isinstance(given, tuple | list) and given and all(is_whole(each, 1) for each in given)):
            raise ArgumentError(
                f"intervals must be whole numbers of at least 1, one for each group, got {given!r}; "
                "(1, 3) suits four members"
            )
        object.__setattr__(self, "intervals", tuple(int(each) for each in given))

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Pick for the groups one after another."""
        everyone = np.arange(len(history.member_states().latest))
        intervals = default_intervals(len(everyone)) if self.intervals is None else self.intervals
        intervals = intervals[: max(1, len(everyone) // 2)]
        group = everyone % len(intervals)
        interval = np.array(intervals)[group]
        whole = stay(history, everyone)
        picks = Picks(whole.weights.copy(), whole.config.copy(), whole.explores.copy())
        for number in range(len(intervals)):
            self._select_group(history, picks, everyone[group == number], interval, rng)
        return picks[members]

    def _select_group(
        self, history: History, picks: Picks, own: IntArray, interval: IntArray, rng: np.random.Generator
    ) -> None:
        """Change the picks of a group's members; `interval` holds one entry for every member of the population."""
        states = history.member_states()
        inside = rank(history, self.quantile, rng, history.scores, own)
        outside = rank(history, self.quantile, rng, history.scores, np.setdiff1d(np.arange(len(interval)), own))
        due = np.zeros(len(interval), dtype=np.bool_)
        due[own] = states.finished[own] % interval[own] == 0
        replaced = inside.failed | (inside.weak & due)
        picks.weights[replaced] = picks.config[replaced] = inside.draw(int(replaced.sum()), rng)
        picks.explores[replaced] = True
        strangers = outside.order[~outside.failed[outside.order]].tolist()
        for member in self._migrants(inside)[: len(strangers)]:  # The best of each meet first.
            index, own_best = states.latest[[strangers[0], inside.order[0]]]
            theirs, mine = history.scores(np.array([index, picks.weights[member]]))
            if due[member] and theirs > mine:
                other = strangers.pop(0)
                picks.weights[member] = index
                if interval[other] > interval[member]:
                    picks.config[member] = index
                elif interval[other] < interval[member] and not replaced[member]:
                    picks.config[member] = own_best

    def _migrants(self, inside: Ranking) -> IntArray:
        """Find the third quarter of a group.

        Paper: groups of eight. Here: if a group is too small for a third quarter, the last one does both jobs: it
        explores as above, but on weights from another group if these are better than those of its own group's best.
        Otherwise a group of two would never learn from the others.
        """
        count = replaced_count(len(inside.order), self.quantile)
        third = inside.order[max(count, len(inside.order) - 2 * count) : len(inside.order) - count]
        third = third[~inside.failed[third]]
        return third if len(inside.order) > 2 * count else inside.order[len(inside.order) - count :]


def default_intervals(size: int) -> tuple[int, ...]:
    """Return the intervals for a population: the paper's from 16 members, fewer and shorter ones below.

    The shorter ones are ours: small populations are used for short runs, most of which end before 50 rounds.

    >>> [default_intervals(size) for size in (3, 4, 12, 32)]
    [(1,), (1, 3), (1, 3, 10), (1, 10, 25, 50)]
    """
    if size >= 16:
        return PAPER_INTERVALS
    return (1,) if size < 4 else (1, 3) if size < 12 else (1, 3, 10)
