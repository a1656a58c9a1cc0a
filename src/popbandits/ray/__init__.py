"""popbandits on Ray: schedulers for Ray Tune, in place of its `PB2` and `PopulationBasedTraining`."""

from typing import Any

from popbandits.basics.deprecation import moved
from popbandits.basics.extras import library

library("ray.tune", "ray", "popbandits.ray")  # to fail early, and in one place

from popbandits.ray.methods import PBT, NearPBT, PB2Fuse, PB2Mix, PB2Mult, PB2Rand  # noqa: E402
from popbandits.ray.scheduler import PopulationScheduler  # noqa: E402

__all__ = ["PBT", "NearPBT", "PB2Fuse", "PB2Mix", "PB2Mult", "PB2Rand", "PopulationScheduler"]


def __getattr__(name: str) -> Any:
    """Return a scheduler that has moved to the experiments."""
    return moved(__name__, name, "popbandits_experiments.methods.ray")
