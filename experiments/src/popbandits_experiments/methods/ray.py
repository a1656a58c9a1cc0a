"""Methods of the experiments as schedulers for Ray Tune."""

from popbandits.ray import PopulationScheduler
from popbandits_experiments.methods import bg_pbt, patient_pbt


class BGPBT(PopulationScheduler):
    """BG-PBT's trust region for Ray Tune: `popbandits_experiments.methods.BGPBT` says what it does."""

    explorer = bg_pbt.BGPBT


class PatientPBT(PopulationScheduler):
    """Patient PBT for Ray Tune: `popbandits_experiments.methods.PatientPBT` says what it does."""

    explorer = patient_pbt.PatientPBT
