"""Methods and selections that came after the paper, the former default, and one for deceptive tasks.

popbandits finds them by the entry points `popbandits.methods`, so that they can be named, recorded and resumed.
"""

from typing import TYPE_CHECKING, Any

from popbandits import methods
from popbandits.methods import Method

if TYPE_CHECKING:
    from popbandits_experiments.methods.bg_pbt import BGPBT as BGPBT
    from popbandits_experiments.methods.diverse import Diverse as Diverse
    from popbandits_experiments.methods.ipbt import Restarts as Restarts
    from popbandits_experiments.methods.mf_pbt import MFPBT as MFPBT
    from popbandits_experiments.methods.patient import Patient as Patient
    from popbandits_experiments.methods.patient_pbt import PatientPBT as PatientPBT
    from popbandits_experiments.methods.smoothed import Smoothed as Smoothed
    from popbandits_experiments.methods.t_test import TTest as TTest

METHODS = {
    "mf-pbt": Method("MF-PBT", methods.METHODS["pbt"].explorer, selection="mf-pbt"),
    "ipbt": Method("IPBT", f"{__name__}.bg_pbt:BGPBT", selection="ipbt"),
    "bg-pbt": Method("BG-PBT", f"{__name__}.bg_pbt:BGPBT"),
    "patient-pbt": Method("Patient PBT", f"{__name__}.patient_pbt:PatientPBT"),
}
SELECTIONS = {
    "t-test": f"{__name__}.t_test:TTest",
    "smoothed": f"{__name__}.smoothed:Smoothed",
    "mf-pbt": f"{__name__}.mf_pbt:MFPBT",
    "ipbt": f"{__name__}.ipbt:Restarts",
    "patient": f"{__name__}.patient:Patient",
    "diverse": f"{__name__}.diverse:Diverse",
}
ALL_METHODS = {**methods.METHODS, **METHODS}
"""These, and those of the product."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # The classes are imported when they are used: the names above are for help, which should print at once.
        for path in (METHODS["bg-pbt"].explorer, METHODS["patient-pbt"].explorer, *SELECTIONS.values()):
            if path.endswith(f":{name}"):
                return methods.load_class(path)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
