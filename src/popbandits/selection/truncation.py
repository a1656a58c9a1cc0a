"""Truncation selection: the worst members load the weights of the best."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from popbandits.errors import ArgumentError
from popbandits.history import History
from popbandits.history.standing import NOWHERE
from popbandits.rules import SHARE
from popbandits.selection.selection import Picks, Selection, checkpoints, usable
from popbandits.typing import BoolArray, FloatArray, IntArray

Judge = Callable[[IntArray], FloatArray]
"""Scores at places of the history, more is better; NaN where the interval failed, and for NOWHERE."""


@dataclass(frozen=True)
class Truncation(Selection):
    """Rank by the last score; the bottom quantile loads weights drawn from the top quantile, and explores.

    Ties are broken at random. A member whose last interval failed, or whose checkpoint is lost, is replaced whatever
    its rank. If that is everybody, weights come from earlier checkpoints; from none, if there are none.

    Args:
        quantile: Set the share of members that is replaced, above 0 and at most 0.5: rounded down, at least one member.
            Default 0.25. Raise it to give weak members up sooner.
    """

    quantile: float = 0.25

    def __post_init__(self) -> None:
        SHARE.check("quantile", self.quantile)

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Pick by the scores as they are."""
        return truncate(history, members, self.quantile, rng, history.scores)


def as_selection(selection: Selection | None, quantile: float | None, own: Selection | None = None) -> Selection:
    """A selection from the arguments of a population; `own` is its method's, Truncation() if it has none.

    A `quantile` without a selection changes that of the method's own.
    """
    if selection is None:
        made: Any = own or Truncation()
        if quantile is None:
            return cast(Selection, made)
        if not hasattr(made, "quantile"):
            raise ArgumentError(f"quantile is for selections that have one, got {quantile!r} for {own!r}; leave it out")
        return cast(Selection, replace(made, quantile=quantile))
    if not isinstance(selection, Selection):
        raise ArgumentError(f"selection must be a Selection, got {selection!r}; make one, such as Truncation()")
    own = getattr(selection, "quantile", None)
    if quantile is not None and quantile != own:
        raise ArgumentError(f"quantile must be that of selection, {own!r}, got {quantile!r}; leave it out")
    return selection


def truncate(history: History, members: IntArray, quantile: float, rng: np.random.Generator, judge: Judge) -> Picks:
    """Truncation selection by what `judge` says of each member's last interval."""
    ranking = rank(history, quantile, rng, judge)
    return replace_members(history, members, ranking.weak, ranking.draw(int(ranking.weak.sum()), rng))


def replace_members(history: History, members: IntArray, replaced: BoolArray, sources: IntArray) -> Picks:
    """Let the replaced (a mask by member) explore from a source each, in order, and the others stay."""
    standing = history.standing()
    weights = usable(history, standing.completed).copy()
    weights[replaced] = sources
    return Picks(weights, weights, weights != standing.latest)[members]


@dataclass(frozen=True)
class Ranking:
    """Who is weak, and whose weights are strong."""

    failed: BoolArray
    """By member: whether it has trained, and has no weights of its last interval to go on from."""
    weak: BoolArray
    """By member: whether truncation replaces it; all who failed are weak."""
    strong: IntArray
    """Places of the weights to load instead."""
    order: IntArray
    """Members that were ranked, the best first; those who failed last."""

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """Draw `count` strong places; NOWHERE, a fresh start, if there are none."""
        if not len(self.strong):
            return np.full(count, NOWHERE)
        return self.strong[rng.integers(len(self.strong), size=count)]


def rank(
    history: History, quantile: float, rng: np.random.Generator, judge: Judge, among: IntArray | None = None
) -> Ranking:
    """Rank the members that have finished an interval; `among` some members, where it is given."""
    standing = history.standing()
    begun = np.flatnonzero(standing.latest != NOWHERE)
    begun = begun if among is None else begun[np.isin(begun, among)]
    latest = usable(history, standing.latest[begun])
    scores = judge(latest)
    order = ranked(scores, rng)
    count = replaced_count(len(order), quantile)
    failed, weak = np.zeros((2, len(standing.latest)), dtype=np.bool_)
    failed[begun] = weak[begun] = np.isnan(scores)
    weak[begun[order[len(order) - count :]]] = True
    top = order[: max(1, count)]
    strong = latest[top[~np.isnan(scores[top])]]
    if not len(strong):
        earlier = np.array(list(dict.fromkeys(checkpoints(history).tolist())), dtype=np.int64)
        strong = earlier[ranked(judge(earlier), rng)[: max(1, count)]]
    return Ranking(failed, weak, strong, begun[order])


def replaced_count(size: int, quantile: float) -> int:
    """How many of `size` members are replaced: the quantile rounded down, at least one, at most half.

    >>> [replaced_count(size, 0.25) for size in (1, 2, 4, 7, 8, 12)]
    [0, 1, 1, 1, 2, 3]
    """
    return min(max(1, int(quantile * size + 1e-9)), size // 2)


def ranked(scores: FloatArray, rng: np.random.Generator) -> IntArray:
    """The indices of scores, the best (largest) first; ties in random order; NaN last."""
    shuffled = rng.permutation(len(scores))
    order: IntArray = shuffled[np.argsort(np.where(np.isnan(scores), np.inf, -scores)[shuffled], kind="stable")]
    return order
