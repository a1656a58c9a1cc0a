"""Other axes of learning curves: steps and training time along lineages, and the metrics that agents reported."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from popbandits.basics.rules import is_real
from popbandits.basics.typing import FloatArray, IntArray
from popbandits.history.frame import flat

COSTS = ("steps", "seconds")
"""Fields of an observation that add up along a lineage."""
MAX_METRICS = 20
"""Maximum metrics that a page offers as an axis."""
MAX_INTERVALS_SEARCHED = 1_000
"""Maximum observations that are searched for names of metrics at a time: all of a long run would take long."""


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


def on_table(places: IntArray, values: FloatArray) -> FloatArray:
    """Put values by index onto a table of rounds and members; NaN where there is no interval."""
    table = np.full(places.shape, np.nan)
    there = places >= 0
    table[there] = values[places[there]]
    return table


def metric_column(name: str, metrics: Iterable[Mapping[str, Any]]) -> FloatArray:
    """Return one metric of some intervals, by its dotted name; NaN where it was not reported as a finite number.

    >>> metric_column("loss.policy", [{"loss": {"policy": 0.5}}, {"loss.policy": 2}, {"loss": 1.0}]).tolist()
    [0.5, 2.0, nan]
    """
    return np.array([_finite(_find(reported, name)) for reported in metrics], np.float64)


def _find(metrics: Mapping[str, Any], name: str) -> Any:
    """Look a value up by its dotted name: much faster than flattening all metrics of a long run."""
    value = metrics.get(name)
    if value is not None and not isinstance(value, Mapping):
        return value
    for i, letter in enumerate(name):
        inner = metrics.get(name[:i]) if letter == "." else None
        if isinstance(inner, Mapping) and (found := _find(inner, name[i + 1 :])) is not None:
            return found
    return None


def _finite(value: Any) -> float:
    """Return a value as a number: true as 1, false as 0, anything else but a finite number as NaN."""
    number = isinstance(value, bool) or is_real(value)
    return float(value) if number and math.isfinite(value) else math.nan


def metric_names(metrics: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the metrics to offer, in order: those with a finite number in any of these intervals.

    >>> metric_names([{"loss": {"policy": 0.5}, "level": "hard"}, {"solved": True, "entropy": float("nan")}])
    ['loss.policy', 'solved']
    """
    pairs = (pair for reported in metrics for pair in flat(reported, "").items())
    return sorted({name for name, value in pairs if math.isfinite(_finite(value))})[:MAX_METRICS]


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit for an axis that ends at so many seconds: its length in seconds, and its name.

    >>> time_unit(0.04), time_unit(90.0), time_unit(3600.0), time_unit(86400.0)
    ((0.001, 'ms'), (1.0, 's'), (60.0, 'min'), (3600.0, 'h'))
    """
    if seconds < 0.5:
        return 0.001, "ms"
    return (1.0, "s") if seconds < 120 else (60.0, "min") if seconds < 7200 else (3600.0, "h")
