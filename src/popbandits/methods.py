"""Methods and selections by name, for Python and the command line. Cheap to import.

`choose` turns a user's arguments, names or objects, into an explorer, a selection and the members that explore.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from popbandits.errors import ArgumentError
from popbandits.settings import Explore as Explore
from popbandits.wording import suggestion

if TYPE_CHECKING:
    from popbandits.explorers import Explorer
    from popbandits.selection import Selection


@dataclass(frozen=True)
class Method:
    """An explorer, the members that explore, and the selection of weights."""

    label: str
    explorer: str
    """Class name in `popbandits.explorers`."""
    explore: Explore = "replaced"
    cost: float = 1.0
    """Rough cost of a run relative to PB2-Mix, used to estimate the time left."""
    selection: str | None = None
    """Name in SELECTIONS; None for the explorer's own selection."""

    @property
    def brings(self) -> dict[str, Any]:
        """Settings of a run that the method's name implies, unless the user gives them."""
        own = {"selection": self.selection, "explore": None if self.explore == "replaced" else self.explore}
        return {name: value for name, value in own.items() if value is not None}

    def make(self) -> "Explorer":
        """Make a new explorer with its default settings."""
        explorer: Explorer = getattr(import_module("popbandits.explorers"), self.explorer)()
        return explorer

    def make_selection(self, **settings: Any) -> "Selection | None":
        """Make the method's own selection; None if it has none."""
        return None if self.selection is None else make_selection(self.selection, **settings)


METHODS = {
    "random": Method("Random search", "RandomSearch", cost=0.01),
    "pbt": Method("PBT", "PBT", cost=0.02),
    "patient-pbt": Method("Patient PBT", "PatientPBT", cost=0.5),
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
"""Methods published after the paper, described in `docs/later_methods.md`."""

COMPARED = tuple(name for name in METHODS if name not in ("cocabo", *LATER))
"""The paper's methods and ours, which the synthetic experiment compares by default."""

SELECTIONS = {
    "truncation": "Truncation",
    "patient": "Patient",
    "smoothed": "Smoothed",
    "t-test": "TTest",
    "mf-pbt": "MFPBT",
    "ipbt": "Restarts",
}
"""Classes of `popbandits.selection`, by name."""


def find_method(name: str) -> Method:
    """Return the method of a name; ArgumentError if there is none.

    >>> find_method("pb2-mix").label
    'PB2-Mix'
    """
    if name not in METHODS:
        close = suggestion(name, METHODS)
        raise ArgumentError(f"method must be an explorer or one of {', '.join(METHODS)}, got {name!r}{close}")
    return METHODS[name]


def make_selection(name: str, **settings: Any) -> "Selection":
    """Make the selection of a name; settings left out take their defaults.

    >>> make_selection("t-test", level=0.01)
    TTest(quantile=0.25, level=0.01, last=10)
    """
    if name not in SELECTIONS:
        close = suggestion(name, SELECTIONS)
        raise ArgumentError(f"selection must be a Selection or one of {', '.join(SELECTIONS)}, got {name!r}{close}")
    made: Selection = getattr(import_module("popbandits.selection"), SELECTIONS[name])(**settings)
    return made


@dataclass(frozen=True)
class Choice:
    """The parts that decide in a run, built, with defaults filled in."""

    method: Any
    """An explorer, or any object with an `explore` method."""
    selection: "Selection"
    explore: Explore


def choose(
    method: Any = None,
    selection: "Selection | str | None" = None,
    quantile: float | None = None,
    explore: Explore | None = None,
) -> Choice:
    """Build the parts that a run's arguments name; arguments override the method's own settings.

    >>> choose("mf-pbt", quantile=0.5).selection
    MFPBT(quantile=0.5, intervals=None)
    >>> choose("pb2-fuse/all").explore, choose("pb2-fuse/all", explore="replaced").explore
    ('all', 'replaced')
    """
    from popbandits.explorers import DEFAULT
    from popbandits.selection import as_selection

    named = find_method(method) if isinstance(method, str) else None
    made = named.make() if named is not None else DEFAULT() if method is None else method
    brings = {} if named is None else named.brings
    explore = brings.get("explore", "replaced") if explore is None else explore
    selection = brings.get("selection") if selection is None else selection
    if isinstance(selection, str):
        settings = {} if quantile is None else {"quantile": quantile}
        return Choice(made, make_selection(selection, **settings), explore)
    return Choice(made, as_selection(selection, quantile, getattr(made, "selection", None)), explore)
