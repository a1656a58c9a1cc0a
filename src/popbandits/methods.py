"""The registry of methods and selections: their names in Python, on the command line and in records. Cheap to import.

One line makes a method known everywhere: it can be named, recorded, resumed, reported and compared. Other distributions
add methods by the entry points `popbandits.methods`. `choose` turns a user's arguments, names or objects, into an
explorer, a selection and the members that explore.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from popbandits.basics.deprecation import MOVED
from popbandits.basics.extras import load_plugins, not_installed
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
        explorer: Explorer = load_class(self.explorer)()
        return explorer

    def make_selection(self, **settings: Any) -> "Selection | None":
        """Make the method's own selection; None if it has none."""
        return None if self.selection is None else make_selection(self.selection, **settings)

    @property
    def implied(self) -> dict[str, Any]:
        """Settings of a run, besides the explorer, that the method's name implies."""
        own = {"selection": self.selection, "explore": None if self.explore == "replaced" else self.explore}
        return {name: value for name, value in own.items() if value is not None}


METHODS = {
    "random": Method("Random search", "popbandits.explorers.random_search:RandomSearch"),
    "pbt": Method("PBT", "popbandits.explorers.pbt:PBT"),
    "near-pbt": Method("Near PBT", "popbandits.explorers.near_pbt:NearPBT"),
    "pb2-rand": Method("PB2-Rand", "popbandits.explorers.pb2_rand:PB2Rand"),
    "pb2-mult": Method("PB2-Mult", "popbandits.explorers.pb2_mult:PB2Mult"),
    "pb2-mix": Method("PB2-Mix", "popbandits.explorers.pb2_mix:PB2Mix"),
    "pb2-fuse": Method("PB2-Fuse", "popbandits.explorers.pb2_fuse:PB2Fuse"),
    "pb2-fuse/all": Method("PB2-Fuse, all explore", "popbandits.explorers.pb2_fuse:PB2Fuse", explore="all"),
    "cocabo": Method("CoCaBO", "popbandits.explorers.cocabo:CoCaBO"),
}

SELECTIONS = {
    "truncation": "popbandits.selection.truncation:Truncation",
}
"""Import paths of selections, by name."""

PACKAGES = {"method": "popbandits.explorers", "selection": "popbandits.selection"}
"""Packages of the classes that records of earlier versions name by their import paths."""

OTHERS = ("settings", "parts", "root", "role", "signed")
"""Keys of a record's entry besides the one that names something."""


def _registries() -> Iterator[tuple[Mapping[str, Method], Mapping[str, str]]]:
    """Iterate over METHODS and SELECTIONS: ours, then those of modules that entry points name, loaded only then."""
    yield METHODS, SELECTIONS
    for module in load_plugins("popbandits.methods"):
        yield getattr(module, "METHODS", {}), getattr(module, "SELECTIONS", {})


def recorded_names(role: str) -> Iterator[tuple[str, str]]:
    """Iterate over names and import paths of a role, "method" or "selection"; first the names that records use.

    If a class has several names, records use the one that implies no other settings.
    """
    for methods, selections in _registries() if role in PACKAGES else ():
        if role == "selection":
            yield from selections.items()
        else:
            plain_first = sorted(methods.items(), key=lambda item: bool(item[1].implied))
            yield from ((name, method.explorer) for name, method in plain_first)


def registered(role: str, kind: str, where: str) -> tuple[str, str] | None:
    """Return the name and the import path of the class that a record names; None if it is not registered.

    Args:
        role: "method" or "selection".
        kind: "name", or "make" for an import path, as earlier versions wrote it.
        where: The name or the import path.

    >>> registered("method", "make", "popbandits.explorers.a_former_file:PB2Fuse")
    ('pb2-fuse', 'popbandits.explorers.pb2_fuse:PB2Fuse')
    """
    own = _own_class(role, where)
    for name, path in recorded_names(role) if kind in ("name", "make") else ():
        # By the class: its module may have moved since.
        if name == where if kind == "name" else path == where or (own and path.rpartition(":")[2] == own):
            return name, path
    return None


def in_experiments(role: str, kind: str, where: str) -> str | None:
    """Return the name of what a record names if it is one of MOVED; the arguments are those of `registered`."""
    name = where if kind == "name" else MOVED.get(_own_class(role, where))
    return name if role in PACKAGES and name in MOVED.values() else None


def _own_class(role: str, where: str) -> str:
    """Return the name of the class at an import path within popbandits; "" for a path elsewhere."""
    module, _, own = where.rpartition(":")
    return own if role in PACKAGES and f"{module}.".startswith(f"{PACKAGES[role]}.") else ""


def named_by(role: str, given: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the registered name of what a record's entry names, None if it has none, and the name of its class.

    >>> named_by("selection", {"name": "truncation", "settings": {}}), named_by("selection", {"make": "mine:Loyal"})
    (('truncation', 'Truncation'), (None, 'Loyal'))
    """
    kind, where = next(((kind, str(value)) for kind, value in given.items() if kind not in OTHERS), ("", ""))
    name, path = registered(role, kind, where) or (None, where)
    return name, path.rpartition(":")[2]


def load_class(path: str) -> Any:
    """Import the class of a registered import path."""
    module, _, name = path.rpartition(":")
    return getattr(import_module(module or PACKAGES["method"]), name)


def find_method(name: str) -> Method:
    """Return the method of a name; ArgumentError if there is none.

    >>> find_method("pb2-mix").label
    'PB2-Mix'
    """
    for methods, _ in _registries():
        if name in methods:
            return methods[name]
    raise _unknown(name, "method must be an explorer", METHODS)


def implied(method: Any) -> dict[str, Any]:
    """Return the settings of a run, besides the explorer, that a method's name implies; none for other objects.

    >>> implied("pb2-fuse/all"), implied("pbt"), implied(None)
    ({'explore': 'all'}, {}, {})
    """
    return find_method(method).implied if isinstance(method, str) else {}


def make_selection(name: str, **settings: Any) -> "Selection":
    """Make the selection of a name; settings left out take their defaults.

    >>> make_selection("truncation", quantile=0.5)
    Truncation(quantile=0.5)
    """
    for _, selections in _registries():
        if name in selections:
            made: Selection = load_class(selections[name])(**settings)
            return made
    raise _unknown(name, "selection must be a Selection", SELECTIONS)


def _unknown(name: str, rule: str, known: Mapping[str, Any]) -> ArgumentError:
    """Return the error of a name that is not registered."""
    if name in MOVED.values():
        return ArgumentError(not_installed(name))
    return ArgumentError(f"{rule} or one of {', '.join(known)}, got {name!r}{suggestion(name, known)}")


PARTS = ("method", "selection", "quantile", "explore")
"""Settings that `choose` resolves."""


@dataclass(frozen=True)
class Choice:
    """The parts that decide in a run, built, with defaults filled in."""

    method: Any
    """An explorer, or any object with an `explore` method; None for the default, which depends on the start."""
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

    >>> choose("pb2-fuse/all").explore, choose("pb2-fuse/all", explore="replaced").explore
    ('all', 'replaced')
    >>> choose("pbt", quantile=0.5, changes={"method": "pb2-mix"}).selection
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
    brings = implied(method)
    made = find_method(method).make() if isinstance(method, str) else method
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
