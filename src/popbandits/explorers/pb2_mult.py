"""PB2-Mult (paper, Algorithm "PB2-Mult: explore"): TV.EXP3.M picks the labels, a separate GP for them the numbers."""

from dataclasses import dataclass

import numpy as np

from popbandits.basics.typing import BoolArray, IntArray
from popbandits.explorers.pb2_mix import PB2Mix
from popbandits.history import Rows


@dataclass(frozen=True)
class PB2Mult(PB2Mix):
    """Choose labels by TV.EXP3.M; numbers by a GP fitted only to the rows with exactly these labels.

    So each combination of labels has its own parameters and its own optimum. For labels without data the numbers are
    drawn at random: returning the parent's configuration instead would mean that new labels are never tried.

    Args:
        c1: Scale of the weight of uncertainty in the upper confidence bound, sqrt(c1 log(c2 n)) after n observations;
            at least 0. Default 0.2. Raise it to explore more, lower it to stay with what worked.
        c2: Scale of the number of observations in that weight; above 0. Default 0.4. Raise it to explore earlier in a
            run.
        window: Maximum number of observations that a decision uses: the model uses the recent half and older ones with
            new configurations, bandits the last. Default 300, which keeps a decision under half a second. None uses
            all.
        per_dimension: Whether each number has its own length-scale instead of one for all. Default False. Use True if
            few of many numbers matter, and there are enough observations.
        score_before: Whether the model sees the score before the interval. Default False. Use True if gains depend on
            how good a member already is; it harms if the score is a running total.
        continued_only: Whether the model leaves out intervals with a new configuration, as the published code does.
            Default False. Who is copied was lucky, so the score falls next, least where hardly anything is learnt: a
            model of all intervals prefers that. Without them it sees no collapse; on four tasks it was not better.
        edition: Edition of the rules. Default 2. Edition 1 is for runs of earlier versions: one collapse makes the
            bandit's other gains nearly equal, and a first decision takes the raw score as the score before.
    """

    def relevant(self, rows: Rows, labels: IntArray) -> BoolArray:
        """Return the mask of rows with these labels; a variable that is inactive in a row matches any label."""
        same: BoolArray = np.all((rows.points.h == labels) | (rows.points.h < 0), axis=1)
        return same
