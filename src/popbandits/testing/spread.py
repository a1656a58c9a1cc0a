"""The spread of scores of an agent that is not deterministic, when nothing was changed."""

import math
import statistics
from collections.abc import Iterable

from scipy.special import stdtrit

from popbandits.basics.wording import number

_P_VALUE = 0.005
"""Two-sided probability that a score falls beyond the spread by chance, if scores are normal."""
_MIN_SCORES = 3
"""Minimum number of scores of a spread."""


class Spread:
    """The scores of intervals that differ only by chance.

    >>> spread = Spread([1.0, 1.2, 0.9, 1.1, 0.8])
    >>> print(spread)
    mean 1, standard deviation 0.158, from 0.8 to 1.2, of 5 loads
    >>> spread.holds(1.5), spread.holds(-5.0)
    (True, False)
    """

    def __init__(self, scores: Iterable[float]) -> None:
        self._all = tuple(scores)
        self._scores = tuple(score for score in self._all if math.isfinite(score))

    def holds(self, score: float) -> bool | None:
        """Tell whether chance explains another score; None if too few scores are finite."""
        if len(self._scores) < _MIN_SCORES or not math.isfinite(score):
            return None
        n, middle = len(self._scores), statistics.fmean(self._scores)
        limit = float(stdtrit(n - 1, 1 - _P_VALUE / 2)) * statistics.stdev(self._scores) * math.sqrt(1 + 1 / n)
        return abs(score - middle) <= limit + 1e-12 * abs(middle)  # for rounding

    def __str__(self) -> str:
        count = f"of {len(self._all)} loads"
        if len(self._scores) < _MIN_SCORES:
            return f"{len(self._scores)} finite scores {count}"
        middle, deviation = statistics.fmean(self._scores), statistics.stdev(self._scores)
        ends = f"from {number(min(self._scores))} to {number(max(self._scores))}"
        return f"mean {number(middle)}, standard deviation {number(deviation, 3)}, {ends}, {count}"
