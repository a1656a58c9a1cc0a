"""The arithmetic of the paper's tables and of its regressions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from popbandits.typing import FloatArray


@dataclass(frozen=True)
class Regression:
    """The slope of y = a + b x, as far as it differs from zero."""

    t: float
    """b by its standard error."""
    count: int

    @property
    def critical(self) -> float:
        """Beyond what |t| the two-sided p is below 0.05."""
        return float(stdtrit(self.count - 2, 0.975))

    @property
    def significant(self) -> bool:
        """Whether p < 0.05."""
        return abs(self.t) > self.critical


def mean(values: Sequence[float]) -> float:
    """The mean of some numbers, also where their sum is more than a float holds.

    >>> mean([1.0, 2.0]), mean([1.5e308, 1.5e308])
    (1.5, 1.5e+308)
    """
    total = sum(values)
    return total / len(values) if math.isfinite(total) else sum(value / len(values) for value in values)


def regression(x: FloatArray, y: FloatArray) -> Regression | None:
    """The least-squares line through the points; None for fewer than 3, or all at one x or on one line.

    >>> found = regression(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 2.0, 4.0]))
    >>> round(found.t, 4), found.significant
    (3.4017, False)
    """
    n = len(x)
    if n < 3:
        return None
    dx, dy = x - x.mean(), y - y.mean()
    sxx, sxy = float(dx @ dx), float(dx @ dy)
    # Rounding leaves a spread where there is none.
    if sxx <= n * (1e-12 * float(np.abs(x).max())) ** 2:
        return None
    slope = sxy / sxx
    residual = dy - slope * dx
    rest = float(residual @ residual)
    if rest <= n * (1e-12 * float(np.abs(y).max())) ** 2:
        return None
    return Regression(slope / math.sqrt(rest / (n - 2) / sxx), n)


def welch(a: Sequence[float], b: Sequence[float]) -> float:
    """The two-sided p of Welch's t-test that both have the same mean; NaN where a spread is unknown.

    >>> round(welch([1.0, 2.0, 3.0], [4.0, 6.0, 8.0]), 4)
    0.0548
    """
    if min(len(a), len(b)) < 2:
        return math.nan
    va, vb = np.var(a, ddof=1) / len(a), np.var(b, ddof=1) / len(b)
    if va + vb == 0:
        return math.nan
    t = (np.mean(a) - np.mean(b)) / math.sqrt(va + vb)
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return float(2 * stdtr(freedom, -abs(t)))


def deviation(values: Sequence[float]) -> float:
    """The standard deviation of a sample; NaN of a single value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def standard_error(values: Sequence[float]) -> float:
    """Of the mean; NaN of a single value."""
    return deviation(values) / math.sqrt(len(values)) if len(values) else math.nan
