"""Statistics of several runs, and of which hyperparameters mattered."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import kendalltau

from popbandits.basics.typing import FloatArray

MIN_POINTS, MIN_POINTS_APART = 8, 3
"""Points that a rank correlation needs, and the number of them that differ from the commonest value, in x and in y."""


@dataclass(frozen=True)
class Association:
    """Rank correlation of x and y, and how far it is from zero."""

    tau: float
    """Kendall's tau-b, from -1 to +1."""
    z: float
    """The number of concordant less discordant pairs, by its standard deviation where x and y are independent."""
    count: int


def mean(values: Sequence[float]) -> float:
    """Return the mean of numbers, even if their sum overflows.

    >>> mean([1.0, 2.0]), mean([1.5e308, 1.5e308])
    (1.5, 1.5e+308)
    """
    total = sum(values)
    return total / len(values) if math.isfinite(total) else sum(value / len(values) for value in values)


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
    ties = [np.unique(values, return_counts=True)[1].astype(float) for values in (x, y)]
    if any(n - counts.max() < MIN_POINTS_APART for counts in ties):
        return None
    (pairs_x, triples_x, spread_x), (pairs_y, triples_y, spread_y) = map(_tied, ties)
    pairs, triples, spread = _tied(np.array([float(n)]))
    tau = float(kendalltau(x, y).statistic)
    concordant = tau * math.sqrt((pairs - pairs_x) * (pairs - pairs_y)) / 2
    variance = (spread - spread_x - spread_y) / 18
    variance += pairs_x * pairs_y / (2 * pairs) + triples_x * triples_y / (9 * triples)
    return Association(tau, concordant / math.sqrt(variance), n)


def _tied(counts: FloatArray) -> tuple[float, float, float]:
    """Sum the terms of groups of equal values in the variance of Kendall's statistic (Kendall 1970, chapter 5)."""
    pairs = counts * (counts - 1)
    return float(pairs.sum()), float((pairs * (counts - 2)).sum()), float((pairs * (2 * counts + 5)).sum())


def critical(comparisons: int) -> float:
    """Return a bound on |z| that, without any effect, one of `comparisons` exceeds with probability 0.05 at most.

    >>> round(critical(1), 2), round(critical(20), 2)
    (1.96, 3.02)
    """
    return float(-ndtri(0.025 / max(comparisons, 1)))


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample; NaN for a single value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean; NaN for a single value."""
    return deviation(values) / math.sqrt(len(values)) if len(values) else math.nan
