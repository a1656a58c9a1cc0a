"""Statistics of several runs, and of what mattered: an interval beside the others."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import kendalltau

from popbandits.basics.arithmetic import without_rounding
from popbandits.basics.typing import FloatArray, IntArray

MIN_POINTS, MIN_POINTS_APART = 8, 3
"""Points that a rank correlation needs, and the number of them that differ from the commonest value, in x and in y."""
MAX_PEERS = 20
"""Maximum members that an interval is compared with at its starting score."""


@dataclass(frozen=True)
class Association:
    """Rank correlation of x and y, and how far it is from zero."""

    tau: float
    """Kendall's tau-b, from -1 to +1."""
    z: float
    """The number of concordant less discordant pairs, by its standard deviation where x and y are independent."""
    count: int


def association(x: FloatArray, y: FloatArray) -> Association | None:
    """Correlate the ranks of x and y; None if there are too few points.

    Ranks bound the weight of an outlier, except among ties: if one point differs in x and in y and all others are
    equal, the correlation is perfect. So `MIN_POINTS` points are needed, of which `MIN_POINTS_APART` differ from the
    commonest value.

    >>> found = association(np.arange(8.0), np.array([1.0, 2.0, 4.0, 3.0, 5.0, 6.0, 7.0, -900.0]))
    >>> round(found.tau, 3), round(found.z, 2)
    (0.429, 1.48)
    """
    n = len(x)
    if n < MIN_POINTS:
        return None
    if any(n - np.unique(values, return_counts=True)[1].max() < MIN_POINTS_APART for values in (x, y)):
        return None
    tau, p = map(float, kendalltau(x, y, method="asymptotic"))
    z = -float(ndtri(max(p / 2, sys.float_info.min)))  # p is 0 beyond 38 standard deviations.
    return Association(tau, math.copysign(z, tau), n)


def critical(comparisons: int) -> float:
    """Return a bound on |z| that, without any effect, one of `comparisons` exceeds with probability 0.05 at most.

    >>> round(critical(1), 2), round(critical(20), 2)
    (1.96, 3.02)
    """
    return float(-ndtri(0.025 / max(comparisons, 1)))


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample; NaN for a single value."""
    return without_rounding(float(np.std(values, ddof=1)), max(map(abs, values))) if len(values) > 1 else math.nan


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean; NaN for a single value."""
    return deviation(values) / math.sqrt(len(values)) if len(values) else math.nan


def beside_others(values: FloatArray, groups: IntArray) -> FloatArray:
    """Subtract from each value the median of the other values of its group; NaN where there is no other.

    >>> beside_others(np.array([1.0, 2.0, 4.0, 8.0, 5.0]), np.array([0, 0, 0, 0, 1])).tolist()
    [-3.0, -2.0, 2.0, 6.0, nan]
    """
    found = np.full(len(values), np.nan)
    known = np.flatnonzero(np.isfinite(values))
    known = known[np.lexsort((values[known], groups[known]))]
    for group in np.split(known, np.flatnonzero(np.diff(groups[known])) + 1):
        if (n := len(group)) > 1:
            ranks, ordered = np.arange(n), values[group]
            # Without the value of a rank, the values after it move down by one.
            low, high = (ordered[middle + (ranks <= middle)] for middle in ((n - 2) // 2, (n - 1) // 2))
            found[group] = ordered - (low / 2 + high / 2)
    return found


def usual_at(start: FloatArray, change: FloatArray, member: IntArray) -> FloatArray:
    """Return what other members usually gained where an interval began: their median at its starting score.

    A member counts at the scores that it passed, or came within the usual change of; between its own starting scores
    its change is interpolated. Where no other member was, the one that came nearest counts.

    Args:
        start: Score at the beginning of each interval.
        change: What each interval gained.
        member: Member that trained each interval; there are at least two.
    """
    members = np.unique(member)
    peers = members[np.linspace(0, len(members) - 1, min(MAX_PEERS, len(members))).astype(np.int64)].tolist()
    gained, distance = np.empty((2, len(peers), len(start)))
    for row, peer in enumerate(peers):
        own = np.flatnonzero(member == peer)
        own = own[np.argsort(start[own], kind="stable")]
        gained[row] = np.interp(start, start[own], change[own])
        beyond = np.maximum(start[own[0]] - start, start - start[own[-1]])
        distance[row] = np.where(member == peer, np.inf, np.maximum(beyond, 0.0))
    near = distance <= np.maximum(np.median(np.abs(change)), distance.min(axis=0))
    return np.asarray(np.nanmedian(np.where(near, gained, np.nan), axis=0))
