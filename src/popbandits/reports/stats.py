"""The arithmetic of the paper's tables and of its regressions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

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


def deviation(values: Sequence[float]) -> float:
    """The standard deviation of a sample; NaN of a single value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def standard_error(values: Sequence[float]) -> float:
    """Of the mean; NaN of a single value."""
    return deviation(values) / math.sqrt(len(values)) if len(values) else math.nan
