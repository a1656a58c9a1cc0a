"""Add up what a run has spent: the costs that its agents report or, if they report none, their seconds of training."""

import numpy as np

from popbandits.basics.typing import FloatArray


def spending(costs: FloatArray, seconds: FloatArray) -> FloatArray:
    """Return what a run had spent at the end of each of its intervals, in the order in which they ended.

    An interval that reported nothing, because it failed, is taken to have cost the mean of the others.

    >>> spending(np.array([1.0, np.nan, 3.0]), np.array([60.0, 60.0, 60.0])).tolist()
    [1.0, 3.0, 6.0]
    >>> spending(np.full(3, np.nan), np.array([60.0, 60.0, 60.0])).tolist()
    [60.0, 120.0, 180.0]
    """
    known = costs if np.isfinite(costs).any() else seconds
    there = np.isfinite(known)
    return np.cumsum(np.where(there, known, known[there].mean() if there.any() else 0.0))
