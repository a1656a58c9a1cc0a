"""PB2-Mult (paper, Algorithm "PB2-Mult: explore"): TV.EXP3.M picks the labels, a GP of their own the numbers."""

from dataclasses import dataclass

import numpy as np

from popbandits.docstrings import complete_args
from popbandits.explorers.pb2_mix import PB2Mix
from popbandits.history import Rows
from popbandits.typing import BoolArray, IntArray


@complete_args(PB2Mix)
@dataclass(frozen=True)
class PB2Mult(PB2Mix):
    """Labels by TV.EXP3.M; numbers by a GP that knows only the rows with these very labels.

    So each label has its own parameters and its own idea of what is good. Labels without data keep their place and
    have their numbers drawn: handing back the parent's configuration would mean that new labels are never tried.
    """

    def relevant(self, rows: Rows, labels: IntArray) -> BoolArray:
        """The rows with the same labels; a variable that is inactive in a row agrees with any label."""
        same: BoolArray = np.all((rows.points.h == labels) | (rows.points.h < 0), axis=1)
        return same
