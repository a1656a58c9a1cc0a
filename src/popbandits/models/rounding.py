"""Dependent rounding: random integers with given means and sum (Gandhi and others, J. ACM 53, 2006)."""

import math

import numpy as np

from popbandits.errors import ArgumentError
from popbandits.typing import FloatArray, IntArray

_TOLERANCE = 1e-9  # A number this close to an integer counts as that integer.


def dependent_rounding(expected: FloatArray, rng: np.random.Generator) -> IntArray:
    """Integer counts with mean `expected`, each the floor or the ceiling of it, and with the same sum.

    >>> counts = dependent_rounding(np.array([0.25, 1.0, 0.75, 2.5, 0.5]), np.random.default_rng(0))
    >>> int(counts[1]), int(counts.sum())
    (1, 5)
    """
    values = expected.tolist()
    total = sum(values)
    if not (math.isfinite(total) and min(values, default=0.0) >= 0.0 and abs(math.remainder(total, 1.0)) <= _TOLERANCE):
        raise ArgumentError(
            f"'expected': must be at least 0 each and add up to an integer, got {values}, "
            f"which add up to {total}; rescale them"
        )
    counts = [math.floor(value + _TOLERANCE) for value in values]
    # A number for every entry, used or not: how far the generator moves should not depend on the values.
    uniforms = rng.random(len(values)).tolist()
    # Two fractions at a time: one becomes 0 or 1, and the other what is left, so that neither their sum nor
    # either mean changes. `undecided` is the entry that is left, `fraction` what it has above its floor.
    undecided, fraction = 0, 0.0
    for entry, value in enumerate(values):
        other = value - counts[entry]
        if other <= _TOLERANCE:
            continue
        both = fraction + other
        if both < 1.0:  # One becomes 0.
            if uniforms[entry] * both >= fraction:
                undecided = entry
            fraction = both
        else:  # One becomes 1.
            if uniforms[entry] * (2.0 - both) < 1.0 - other:
                counts[undecided] += 1
                undecided = entry
            else:
                counts[entry] += 1
            fraction = both - 1.0
    if fraction > 0.5:  # It is 0 or 1 but for rounding errors, so that the sum of the integers is exact.
        counts[undecided] += 1
    return np.array(counts, dtype=np.int64)
