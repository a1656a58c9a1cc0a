"""popbandits on Ray: schedulers for Ray Tune, in place of its `PB2` and `PopulationBasedTraining`."""

from popbandits.errors import MissingExtraError

try:
    import ray.tune  # noqa: F401 (to fail early, and in one place)
except ImportError as error:
    raise MissingExtraError(
        f"popbandits.ray needs Ray Tune, and {error.name or error} is not installed: pip install 'popbandits[ray]'"
    ) from error

from popbandits.ray.methods import BGPBT, PBT, PatientPBT, PB2Fuse, PB2Mix, PB2Mult, PB2Rand
from popbandits.ray.scheduler import PopulationScheduler

__all__ = ["BGPBT", "PBT", "PB2Fuse", "PB2Mix", "PB2Mult", "PB2Rand", "PatientPBT", "PopulationScheduler"]
