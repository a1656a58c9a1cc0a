"""Distributions of Ray Tune and arguments of its schedulers, read as ranges or labels, and converted to ConfigSpace."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ConfigSpace import OrdinalHyperparameter
from ConfigSpace import UniformFloatHyperparameter as UniformFloat
from ConfigSpace import UniformIntegerHyperparameter as UniformInteger
from ray.tune.search import sample

from popbandits.basics.rules import is_real
from popbandits.errors import SpaceError
from popbandits.ray.nested import Path, leaves
from popbandits.space import Space

LEVELS = 256
"""Maximum levels of a quantized range; of more, this many are taken, evenly on its scale."""
WIDE, FEW, LIKELIER = 100, 3, 100
"""Draws are taken to be on a log scale with at least this ratio of the range's ends, number of values, and ratio of
likelihoods."""
OBJECT, FUNCTION = "__ref_ph", "__fn_ph"
"""First entries of the tuples with which Tune replaces objects, and `sample_from`."""


@dataclass(frozen=True)
class Labels:
    """Values to choose from; neighbours are similar if they are ordered."""

    values: tuple[Any, ...]
    ordered: bool = False

    def __str__(self) -> str:
        return f"one of {', '.join(map(repr, self.values))}"

    def holds(self, value: Any) -> bool:
        """Tell whether a value is one of the labels; a boolean is not a number."""
        return any(value == label and isinstance(value, bool) == isinstance(label, bool) for label in self.values)

    def hyperparameter(self, name: str) -> Any:
        """Make ConfigSpace's hyperparameter; SpaceError if a label cannot be one."""
        [made] = Space({name: list(self.values)}).configuration_space.values()  # This checks the labels.
        return OrdinalHyperparameter(name, list(self.values)) if self.ordered and len(self.values) > 1 else made


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, both included."""

    lower: float
    upper: float
    log: bool = False
    step: float | None = None
    integer: bool = False

    def __str__(self) -> str:
        return f"the range [{self.lower:g}, {self.upper:g}]{' on a log scale' if self.log else ''}"

    def holds(self, value: Any) -> bool:
        """Tell whether a value is a number between the bounds."""
        return is_real(value) and self.lower <= value <= self.upper

    def hyperparameter(self, name: str) -> Any:
        """Make ConfigSpace's hyperparameter; a plain number if there is only one."""
        if self.step is not None:
            return Labels(self.levels(name), ordered=True).hyperparameter(name)
        if self.lower == self.upper:
            return int(self.lower) if self.integer else float(self.lower)
        if self.integer:
            return UniformInteger(name, int(self.lower), int(self.upper), log=self.log)
        return UniformFloat(name, float(self.lower), float(self.upper), log=self.log)

    def levels(self, name: str) -> tuple[float, ...]:
        """List the multiples of the step; if there are many, some of them, evenly on the range's scale."""
        step = self.step or 1.0
        first, last = math.ceil(self.lower / step - 1e-9), math.floor(self.upper / step + 1e-9)
        if first > last:
            raise SpaceError(
                f"{name!r}: a range must hold a multiple of its step, got ({self.lower}, {self.upper}) and {step}"
            )
        spaced = np.linspace if not self.log else np.geomspace
        for count in range(min(LEVELS, last - first + 1), 0, -1):
            indices = np.rint(spaced(max(first, 1) if self.log else first, last, count))
            # Near the lower end of a log range the steps are wide: only few levels are even on its scale.
            if len(np.unique(indices)) == count:
                break
        values = [float(index * step) for index in indices.tolist()]
        return tuple(round(value) if self.integer else float(f"{value:.12g}") for value in values)


Domain = Labels | Range


def looks_logarithmic(drawn: Sequence[float], within: Range) -> bool:
    """Tell whether numbers are far likelier if drawn evenly on a log scale of a wide range than on a linear one.

    >>> looks_logarithmic([1e-4, 3e-3, 2e-5, 5e-4], Range(1e-5, 1e-1))
    True
    >>> looks_logarithmic([0.04, 0.01, 0.003, 0.06], Range(1e-5, 1e-1))
    False
    """
    values = {value for value in drawn if within.holds(value)}
    if len(values) < FEW or not 0 < within.lower <= within.upper / WIDE:
        return False
    linear, log = within.upper - within.lower, math.log(within.upper / within.lower)
    return sum(math.log(linear / (log * value)) for value in values) > math.log(LIKELIER)


def read_domain(name: str, domain: Any) -> Domain:
    """Read one of Tune's distributions; SpaceError unless it has bounds or choices."""
    sampler = domain.get_sampler()
    step = None
    if isinstance(sampler, sample.Quantized):
        step, sampler = sampler.q, sampler.sampler
    if isinstance(domain, sample.Categorical):
        return read_labels(name, domain.categories)
    log = isinstance(sampler, sample.LogUniform)
    if not (log or isinstance(sampler, sample.Uniform)) or not isinstance(domain, sample.Float | sample.Integer):
        raise SpaceError(
            f"{name!r}: a number needs bounds, got {type(domain).__name__} drawn by {sampler}; "
            "use tune.uniform, loguniform, randint or lograndint"
        )
    lower, upper = domain.lower, domain.upper
    if not lower < upper:
        raise SpaceError(
            f"{name!r}: the lower bound must be below the upper, got ({lower}, {upper}); swap or widen them"
        )
    if isinstance(domain, sample.Integer):
        # Tune's upper bound is exclusive, but inclusive where a step is given.
        last = int(upper) - (step is None)
        return Range(int(lower), last, log, None if step == 1 else step, integer=True)
    return Range(float(lower), float(upper), log, step)


def read_labels(name: str, values: Any) -> Labels:
    """Read choices; SpaceError if one is an object."""
    labels = tuple(tuple(label) if isinstance(label, list) else label for label in values)
    if any(map(is_placeholder, labels)):
        raise SpaceError(
            f"{name!r}: a choice is among numbers, strings, booleans, None and tuples of them, got an object; "
            "use names and look the objects up in the trainable"
        )
    return Labels(labels)


def is_placeholder(value: Any) -> bool:
    """Tell whether Tune has replaced something by this value."""
    return isinstance(value, tuple) and bool(value) and value[0] in (OBJECT, FUNCTION)


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
