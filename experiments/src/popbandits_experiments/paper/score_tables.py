"""The paper's tables of scores: means and deviations by task and method, tested against a baseline."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from popbandits.reports.stats import deviation
from popbandits.reports.tables import methods_of

BASELINES = ("PB2-Rand", "PBT")
"""Methods that the others are tested against: the paper's choice, then its nearest; else the first method."""

ENOUGH = 3
"""Fewest runs of a row that may be bold."""


@dataclass(frozen=True)
class Cell:
    """The result of a method on a task."""

    values: tuple[float, ...]
    best: bool
    """Bold: at least three runs, within one standard deviation, the best method's, of the best mean."""
    p: float
    """p-value of Welch's t-test that the baseline has the same mean; NaN if it cannot be computed."""
    starred: bool
    """Better than the baseline with p < 0.05."""

    @property
    def mean(self) -> float:
        """Mean over runs."""
        return float(np.mean(self.values))

    @property
    def few(self) -> bool:
        """True if there are too few runs to say anything."""
        return len(self.values) < ENOUGH


@dataclass(frozen=True)
class ScoreTable:
    """The paper's table: the results by task and method, and normalised over all tasks."""

    baseline: str
    rows: Mapping[str, Mapping[str, Cell]]
    normalised: Mapping[str, Cell]
    """Percent of the baseline's mean on the same task; empty where that is meaningless."""


def score_table(tasks: Mapping[str, Mapping[str, Sequence[float]]]) -> ScoreTable:
    """Make the table of the scores of runs, by task and method."""
    methods = methods_of(tasks)
    baseline = next((name for name in BASELINES if name in methods), methods[0])
    bases = {task: float(np.mean(groups[baseline])) for task, groups in tasks.items() if baseline in groups}
    normalised: Mapping[str, Cell] = {}
    # A share of a mean that is zero or negative says nothing.
    if len(bases) == len(tasks) and min(bases.values()) > 0:
        everywhere = [method for method in methods if all(method in groups for groups in tasks.values())]
        shares = {
            method: [100 * value / bases[task] for task, groups in tasks.items() for value in groups[method]]
            for method in everywhere
        }
        normalised = _row(shares, baseline)
    return ScoreTable(baseline, {task: _row(groups, baseline) for task, groups in tasks.items()}, normalised)


def _row(groups: Mapping[str, Sequence[float]], baseline: str) -> dict[str, Cell]:
    base = groups.get(baseline, ())
    leader = max(groups.values(), key=lambda values: float(np.mean(values)))
    limit = float(np.mean(leader)) - np.nan_to_num(deviation(leader))
    row = {}
    for method, values in groups.items():
        mean, p = float(np.mean(values)), math.nan if method == baseline else welch(values, base)
        # Few runs say little of the spread that bold stands for.
        best = len(values) >= ENOUGH and bool(mean >= limit - 1e-12 * abs(limit))
        row[method] = Cell(tuple(values), best, p, starred=p < 0.05 and mean > float(np.mean(base)))
    return row


def welch(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p-value of Welch's t-test for equal means; NaN if a variance is unknown.

    >>> round(welch([1.0, 2.0, 3.0], [4.0, 6.0, 8.0]), 4)
    0.0548
    """
    error, freedom = _apart(a, b)
    return math.nan if math.isnan(error) else float(2 * stdtr(freedom, -abs(np.mean(a) - np.mean(b)) / error))


def welch_interval(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Return Welch's 95% interval of the difference of two means; NaN if a variance is unknown.

    >>> [round(number, 2) for number in welch_interval([1.0, 2.0, 3.0], [4.0, 6.0, 8.0])]
    [-8.16, 0.16]
    """
    error, freedom = _apart(a, b)
    if math.isnan(error):
        return math.nan, math.nan
    difference, reach = float(np.mean(a) - np.mean(b)), float(stdtrit(freedom, 0.975)) * error
    return difference - reach, difference + reach


def _apart(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Return the standard error of a difference of means and its degrees of freedom; NaN if a variance is unknown."""
    if min(len(a), len(b)) < 2:
        return math.nan, math.nan
    va, vb = np.var(a, ddof=1) / len(a), np.var(b, ddof=1) / len(b)
    if va + vb == 0:
        return math.nan, math.nan
    return math.sqrt(va + vb), float((va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1)))


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and its 95% interval by Student's t; NaN for an interval of fewer than two values.

    >>> [round(number, 2) for number in mean_interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    mean, freedom = float(np.mean(values)), len(values) - 1
    reach = float(stdtrit(freedom, 0.975)) * deviation(values) / math.sqrt(len(values)) if freedom else math.nan
    return mean, mean - reach, mean + reach
