"""The registry of methods and selections: their names in Python, on the command line and in records. Cheap to import.

One line makes a method known everywhere: it can be named, recorded, resumed, reported and compared. `choose` turns a
user's arguments, names or objects, into an explorer, a selection and the members that explore.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from popbandits.basics.settings import Explore as Explore
from popbandits.basics.wording import suggestion
from popbandits.errors import ArgumentError

if TYPE_CHECKING:
    from popbandits.explorers import Explorer
    from popbandits.selection import Selection


@dataclass(frozen=True)
class Method:
    """An explorer, the members that explore, and the selection of weights."""

    label: str
    explorer: str
    """Import path of its class, as `module:name`; a name alone is one of `popbandits.explorers`."""
    explore: Explore = "replaced"
    selection: str | None = None
    """Name in SELECTIONS; None for the explorer's own selection."""

    def make(self) -> "Explorer":
        """Make a new explorer with its default settings."""
        explorer: Explorer = _load(self.explorer)()
        return explorer

    def make_selection(self, **settings: Any) -> "Selection | None":
        """Make the method's own selection; None if it has none."""
        return None if self.selection is None else make_selection(self.selection, **settings)


METHODS = {
    "random": Method("Random search", "popbandits.explorers.random_search:RandomSearch"),
    "pbt": Method("PBT", "popbandits.explorers.pbt:PBT"),
    "patient-pbt": Method("Patient PBT", "popbandits.explorers.patient_pbt:PatientPBT"),
    "pb2-rand": Method("PB2-Rand", "popbandits.explorers.pb2_rand:PB2Rand"),
    "pb2-mult": Method("PB2-Mult", "popbandits.explorers.pb2_mult:PB2Mult"),
    "pb2-mix": Method("PB2-Mix", "popbandits.explorers.pb2_mix:PB2Mix"),
    "pb2-fuse": Method("PB2-Fuse", "popbandits.explorers.pb2_fuse:PB2Fuse"),
    "pb2-fuse/all": Method("PB2-Fuse, all explore", "popbandits.explorers.pb2_fuse:PB2Fuse", explore="all"),
    "cocabo": Method("CoCaBO", "popbandits.explorers.cocabo:CoCaBO"),
    "mf-pbt": Method("MF-PBT", "popbandits.explorers.pbt:PBT", selection="mf-pbt"),
    "ipbt": Method("IPBT", "popbandits.explorers.bg_pbt:BGPBT", selection="ipbt"),
    "bg-pbt": Method("BG-PBT", "popbandits.explorers.bg_pbt:BGPBT"),
}

SELECTIONS = {
    "truncation": "popbandits.selection.truncation:Truncation",
    "patient": "popbandits.selection.patient:Patient",
    "smoothed": "popbandits.selection.smoothed:Smoothed",
    "t-test": "popbandits.selection.t_test:TTest",
    "mf-pbt": "popbandits.selection.mf_pbt:MFPBT",
    "ipbt": "popbandits.selection.ipbt:Restarts",
}
"""Import paths of selections, by name."""

PACKAGES = {"method": "popbandits.explorers", "selection": "popbandits.selection"}
"""Packages of the classes that records of earlier versions name by their import paths."""

OTHERS = ("settings", "parts", "root", "role", "signed")
"""Keys of a record's entry besides the one that names something."""


def recorded_names(role: str) -> dict[str, str]:
    """Map the names of a role, "method" or "selection", to import paths; first the names that records use.

    If a class has several names, records use the one that implies no other settings.
    """
    if role == "selection":
        return dict(SELECTIONS)
    plain_first = sorted(METHODS.items(), key=lambda item: bool(implied(item[0])))
    return {name: method.explorer for name, method in plain_first} if role == "method" else {}


def registered(role: str, kind: str, where: str) -> str | None:
    """Return the name of the class that a record names; None if it is not registered.

    Args:
        role: "method" or "selection".
        kind: "name", or "make" for an import path, as earlier versions wrote it.
        where: The name or the import path.

    >>> registered("method", "name", "pb2-mix"), registered("method", "make", "popbandits.explorers.pb2_fuse:PB2Fuse")
    ('pb2-mix', 'pb2-fuse')
    """
    known = recorded_names(role)
    if kind != "make":
        return where if kind == "name" and where in known else None
    module, _, own = where.rpartition(":")
    ours = role in PACKAGES and f"{module}.".startswith(f"{PACKAGES[role]}.")
    # By the class: its module may have moved since.
    same = (name for name, path in known.items() if path == where or (ours and path.rpartition(":")[2] == own))
    return next(same, None)


def registered_class(role: str, name: str) -> Any:
    """Return the class of a registered name."""
    return _load(recorded_names(role)[name])


def named_by(role: str, given: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the registered name of what a record's entry names, None if it has none, and the name of its class.

    >>> named_by("selection", {"name": "t-test", "settings": {}}), named_by("selection", {"make": "mine:Loyal"})
    (('t-test', 'TTest'), (None, 'Loyal'))
    """
    kind, where = next(((kind, str(value)) for kind, value in given.items() if kind not in OTHERS), ("", ""))
    name = registered(role, kind, where)
    return name, (where if name is None else recorded_names(role)[name]).rpartition(":")[2]


def _load(path: str) -> Any:
    """Import the class of a registered import path."""
    module, _, name = path.rpartition(":")
    return getattr(import_module(module or PACKAGES["method"]), name)


def find_method(name: str) -> Method:
    """Return the method of a name; ArgumentError if there is none.

    >>> find_method("pb2-mix").label
    'PB2-Mix'
    """
    if name not in METHODS:
        close = suggestion(name, METHODS)
        raise ArgumentError(f"method must be an explorer or one of {', '.join(METHODS)}, got {name!r}{close}")
    return METHODS[name]


def implied(method: Any) -> dict[str, Any]:
    """Return the settings of a run, besides the explorer, that a method's name implies; none for other objects.

    >>> implied("ipbt"), implied("pb2-fuse/all"), implied("pbt"), implied(None)
    ({'selection': 'ipbt'}, {'explore': 'all'}, {}, {})
    """
    if not isinstance(method, str):
        return {}
    named = find_method(method)
    own = {"selection": named.selection, "explore": None if named.explore == "replaced" else named.explore}
    return {name: value for name, value in own.items() if value is not None}


def make_selection(name: str, **settings: Any) -> "Selection":
    """Make the selection of a name; settings left out take their defaults.

    >>> make_selection("t-test", level=0.01)
    TTest(quantile=0.25, level=0.01, last=10)
    """
    if name not in SELECTIONS:
        close = suggestion(name, SELECTIONS)
        raise ArgumentError(f"selection must be a Selection or one of {', '.join(SELECTIONS)}, got {name!r}{close}")
    made: Selection = _load(SELECTIONS[name])(**settings)
    return made


PARTS = ("method", "selection", "quantile", "explore")
"""Settings that `choose` resolves."""


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
    changes: Mapping[str, Any] | None = None,
    resumed: bool = False,
) -> Choice:
    """Build the parts that a run's arguments name. This is the only place that says which of several values counts.

    A part is the first in its row that was given. A name of a method implies its row in METHODS.

    | part | first | then | then | at last |
    |---|---|---|---|---|
    | method | changed | argument | | the default |
    | explore | changed, or implied by a changed method | argument [1] | implied by the method | "replaced" |
    | selection | changed, or implied by a changed method | argument | implied by the method, or its own | truncation |
    | quantile | changed | argument, or that of a selection which changes [2] | | the selection's own |

    [1] Not if an option of the command line names another method. [2] Not in a resume: the new selection has its own.
    A quantile goes into the selection; one that is given beside a selection as an object must be equal to its own.

    >>> choose("mf-pbt", quantile=0.5).selection
    MFPBT(quantile=0.5, intervals=None)
    >>> choose("pb2-fuse/all").explore, choose("pb2-fuse/all", explore="replaced").explore
    ('all', 'replaced')
    >>> choose("mf-pbt", quantile=0.5, changes={"method": "pbt", "selection": "truncation"}).selection
    Truncation(quantile=0.5)

    Args:
        method: The run's method, or its name.
        selection: The run's selection, or its name.
        quantile: The run's quantile.
        explore: Who explores in the run.
        changes: Settings that a user gives for a run that has these: options of the command line, or arguments of
            `resume`; those of other names, and None, change nothing here. None (default) for no changes.
        resumed: Whether the changes are those of a resume. Default False.
    """
    if changes:
        given = {name: changes[name] for name in PARTS if changes.get(name) is not None}
        given = implied(given.get("method")) | given
        if "selection" in given or ("quantile" in given and selection is not None):
            before = choose(method, selection, quantile).selection if not resumed else None
            if "selection" not in given:
                given["selection"] = _with_quantile(before, given["quantile"])
            quantile = getattr(before, "quantile", None)
        explore = None if "method" in given and not resumed else explore
        return choose(**{"method": method, "selection": selection, "quantile": quantile, "explore": explore} | given)
    from popbandits.explorers import DEFAULT

    brings = implied(method)
    made = find_method(method).make() if isinstance(method, str) else DEFAULT() if method is None else method
    explore = brings.get("explore", "replaced") if explore is None else explore
    selection = brings.get("selection") if selection is None else selection
    return Choice(made, _select(selection, quantile, getattr(made, "selection", None)), explore)


def _select(given: "Selection | str | None", quantile: float | None, own: "Selection | None") -> "Selection":
    """Return the selection that is given, or the method's `own`, or truncation, with the quantile."""
    from popbandits.selection import Selection, Truncation

    if isinstance(given, str):
        return make_selection(given, **({} if quantile is None else {"quantile": quantile}))
    if given is None:
        return _with_quantile(own or Truncation(), quantile)
    if not isinstance(given, Selection):
        raise ArgumentError(f"selection must be a Selection, got {given!r}; make one, such as Truncation()")
    if quantile not in (None, mine := getattr(given, "quantile", None)):
        raise ArgumentError(f"quantile must be that of selection, {mine!r}, got {quantile!r}; leave it out")
    return given


def _with_quantile(selection: Any, quantile: float | None) -> "Selection":
    if quantile is not None and not hasattr(selection, "quantile"):
        raise ArgumentError(
            f"quantile is for selections that have one, got {quantile!r} for {selection!r}; leave it out"
        )
    made: Selection = selection if quantile is None else replace(selection, quantile=quantile)
    return made
