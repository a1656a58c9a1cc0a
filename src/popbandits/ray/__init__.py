"""popbandits on Ray: schedulers for Ray Tune, in place of its `PB2` and `PopulationBasedTraining`."""

from popbandits.basics.extras import library

library("ray.tune", "ray", "popbandits.ray")  # to fail early, and in one place

from popbandits.ray.methods import BGPBT, PBT, PatientPBT, PB2Fuse, PB2Mix, PB2Mult, PB2Rand  # noqa: E402
from popbandits.ray.scheduler import PopulationScheduler  # noqa: E402

__all__ = ["BGPBT", "PBT", "PB2Fuse", "PB2Mix", "PB2Mult", "PB2Rand", "PatientPBT", "PopulationScheduler"]
