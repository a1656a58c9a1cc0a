"""BG-PBT as a scheduler for Ray Tune."""

from popbandits.ray import PopulationScheduler
from popbandits_experiments.methods import bg_pbt


class BGPBT(PopulationScheduler):
    """BG-PBT's trust region for Ray Tune: `popbandits_experiments.methods.BGPBT` says what it does."""

    explorer = bg_pbt.BGPBT
