"""Decides by a trial's results when its interval ends, and checks the results."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ray.tune.utils import flatten_dict

from popbandits.basics.rules import is_real
from popbandits.engines.work import HyperparameterMismatchError, differences
from popbandits.errors import ArgumentError, RunError
from popbandits.history import Assignment, Observation
from popbandits.ray.record import TIME

APPLIED = "applied"
"""Entry of a result in which a trainable may report the hyperparameters it really trained with."""

Result = Mapping[str, Any]
"""A trial's report, flat, by names with slashes."""


@dataclass(frozen=True)
class Intervals:
    """Length of intervals, and its unit."""

    time_attr: str
    length: float
    burn_in: float
    require_attrs: bool

    def __post_init__(self) -> None:
        if not (is_real(self.length) and self.length > 0):
            raise ArgumentError(f"perturbation_interval must be above 0, got {self.length!r}")

    def begins(self, source: Observation | None) -> float:
        """Return the time at which an interval begins: the end of its source."""
        return 0.0 if source is None else float(source.metrics[TIME])

    def ends(self, source: Observation | None) -> float:
        """Return the time from which an interval with this source may end."""
        return max(self.begins(source) + self.length, self.burn_in)

    def is_complete(self, result: Result, metric: str) -> bool:
        """Tell whether a result has time and metric; raise if not, unless `require_attrs` is False."""
        missing = [name for name in (self.time_attr, metric) if name not in result]
        if missing and self.require_attrs:
            raise ArgumentError(
                f"a result must have time_attr and metric, {self.time_attr!r} and {metric!r}, got {sorted(result)}; "
                "report them, or set require_attrs=False to skip such results"
            )
        return not missing

    def check_patience(self, trial: str, source: Observation | None, result: Result) -> None:
        """Raise if a function trains an interval too long without a checkpoint."""
        now = float(result[self.time_attr])
        if now >= self.ends(source) + self.length:
            raise RunError(
                f"a function must report a checkpoint once in a perturbation_interval of {self.length:g}, got none "
                f"from trial {trial} until {self.time_attr} = {now:g}; give one to tune.report"
            )


def check_applied(trial: str, assignment: Assignment, result: Result) -> None:
    """Raise unless a trainable reports the hyperparameters that it was given."""
    asked = flatten_dict(assignment.config)
    for entry in ("config", APPLIED):
        reported = {name: result[key] for name in asked if (key := f"{entry}/{name}") in result}
        if wrong := differences(asked, reported):
            raise HyperparameterMismatchError(
                f"trial {trial} must train with the hyperparameters it is given, but its result's {entry!r} says "
                f"otherwise: {'; '.join(wrong)}; set them after loading a checkpoint, and in reset_config"
            )
