"""Shared types, and checks of which arguments count as numbers."""

import os
from numbers import Integral, Real

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Directory = str | os.PathLike[str]
"""A folder, by its path."""


def is_real(value: object) -> bool:
    """Tell whether a value is a real number; NaN and booleans are not.

    >>> is_real(1), is_real(np.float32(0.5)), is_real(float("nan")), is_real(True), is_real("1")
    (True, True, False, False, False)
    """
    return (type(value) is float or (type(value) is not bool and isinstance(value, Real))) and bool(value == value)


def is_whole(value: object, least: int) -> bool:
    """Tell whether a value is an integer (not a boolean, not 2.0) of at least `least`."""
    if type(value) is int:  # The checks below take ten times as long.
        return value >= least
    return type(value) is not bool and isinstance(value, Integral) and int(value) >= least
