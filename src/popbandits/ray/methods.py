"""The methods as schedulers for Ray Tune."""

from popbandits import explorers
from popbandits.ray.scheduler import PopulationScheduler


class NearPBT(PopulationScheduler):
    """Near PBT for Ray Tune: `popbandits.NearPBT` says what it does. Give it a `start`; it keeps no member on it."""

    explorer = explorers.NearPBT


class PB2Fuse(PopulationScheduler):
    """PB2-Fuse for Ray Tune: `popbandits.PB2Fuse` says what it does."""

    explorer = explorers.PB2Fuse


class PB2Mix(PopulationScheduler):
    """PB2-Mix for Ray Tune: `popbandits.PB2Mix` says what it does."""

    explorer = explorers.PB2Mix


class PB2Mult(PopulationScheduler):
    """PB2-Mult for Ray Tune: `popbandits.PB2Mult` says what it does."""

    explorer = explorers.PB2Mult


class PB2Rand(PopulationScheduler):
    """PB2-Rand for Ray Tune: `popbandits.PB2Rand` says what it does."""

    explorer = explorers.PB2Rand


class PBT(PopulationScheduler):
    """PBT for Ray Tune, within the bounds and with a seed: `popbandits.PBT` says what it does."""

    explorer = explorers.PBT
