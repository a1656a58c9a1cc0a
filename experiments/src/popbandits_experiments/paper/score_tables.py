"""The paper's tables of scores: means and deviations by task and method, tested against a baseline."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtr

from popbandits.basics.wording import number
from popbandits.reports.stats import deviation
from popbandits.reports.tables import methods_of

BASELINES = ("PB2-Rand", "PBT")
"""Methods that the others are tested against: the paper's choice, then its nearest; else the first method."""


@dataclass(frozen=True)
class Cell:
    """The result of a method on a task."""

    values: tuple[float, ...]
    best: bool
    """Bold: at least two runs, within one standard deviation, the best method's, of the best mean."""
    p: float
    """p-value of Welch's t-test that the baseline has the same mean; NaN if it cannot be computed."""
    better: bool
    """True if the mean is on the better side of the baseline's."""

    @property
    def mean(self) -> float:
        """Mean over runs."""
        return float(np.mean(self.values))

    @property
    def starred(self) -> bool:
        """Better than the baseline with p < 0.05."""
        return self.better and self.p < 0.05

    def __str__(self) -> str:
        spread = deviation(self.values)
        return number(self.mean) if math.isnan(spread) else f"{number(self.mean)} ± {number(spread, 2)}"


@dataclass(frozen=True)
class ScoreTable:
    """The paper's table: mean ± standard deviation by task and method, and normalised over all tasks."""

    measure: str
    baseline: str
    methods: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Cell]]
    normalised: Mapping[str, Cell]
    """Percent of the baseline's mean on the same task; empty where that is meaningless."""


def score_table(
    tasks: Mapping[str, Mapping[str, Sequence[Any]]], measure: str, value: Callable[[Any], float | None], sign: float
) -> ScoreTable | None:
    """Make the table of one measure; None if no run has it."""
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for task, groups in tasks.items():
        for method, runs in groups.items():
            values = tuple(v for v in map(value, runs) if v is not None)
            if values:
                found.setdefault(task, {})[method] = values
    if not found:
        return None
    methods = tuple(methods_of(tasks))
    baseline = next((name for name in BASELINES if name in methods), methods[0])
    rows = {task: _row(groups, groups.get(baseline, ()), sign) for task, groups in found.items()}
    pooled: dict[str, tuple[float, ...]] = {}
    bases = {task: float(np.mean(groups[baseline])) for task, groups in found.items() if baseline in groups}
    # A share of a mean that is zero or negative says nothing.
    if len(bases) == len(found) and min(bases.values()) > 0:
        for method in methods:
            values = tuple(100 * v / bases[task] for task, groups in found.items() for v in groups.get(method, ()))
            if all(method in groups for groups in found.values()):
                pooled[method] = values
    normalised = _row(pooled, pooled.get(baseline, ()), sign) if pooled else {}
    return ScoreTable(measure, baseline, methods, rows, normalised)


def _row(groups: Mapping[str, Sequence[float]], base: Sequence[float], sign: float) -> dict[str, Cell]:
    leader = max(groups.values(), key=lambda values: sign * float(np.mean(values)))
    limit = sign * float(np.mean(leader)) - np.nan_to_num(deviation(leader))
    return {
        method: Cell(
            tuple(values),
            # One run says nothing of the spread that bold stands for.
            best=len(values) > 1 and bool(sign * float(np.mean(values)) >= limit - 1e-12 * abs(limit)),
            p=math.nan if values is base else welch(values, base),
            better=bool(len(base)) and sign * float(np.mean(values)) > sign * float(np.mean(base)),
        )
        for method, values in groups.items()
    }


def welch(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p-value of Welch's t-test for equal means; NaN if a variance is unknown.

    >>> round(welch([1.0, 2.0, 3.0], [4.0, 6.0, 8.0]), 4)
    0.0548
    """
    if min(len(a), len(b)) < 2:
        return math.nan
    va, vb = np.var(a, ddof=1) / len(a), np.var(b, ddof=1) / len(b)
    if va + vb == 0:
        return math.nan
    t = (np.mean(a) - np.mean(b)) / math.sqrt(va + vb)
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return float(2 * stdtr(freedom, -abs(t)))
