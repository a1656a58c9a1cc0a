"""The methods that experiments compare, and the selections, by the names that the command line takes.

Cheap to import.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from popbandits.explorers import Explorer
    from popbandits.selection import Selection

Explore = Literal["replaced", "all"]


@dataclass(frozen=True)
class Method:
    """An explorer, who explores, and whose weights members go on with."""

    label: str
    explorer: str
    """Its class in `popbandits.explorers`."""
    explore: Explore = "replaced"
    cost: float = 1.0
    """Rough cost of a run beside PB2-Mix's, from which the time left is guessed."""
    selection: str | None = None
    """Its selection, a name of SELECTIONS; None for that of the run."""

    def make(self) -> "Explorer":
        """A new explorer with its default settings."""
        explorer: Explorer = getattr(import_module("popbandits.explorers"), self.explorer)()
        return explorer

    def make_selection(self, **settings: Any) -> "Selection | None":
        """Make the method's own selection; None where any selection suits it."""
        return None if self.selection is None else make_selection(self.selection, **settings)


METHODS = {
    "random": Method("Random search", "RandomSearch", cost=0.01),
    "pbt": Method("PBT", "PBT", cost=0.02),
    "patient-pbt": Method("Patient PBT", "PatientPBT", cost=0.02),
    "pb2-rand": Method("PB2-Rand", "PB2Rand"),
    "pb2-mult": Method("PB2-Mult", "PB2Mult"),
    "pb2-mix": Method("PB2-Mix", "PB2Mix"),
    "pb2-fuse": Method("PB2-Fuse", "PB2Fuse"),
    "pb2-fuse/all": Method("PB2-Fuse, all explore", "PB2Fuse", explore="all", cost=1.5),
    "cocabo": Method("CoCaBO", "CoCaBO"),
    "mf-pbt": Method("MF-PBT", "PBT", cost=0.02, selection="mf-pbt"),
    "ipbt": Method("IPBT", "BGPBT", cost=1.5, selection="ipbt"),
    "bg-pbt": Method("BG-PBT", "BGPBT", cost=1.5),
}

LATER = ("mf-pbt", "ipbt", "bg-pbt")
"""Methods that came after the paper; `docs/later_methods.md` says what they are."""

COMPARED = tuple(name for name in METHODS if name not in ("cocabo", *LATER))
"""The paper's methods, and ours: what the synthetic experiment compares unless told otherwise."""

SELECTIONS = {
    "truncation": "Truncation",
    "patient": "Patient",
    "smoothed": "Smoothed",
    "t-test": "TTest",
    "mf-pbt": "MFPBT",
    "ipbt": "Restarts",
}
"""Classes of `popbandits.selection`, by the names that the command line takes."""


def make_selection(name: str, **settings: Any) -> "Selection":
    """A selection by its name; what is not set has its default."""
    made: Selection = getattr(import_module("popbandits.selection"), SELECTIONS[name])(**settings)
    return made
