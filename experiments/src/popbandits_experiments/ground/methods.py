"""Methods of the benchmark: the library's own, Ray Tune's PB2, and the rivals.

A method may be spelled with other settings of its explorer and selection, as in `near-pbt:step=0.05,resample=0.3`; a
number as `start` is how many members start from the defaults.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib import import_module
from typing import Any

from ConfigSpace import ConfigurationSpace, UniformFloatHyperparameter

from popbandits.errors import ArgumentError
from popbandits.explorers import PBT, Explorer, NearPBT
from popbandits.history import Config
from popbandits.methods import Method
from popbandits.selection import Selection
from popbandits.space import Prior, Space
from popbandits.space.schedules import cosine
from popbandits_experiments.ground.rivals.registry import RIVALS, Rival
from popbandits_experiments.methods import ALL_METHODS


@dataclass(frozen=True)
class Peer(Method):
    """A method whose explorer is part of the benchmark, and needs extra packages."""

    module: str = ""
    needs: str = ""

    def make(self) -> Explorer:
        """Make a new explorer; raise ArgumentError if its packages are not installed."""
        try:
            explorer: Explorer = getattr(import_module(self.module), self.explorer)()
        except ImportError as error:
            raise ArgumentError(
                f"the method {self.label} needs {self.needs}, got: {error}; pip install 'popbandits[bench]'"
            ) from error
        return explorer


@dataclass(frozen=True)
class Variation(Method):
    """A method of the library with other settings, or another start."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    selecting: Mapping[str, Any] = field(default_factory=dict)
    """Settings of its selection."""
    start: Any = None
    """Start of the population, or a function that makes it of the space and the number of members."""
    control: bool = False
    """Whether member 0 keeps the start to the end."""

    def start_in(self, space: ConfigurationSpace, members: int) -> Any:
        """Return the start of a population."""
        return self.start(space, members) if callable(self.start) else self.start

    def make(self) -> Explorer:
        """Make a new explorer with the settings."""
        made: Any = super().make()
        explorer: Explorer = replace(made, **self.settings)
        return explorer

    def make_selection(self, **settings: Any) -> Selection | None:
        """Make the selection with the settings."""
        own: Any = self.make().selection
        return super().make_selection(**self.selecting, **settings) if own is None else replace(own, **self.selecting)


@dataclass(frozen=True)
class PBTWithPrior(PBT):
    """PBT whose draws come from the default's prior, around the start."""

    def make_prior(self, space: Space, start: Sequence[Config]) -> Prior:
        """Return the default's prior."""
        return NearPBT().make_prior(space, start)


@dataclass(frozen=True)
class Control(Variation):
    """PBT with the default's prior: what the default adds to it is not the prior."""

    explorer: str = "PBTWithPrior"

    def make(self) -> Explorer:
        """Make a new explorer with the settings."""
        return PBTWithPrior(**self.settings)


LAST_LR = 0.01
"""Last learning rate of a cosine, as a share of the first, unless the range ends before."""


def along_cosine(space: ConfigurationSpace, members: int) -> list[dict[str, Any]]:
    """Return the defaults with a learning rate that falls along a cosine."""
    lr, parameter = space.get_default_configuration()["lr"], space["lr"]
    assert isinstance(parameter, UniformFloatHyperparameter)
    return [{"lr": cosine(lr, max(LAST_LR * lr, parameter.lower))}]


def all_along_cosine(space: ConfigurationSpace, members: int) -> list[dict[str, Any]]:
    """Return the same for every member."""
    return along_cosine(space, members) * members


NEAR = partial(Variation, explorer="NearPBT")
PATIENT = partial(Variation, explorer=ALL_METHODS["patient-pbt"].explorer)

METHODS: dict[str, Method | Rival] = {
    **ALL_METHODS,
    "near-pbt/control": NEAR("Near PBT, started from the defaults", start="defaults", control=True),
    "near-pbt/start": NEAR("Near PBT, started from the defaults, no control", start="defaults"),
    "patient-pbt/start": PATIENT("Patient PBT, started from the defaults", start="defaults"),
    "pbt/start": Variation("PBT, started from the defaults", "PBT", start="defaults"),
    "pbt/diverse": Method("PBT, keeping behaviours apart", "PBT", selection="diverse"),
    "pbt/prior/start": Control("PBT, with the default's prior, started from the defaults", start="defaults"),
    "pbt/prior/control": Control(
        "PBT, with the default's prior and control, started from the defaults", start="defaults", control=True
    ),
    # A schedule as a start, and the same without tuning: random search never changes what members start with.
    "defaults/cosine": Variation("Defaults, along a cosine, no tuning", "RandomSearch", start=all_along_cosine),
    "pbt/cosine": Variation("PBT, started from a cosine", "PBT", start=along_cosine),
    "pbt/prior/cosine": Control("PBT, with the default's prior, started from a cosine", start=along_cosine),
    "near-pbt/cosine": NEAR("Near PBT, started from a cosine", start=along_cosine, control=True),
    "patient-pbt/cosine": PATIENT("Patient PBT, started from a cosine", start=along_cosine),
    "ray-pb2": Peer(
        "Ray Tune's PB2, numbers only",
        "RayPB2",
        module="popbandits_experiments.peers.ray_pb2_explorer",
        needs="Ray Tune, scikit-learn and pandas",
    ),
    **RIVALS,
}


def find(name: str) -> Method | Rival:
    """Return a method by its name, with other settings if these are spelled.

    >>> find("near-pbt:step=0.05").make()
    NearPBT(resample=0.6, resample_label=0.8, step=0.05, concentration=2.0)
    """
    base, _, spelled = name.partition(":")
    if base not in METHODS:
        raise ArgumentError(f"methods must be of the benchmark, got {name!r}; these are: {', '.join(METHODS)}")
    method = METHODS[base]
    return _with_settings(method, name, spelled) if spelled else method


def compares_behaviours(name: str) -> bool:
    """Tell whether a method's selection reads what members do on the same states."""
    method = find(name)
    return isinstance(method, Method) and method.selection == "diverse"


def _with_settings(method: Method | Rival, name: str, spelled: str) -> Method:
    """Return a method with the settings that its name spells."""
    if not isinstance(method, Method) or isinstance(method, Peer):
        raise ArgumentError(f"only methods of the library can be spelled with settings, got {name!r}")
    own: Any = method.make()
    selection = method.make_selection() or own.selection
    parts = {"settings": own, "selecting": selection}
    found: dict[str, Any] = {"settings": {}, "selecting": {}, "start": getattr(method, "start", None)}
    for pair in spelled.split(","):
        key, _, value = pair.partition("=")
        if key == "start":
            found["start"] = [{}] * int(value)
            continue
        where = [part for part, made in parts.items() if made and key in {each.name for each in fields(made)}]
        if not where:
            allowed = ", ".join(["start", *(each.name for made in parts.values() if made for each in fields(made))])
            raise ArgumentError(f"settings of {name!r} must be of its explorer or selection, got {key!r}; {allowed}")
        found[where[0]][key] = json.loads(value)
    if isinstance(method, Variation):
        found["settings"] = {**method.settings, **found["settings"]}
        found["selecting"] = {**method.selecting, **found["selecting"]}
        return replace(method, label=name, **found)
    return Variation(name, method.explorer, method.explore, method.selection, **found)
