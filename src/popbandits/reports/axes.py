"""Other axes of learning curves: steps and training time along lineages, and the metrics that agents reported."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from popbandits.history.frame import flat
from popbandits.typing import FloatArray, IntArray, is_real

SPENT = ("steps", "seconds")
"""Fields of an observation that add up along a lineage."""
OFFERED = 20
"""Maximum metrics that a page offers as an axis."""


def totals(parents: IntArray, spent: FloatArray) -> FloatArray:
    """Add up what was spent along lineages: by an interval itself, and by all its ancestors; NaN if any is unknown.

    Args:
        parents: Index of each interval's parent, which comes before it; -1 for a fresh start.
        spent: What each interval spent; NaN if unknown.

    >>> totals(np.array([-1, 0, 1, 0]), np.array([10.0, 5.0, 1.0, 20.0])).tolist()
    [10.0, 15.0, 16.0, 30.0]
    """
    found: list[float] = []
    for parent, own in zip(parents.tolist(), spent.tolist(), strict=True):
        found.append(own if parent < 0 else found[parent] + own)
    return np.array(found, np.float64)


def spent_tables(places: IntArray, parents: IntArray, spent: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Return the totals along lineages as tables, without those that are nowhere known or all 0.

    Args:
        places: (rounds, members) index of each interval; -1 for missing ones.
        parents: Index of each interval's parent; -1 for a fresh start.
        spent: What each interval spent, by name; NaN if unknown.
    """
    found = {name: totals(parents, own) for name, own in spent.items() if np.isfinite(own).any()}
    return {name: on_table(places, total) for name, total in found.items() if (total > 0).any()}


def on_table(places: IntArray, values: FloatArray) -> FloatArray:
    """Put values by index onto a table of rounds and members; NaN where there is no interval."""
    table = np.full(places.shape, np.nan)
    there = places >= 0
    table[there] = values[places[there]]
    return table


def numbers_of(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers among metrics, by dotted name; true is 1 and false is 0.

    >>> numbers_of({"loss": {"policy": 0.5}, "solved": True, "level": "hard", "entropy": float("nan")})
    {'loss.policy': 0.5, 'solved': 1.0}
    """
    if not metrics:
        return {}
    return {
        name: float(value)
        for name, value in flat(metrics, "").items()
        if isinstance(value, bool) or (is_real(value) and math.isfinite(value))
    }


def metric_column(name: str, metrics: Sequence[Mapping[str, Any]]) -> FloatArray:
    """Return one metric of some intervals; NaN where it was not reported as a finite number."""
    return np.array([numbers_of(reported).get(name, math.nan) for reported in metrics], np.float64)


def offered(metrics: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the metrics to offer, in order: those with a finite number in any of these intervals."""
    return sorted({name for reported in metrics for name in numbers_of(reported)})[:OFFERED]


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit for an axis that ends at so many seconds: its length in seconds, and its name.

    >>> time_unit(90.0), time_unit(3600.0), time_unit(86400.0)
    ((1.0, 's'), (60.0, 'min'), (3600.0, 'h'))
    """
    return (1.0, "s") if seconds < 120 else (60.0, "min") if seconds < 7200 else (3600.0, "h")
