"""Subtract and average numbers that people are shown: what rounding leaves of a 0 is 0, not 8.9e-16."""

import math
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from popbandits.basics.typing import FloatArray

ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""A result below this share of the numbers that it was computed from is taken for rounding."""


@overload
def without_rounding(value: float, scale: float) -> float: ...
@overload
def without_rounding(value: FloatArray, scale: FloatArray | float) -> FloatArray: ...
def without_rounding(value: Any, scale: Any) -> Any:
    """Replace what is rounding alone by 0.

    >>> without_rounding(0.1 + 0.2 - 0.3, scale=0.3), without_rounding(1e-17, scale=1e-17)
    (0.0, 1e-17)

    Args:
        value: A difference, mean or deviation, or an array of them.
        scale: Size of the numbers that it was computed from.
    """
    if isinstance(value, np.ndarray):
        return np.where(np.abs(value) <= ROUNDING * scale, 0.0, value)
    return 0.0 if abs(value) <= ROUNDING * scale else value


@overload
def difference(after: float, before: float) -> float: ...
@overload
def difference(after: FloatArray, before: FloatArray) -> FloatArray: ...
def difference(after: Any, before: Any) -> Any:
    """Subtract; numbers that are equal up to rounding differ by 0.

    >>> difference(5.1, 5.1 - 8.9e-16), difference(2.0, 1.5), difference(float("nan"), 1.0)
    (0.0, 0.5, nan)
    """
    largest = np.maximum if isinstance(after, np.ndarray) else max
    return without_rounding(after - before, largest(abs(after), abs(before)))


def mean(values: Sequence[float]) -> float:
    """Return the mean of numbers, even if their sum overflows.

    >>> mean([1.0, 2.0]), mean([1.5e308, 1.5e308]), mean([0.1, 0.2, -0.3])
    (1.5, 1.5e+308, 0.0)
    """
    total = sum(values)
    found = total / len(values) if math.isfinite(total) else sum(value / len(values) for value in values)
    return without_rounding(found, max(map(abs, values)))
