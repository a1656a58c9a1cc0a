"""Truncation selection: the worst members load the weights of the best."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from popbandits.basics.rules import SHARE
from popbandits.basics.typing import BoolArray, FloatArray, IntArray
from popbandits.history import History
from popbandits.history.memory import NO_INDEX
from popbandits.selection.selection import Picks, Selection, checkpoints, usable

Scorer = Callable[[IntArray], FloatArray]
"""Scores at indices of the history, more is better; NaN if the interval failed, and for NO_INDEX."""


@dataclass(frozen=True)
class Truncation(Selection):
    """Rank by the last score; the bottom quantile loads weights drawn from the top quantile, and explores.

    Ties are broken at random. A member whose last interval failed, or whose checkpoint is lost, is always replaced. If
    that is true of all members, weights come from earlier checkpoints; if there are none, members start afresh.

    Args:
        quantile: Share of members that is replaced, above 0 and at most 0.5: rounded down, at least one member. Default
            0.25. Raise it to give up weak members sooner.
    """

    quantile: float = 0.25

    def __post_init__(self) -> None:
        SHARE.check("quantile", self.quantile)

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Pick by the raw scores."""
        ranking = rank(history, self.quantile, rng, history.scores)
        return replace_members(history, members, ranking.weak, ranking.draw(int(ranking.weak.sum()), rng))


def replace_members(history: History, members: IntArray, replaced: BoolArray, sources: IntArray) -> Picks:
    """Let the replaced members (a mask) explore from one source each, in order, and the others continue."""
    states = history.member_states()
    weights = usable(history, states.completed).copy()
    weights[replaced] = sources
    return Picks(weights, weights, weights != states.latest)[members]


@dataclass(frozen=True)
class Ranking:
    """Weak members, and the strong weights to replace theirs."""

    failed: BoolArray
    """By member: whether it has trained, but has no weights of its last interval to continue from."""
    weak: BoolArray
    """By member: whether truncation replaces it; all that failed are weak."""
    strong: IntArray
    """Indices of the weights to load instead."""
    order: IntArray
    """Ranked members, best first; those that failed last."""

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """Draw `count` indices of strong weights; NO_INDEX, a fresh start, if there are none."""
        if not len(self.strong):
            return np.full(count, NO_INDEX)
        return self.strong[rng.integers(len(self.strong), size=count)]


def rank(
    history: History, quantile: float, rng: np.random.Generator, scorer: Scorer, among: IntArray | None = None
) -> Ranking:
    """Rank the members that have finished an interval; only those in `among`, if given."""
    states = history.member_states()
    begun = np.flatnonzero(states.latest != NO_INDEX)
    begun = begun if among is None else begun[np.isin(begun, among)]
    latest = usable(history, states.latest[begun])
    scores = scorer(latest)
    order = sort_best_first(scores, rng)
    count = replaced_count(len(order), quantile)
    failed, weak = np.zeros((2, len(states.latest)), dtype=np.bool_)
    failed[begun] = weak[begun] = np.isnan(scores)
    weak[begun[order[len(order) - count :]]] = True
    top = order[: max(1, count)]
    strong = latest[top[~np.isnan(scores[top])]]
    if not len(strong):
        earlier = np.array(list(dict.fromkeys(checkpoints(history).tolist())), dtype=np.int64)
        strong = earlier[sort_best_first(scorer(earlier), rng)[: max(1, count)]]
    return Ranking(failed, weak, strong, begun[order])


def replaced_count(size: int, quantile: float) -> int:
    """Return how many of `size` members are replaced: the quantile rounded down, at least one, at most half.

    >>> [replaced_count(size, 0.25) for size in (1, 2, 4, 7, 8, 12)]
    [0, 1, 1, 1, 2, 3]
    """
    return min(max(1, int(quantile * size + 1e-9)), size // 2)


def sort_best_first(scores: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return the indices of scores, best (largest) first; ties in random order; NaN last."""
    shuffled = rng.permutation(len(scores))
    return shuffled[np.argsort(np.where(np.isnan(scores), np.inf, -scores)[shuffled], kind="stable")]
