"""Types of arrays and paths."""

import os

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Directory = str | os.PathLike[str]
"""A folder, by its path."""
