"""Readers of `hyperparam_bounds` of Ray's PB2 and `hyperparam_mutations` of its PBT."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ray.tune.search import sample

from popbandits.basics.rules import is_real
from popbandits.errors import SpaceError
from popbandits.ray.domains import Domain, Labels, read_domain, read_labels
from popbandits.ray.nested import Path, leaves


@dataclass(frozen=True)
class Bounds:
    """A range [lower, upper] of unknown scale and type."""

    lower: float
    upper: float

    def __str__(self) -> str:
        return f"[{self.lower:g}, {self.upper:g}]"


@dataclass(frozen=True)
class Unreadable:
    """A function, whose range cannot be read."""

    function: Callable[..., Any]

    def __str__(self) -> str:
        return f"the function {getattr(self.function, '__name__', self.function)}"


Wanted = Domain | Bounds | Unreadable


def read_bounds(bounds: Any) -> dict[Path, Wanted]:
    """Read `hyperparam_bounds`: [lower, upper] as Tune's PB2 takes it, or one of Tune's distributions.

    >>> read_bounds({"lr": [0.1, 1.0], "net": {"depth": (1, 4)}})
    {('lr',): Bounds(lower=0.1, upper=1.0), ('net', 'depth'): Bounds(lower=1, upper=4)}
    """
    if not (isinstance(bounds, Mapping) and bounds):
        raise SpaceError(
            f"hyperparam_bounds must be a dict of ranges, got {bounds!r}; write for example {{'lr': [0.1, 1.0]}}"
        )
    return {path: _bound(".".join(path), value) for path, value in leaves(bounds)}


def read_mutations(mutations: Any) -> dict[Path, Wanted]:
    """Read `hyperparam_mutations`: lists of values, Tune's distributions, and functions, which cannot be read.

    A sorted list of numbers is ordered, as in Tune; other lists are choices without an order.

    >>> read_mutations({"batch": [16, 32, 64], "act": ["relu", "tanh"]})
    {('batch',): Labels(values=(16, 32, 64), ordered=True), ('act',): Labels(values=('relu', 'tanh'), ordered=False)}
    """
    if not (isinstance(mutations, Mapping) and mutations):
        raise SpaceError(
            f"hyperparam_mutations must be a dict of lists and distributions, got {mutations!r}; write for example "
            "{'lr': tune.loguniform(1e-4, 1e-1)}"
        )
    return {path: _mutation(".".join(path), value) for path, value in leaves(mutations)}


def _bound(name: str, value: Any) -> Wanted:
    if isinstance(value, sample.Domain) and not isinstance(value, sample.Function):
        return read_domain(name, value)
    if not (isinstance(value, list | tuple) and len(value) == 2 and all(map(is_real, value))):
        raise SpaceError(
            f"{name!r}: hyperparam_bounds holds ranges [lower, upper] of two numbers, got {value!r}; "
            "write tune.choice([...]) for categories"
        )
    lower, upper = value
    if not lower < upper:
        raise SpaceError(
            f"{name!r}: the lower bound of hyperparam_bounds must be below the upper, got {value!r}; for one value "
            "only, leave the name out and write the value in param_space"
        )
    return Bounds(lower, upper)


def _mutation(name: str, value: Any) -> Wanted:
    if isinstance(value, sample.Function):
        raise SpaceError(
            f"{name!r}: hyperparam_mutations takes no tune.sample_from, as in Ray; write tune.uniform(lower, upper), "
            "or a list of values"
        )
    if isinstance(value, sample.Domain):
        return read_domain(name, value)
    if isinstance(value, list | tuple):
        labels = read_labels(name, value).values
        numbers = all(map(is_real, labels)) and labels in (tuple(sorted(labels)), tuple(sorted(labels, reverse=True)))
        return Labels(labels, ordered=numbers)
    if callable(value):
        return Unreadable(value)
    raise SpaceError(
        f"{name!r}: hyperparam_mutations holds lists of values and Tune's distributions, got {value!r}; write it in "
        "param_space if it is constant"
    )
