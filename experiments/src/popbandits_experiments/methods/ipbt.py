r"""IPBT (Chebykin et al. 2025, arXiv 2511.09190): start again when progress ends, and then select less often.

A start is judged by its best scores, one for each interval since it began, y_1 .. y_n. They are smoothed by a Gaussian
process over x = 0 .. 1 and standardised y, with a Matern-5/2 kernel:

    k(x, x') = (1 + d + d^2 / 3) exp(-d),   d = sqrt(5) |x - x'| / l                        (1)
    m = K (K + r I)^-1 y,   l and r those of a GRID with the highest likelihood, where s is the best variance:
    log L = -n/2 log s - 1/2 log det(K + r I),   s = y' (K + r I)^-1 y / n                  (2)

An interval improved if m_n > m_(n-1), each smoothed with the data up to then. After `patience` intervals in a row that
did not, and also if the last STALL_INTERVALS raised the best score by less than its standard deviation, all members
start afresh, and the interval becomes `growth` times as long.

All state is read from the history: a start is an observation without a parent after round 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from popbandits.basics.rules import SHARE, whole
from popbandits.basics.typing import BoolArray, FloatArray, IntArray
from popbandits.errors import ArgumentError
from popbandits.history import History, Key
from popbandits.history.memory import NO_INDEX
from popbandits.selection.selection import Picks, Selection
from popbandits.selection.truncation import Truncation, rank, replace_members

GRID = list(product((0.1, 0.2, 0.4, 0.8, 1.6), (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)))
"""Candidate length-scales l and noise variances r."""

STALL_INTERVALS = 15
"""Number of intervals in which the best score must rise by its standard deviation."""

MAX_INTERVALS = 64
"""Maximum number of last intervals of a start that are smoothed."""


@dataclass(frozen=True)
class Restarts(Selection):
    """Another selection, plus a restart of all members when the best score stops improving.

    Of the members that restart, those with an odd number take a past configuration: the first ones of the lineages that
    scored best in earlier starts. The others get one from the explorer, without a parent.

    Paper: each start trains twice as many members as stay; half of the members continue from shrunk weights; half of
    the configurations are drawn and half come from a model over earlier starts. Here: a population has one size, agents
    need not know how to shrink, and the selection has no model: the explorer draws or models configurations.

    Args:
        quantile: Share of members that is replaced, above 0 and at most 0.5. None (default) is that of `within`, or
            0.25. Raise it to give up weak members sooner.
        patience: Number of intervals without improvement after which all members restart. Default 3. Raise it if scores
            rise slowly or are noisy.
        growth: Factor by which the interval grows with each restart. Default 2. Use 1 to keep it at one round.
        within: Selection between two restarts. None (default) is `Truncation(quantile)`. Change it as you would change
            a run's selection.
    """

    quantile: float | None = None
    patience: int = 3
    growth: int = 2
    within: Selection | None = None

    def __post_init__(self) -> None:
        if self.within is not None and not isinstance(self.within, Selection):
            raise ArgumentError(f"within must be a Selection, or None for truncation, got {self.within!r}")
        own: float | None = getattr(self.within, "quantile", None)
        if self.quantile is None:
            object.__setattr__(self, "quantile", Truncation.quantile if own is None else own)
        elif own is not None and own != self.quantile:
            raise ArgumentError(f"quantile must be that of within, {own!r}, got {self.quantile!r}; leave it out")
        SHARE.check("quantile", self._quantile)
        whole(1, fix="3 is usual").check("patience", self.patience)
        whole(1, fix="2 is usual").check("growth", self.growth)

    @property
    def _quantile(self) -> float:
        assert self.quantile is not None
        return self.quantile

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Restart members, select by `within` where an interval ends, and let the others continue."""
        starts = Starts.of(history)
        age = (history.member_states().finished - starts.born)[members]
        ends = age % self.growth**starts.latest == 0
        over = starts.together and bool(ends.any()) and self._is_over(history, starts)
        again = (starts.count[members] < starts.latest) | (ends & over)
        selects = ends & ~again & starts.together
        selection = Truncation(self._quantile) if self.within is None else self.within
        return _combine(
            members,
            (again, lambda some: _restart(history, some)),
            (selects, lambda some: selection.select(history, some, rng)),
            (~again & ~selects, lambda some: self._continue(history, some, starts, rng)),
        )

    def _is_over(self, history: History, starts: "Starts") -> bool:
        """Tell whether the present start has stopped improving, and there is time for another."""
        finished = history.member_states().finished
        left = np.inf if history.rounds is None else history.rounds - finished.max()
        if left < 2 * self.growth ** (starts.latest + 1):  # As the paper's code: two intervals, or none.
            return False
        interval = self.growth**starts.latest
        best = starts.best(history, interval, int((finished - starts.born).min()) // interval)
        return is_stuck(best, self.patience)

    def _continue(self, history: History, members: IntArray, starts: "Starts", rng: np.random.Generator) -> Picks:
        """Replace only failures, by members of the same start."""
        alike = np.flatnonzero(starts.count == starts.latest)
        ranking = rank(history, self._quantile, rng, history.scores, alike)
        return replace_members(history, members, ranking.failed, ranking.draw(int(ranking.failed.sum()), rng))


@dataclass(frozen=True)
class Starts:
    """Number and time of each member's restarts."""

    count: IntArray
    """By member: number of restarts."""
    born: IntArray
    """By member: round of its last start."""
    together: bool
    """True if all members have begun the present start; in asynchronous runs they begin one by one."""

    @staticmethod
    def of(history: History) -> "Starts":
        """Read the starts from a history."""
        indices = np.arange(len(history))
        member, round_ = history.column("member", indices), history.column("round", indices)
        completed = np.isfinite(history.scores(indices))
        size = len(history.member_states().latest)
        first = np.full(size, np.iinfo(np.int64).max)
        np.minimum.at(first, member[completed], round_[completed])
        # A member without weights starts afresh too; that is not a restart.
        started = history.column("fresh", indices) & (round_ > first[member])
        count = np.bincount(member[started], minlength=size)
        born = np.zeros(size, dtype=np.int64)
        np.maximum.at(born, member[started], round_[started])
        return Starts(count, born, bool((count == count.max()).all()))

    @property
    def latest(self) -> int:
        """Number of the present start, from 0."""
        return int(self.count.max())

    def best(self, history: History, interval: int, count: int) -> FloatArray:
        """Return the best score at the end of each of the first `count` intervals, the last MAX_INTERVALS of them."""
        indices = np.arange(len(history))
        age = history.column("round", indices) - self.born[history.column("member", indices)] + 1
        ends = (age > 0) & (age % interval == 0) & (age <= interval * count)
        best = np.full(count, np.nan)
        np.fmax.at(best, age[ends] // interval - 1, history.scores(indices[ends]))
        known: FloatArray = best[np.isfinite(best)]
        return known[-MAX_INTERVALS:]


def _combine(members: IntArray, *parts: tuple[BoolArray, Callable[[IntArray], Picks]]) -> Picks:
    """Get the picks of each part of the members, and combine them."""
    nowhere = np.full(len(members), NO_INDEX)
    picks = Picks(nowhere, nowhere.copy(), np.zeros(len(members), dtype=np.bool_))
    for mask, ask in parts:
        if mask.any():
            some = ask(members[mask])
            picks.weights[mask], picks.config[mask], picks.explores[mask] = some.weights, some.config, some.explores
    return picks


def _restart(history: History, members: IntArray) -> Picks:
    """Start with new weights: odd members with a configuration that did well, the others with a new one."""
    kept = founders(history)
    config = np.array([kept[m // 2] if m % 2 and m // 2 < len(kept) else NO_INDEX for m in members.tolist()])
    return Picks(np.full(len(members), NO_INDEX), config, config == NO_INDEX)


def founders(history: History) -> list[int]:
    """Return the indices of distinct first configurations, those whose descendants scored best first."""
    founder: dict[Key, int] = {}
    reached: dict[int, float] = {}
    for index, observation in enumerate(history):
        parent = observation.parent
        first = founder[observation.key] = index if parent is None else founder[parent]
        if not observation.failed:
            reached[first] = max(reached.get(first, -np.inf), history.sign * observation.score)
    found: list[int] = []
    for index in sorted(reached, key=lambda each: -reached[each]):
        if history[index].config not in [history[other].config for other in found]:
            found.append(index)
    return found


def is_stuck(best: FloatArray, patience: int) -> bool:
    """Tell whether the last intervals did not improve, by the module's rule.

    >>> is_stuck(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 3), is_stuck(np.array([1.0, 5.0, 4.0, 3.0, 2.0]), 3)
    (False, True)
    """
    if len(best) >= STALL_INTERVALS and np.max(best) - np.max(best[: 1 - STALL_INTERVALS]) < np.std(best, ddof=1):
        return True
    if len(best) <= patience:
        return False
    smoothed = (smooth(best[:end]) for end in range(len(best) - patience + 1, len(best) + 1))
    return not any(mean[-1] > mean[-2] for mean in smoothed)


def smooth(y: FloatArray) -> FloatArray:
    """Standardise a series, and smooth it by the module's Gaussian process.

    >>> smooth(np.array([1.0, 1.0, 1.0]))
    array([0., 0., 0.])
    """
    y = y - np.mean(y)
    spread = float(np.std(y))
    if not spread > 1e-12 * float(np.abs(y).max(initial=0.0)):
        return np.zeros_like(y)
    return max((posterior(y / spread, length, noise) for length, noise in GRID), key=lambda found: found[0])[1]


def posterior(y: FloatArray, length: float, noise: float) -> tuple[float, FloatArray]:
    """Return log L, up to a constant, and the mean m at the points themselves."""
    x = np.linspace(0.0, 1.0, len(y))
    d = np.sqrt(5) / length * np.abs(x[:, None] - x)
    k = (1 + d + d * d / 3) * np.exp(-d)  # (1)
    noisy = k + noise * np.eye(len(y))
    solved = np.linalg.solve(noisy, y)
    return float(-len(y) * np.log(y @ solved / len(y)) - np.linalg.slogdet(noisy)[1]) / 2, k @ solved  # (2)
