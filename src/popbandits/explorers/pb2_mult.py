"""PB2-Mult (paper, Algorithm "PB2-Mult: explore"): TV.EXP3.M picks the labels, a separate GP for them the numbers."""

from dataclasses import dataclass

import numpy as np

from popbandits.docstrings import complete_args
from popbandits.explorers.pb2_mix import PB2Mix
from popbandits.history import Rows
from popbandits.typing import BoolArray, IntArray


@complete_args(PB2Mix)
@dataclass(frozen=True)
class PB2Mult(PB2Mix):
    """Choose labels by TV.EXP3.M; numbers by a GP fitted only to the rows with exactly these labels.

    So each combination of labels has its own parameters and its own optimum. For labels without data the numbers are
    drawn at random: returning the parent's configuration instead would mean that new labels are never tried.
    """

    def relevant(self, rows: Rows, labels: IntArray) -> BoolArray:
        """Return the mask of rows with these labels; a variable that is inactive in a row matches any label."""
        same: BoolArray = np.all((rows.points.h == labels) | (rows.points.h < 0), axis=1)
        return same
