"""Search spaces as Ray Tune's users write them, in the terms of ConfigSpace."""

import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from ConfigSpace import OrdinalHyperparameter
from ConfigSpace import UniformFloatHyperparameter as UniformFloat
from ConfigSpace import UniformIntegerHyperparameter as UniformInteger
from ray.tune.search import BasicVariantGenerator, sample

from popbandits.errors import ArgumentError, SpaceError
from popbandits.space import Space
from popbandits.typing import is_real

LEVELS = 256
"""How many steps of a quantized range are told apart; of more, so many are taken, evenly on its scale."""


def from_param_space(param_space: Mapping[str, Any]) -> Space | None:
    """The parameters that a `param_space` leaves open, nested as they are there; None if it leaves none open.

    What is fixed stays Tune's: constants, `sample_from`, `grid_search`.

    >>> from ray import tune
    >>> from_param_space({"lr": tune.loguniform(1e-4, 1e-1), "net": {"depth": tune.randint(1, 4)}, "gamma": 0.9}).names
    ('lr', 'net.depth')
    """
    found = _open(param_space, ())
    return Space(found) if found else None


def from_bounds(bounds: Any, param_space: Mapping[str, Any]) -> Space:
    """The parameters of `hyperparam_bounds`: [lower, upper] as Tune's PB2 takes it, or one of Tune's distributions.

    A range is of integers where `param_space` has one in its place, as in Tune.

    >>> [number.kind for number in from_bounds({"batch": [8, 64], "momentum": [0, 1]}, {"batch": 32}).numerical]
    ['integer', 'float']
    """
    if not (isinstance(bounds, dict) and bounds):
        raise SpaceError(
            f"hyperparam_bounds must be a dict of ranges, got {bounds!r}; write for example {{'lr': [0.1, 1.0]}}"
        )
    return Space(dict(_bounded(bounds, param_space, ())))


def _bounded(bounds: Mapping[str, Any], given: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for key, value in bounds.items():
        here, name = (*path, key), ".".join((*path, key))
        beside = given.get(key) if isinstance(given, Mapping) else None
        if isinstance(value, Mapping):
            yield key, dict(_bounded(value, beside, here))
        elif isinstance(value, sample.Domain):
            yield key, _hyperparameter(name, value)
        elif isinstance(value, list | tuple) and len(value) == 2 and all(map(is_real, value)):
            integer = isinstance(beside, int | sample.Integer) and not isinstance(beside, bool)
            yield key, tuple(int(bound) if integer else float(bound) for bound in value)
        else:
            raise SpaceError(
                f"{name!r}: hyperparam_bounds holds ranges [lower, upper] of two numbers, got {value!r}; "
                "write tune.choice([...]) for categories"
            )


def _open(part: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The distributions in a dict, nested as they are there."""
    found: dict[str, Any] = {}
    for key, value in part.items():
        here = (*path, str(key))
        if isinstance(value, Mapping):
            inner = {} if value.keys() == {"grid_search"} else _open(value, here)
            if inner:
                found[key] = inner
        elif isinstance(value, sample.Domain) and not isinstance(value, sample.Function):
            found[key] = _hyperparameter(".".join(here), value)
    return found


def _hyperparameter(name: str, domain: Any) -> Any:
    sampler = domain.get_sampler()
    step = None
    if isinstance(sampler, sample.Quantized):
        step, sampler = sampler.q, sampler.sampler
    if isinstance(domain, sample.Categorical):
        return _choice(name, domain)
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
        if step in (None, 1):
            return _integer(name, int(lower), int(upper) - (step is None), log)
        return OrdinalHyperparameter(name, [round(value) for value in _levels(name, lower, upper, step, log)])
    if step is None:
        return UniformFloat(name, float(lower), float(upper), log=log)
    return OrdinalHyperparameter(name, [float(f"{value:.12g}") for value in _levels(name, lower, upper, step, log)])


def _integer(name: str, lower: int, upper: int, log: bool) -> Any:
    return lower if lower == upper else UniformInteger(name, lower, upper, log=log)


def _choice(name: str, domain: sample.Categorical) -> Any:
    labels = [tuple(label) if isinstance(label, list) else label for label in domain.categories]
    for label in labels:
        if isinstance(label, tuple) and label and label[0] in ("__ref_ph", "__fn_ph"):  # what Tune puts in their place
            raise SpaceError(
                f"{name!r}: a choice is among numbers, strings, booleans, None and tuples of them, got an object; "
                "use names and look the objects up in the trainable"
            )
    [made] = Space({name: labels}).configuration_space.values()  # which checks the labels
    return made


def _levels(name: str, lower: float, upper: float, step: float, log: bool) -> list[float]:
    """The multiples of a step within bounds; of many, some, evenly on the range's scale."""
    first, last = math.ceil(lower / step - 1e-9), math.floor(upper / step + 1e-9)
    if first > last:
        raise SpaceError(f"{name!r}: a range must hold a multiple of its step, got ({lower}, {upper}) and {step}")
    spaced = np.linspace if not log else np.geomspace
    for count in range(min(LEVELS, last - first + 1), 0, -1):
        indices = np.rint(spaced(max(first, 1) if log else first, last, count))
        # Near the lower end of a log range the steps are wide: there are only so many that are even on its scale.
        if len(np.unique(indices)) == count:
            break
    return [float(index * step) for index in indices.tolist()]


def of_generator(generator: Any) -> Mapping[str, Any]:
    """The `param_space` that Tune's own generator of trials draws from."""
    # Schedulers are told of no search space; the generator holds the specification as it was written.
    specifications = [iterator.unresolved_spec for iterator in getattr(generator, "_iterators", [])]
    return dict(specifications[0].get("config", {})) if specifications else {}


def as_space(space: Any, bounds: Mapping[str, Any] | None, generator: Any) -> Space:
    """What is tuned: a space that was given, bounds, or what `param_space` leaves open."""
    param_space = of_generator(generator)
    if space is not None:
        return Space(space)
    if bounds is not None:
        return from_bounds(bounds, param_space)
    found = from_param_space(param_space)
    if found is None:
        raise SpaceError(
            f"param_space must leave something open, got {dict(param_space)!r}; use tune.uniform, tune.choice, ... "
            "in it, or give the scheduler a space"
        )
    return found


def population_size(generator: Any, name: str) -> int:
    """How many trials there will be."""
    if not isinstance(generator, BasicVariantGenerator):
        raise ArgumentError(f"{name} chooses every configuration itself, got search_alg={generator!r}; drop it")
    size, together = generator.total_samples, generator.max_concurrent
    if size >= sys.maxsize:
        raise ArgumentError(f"a population has a size, got num_samples=-1 for {name}; say how many")
    if 0 < together < size:
        raise ArgumentError(
            f"all {size} trials of {name} are trained in turns, got max_concurrent_trials={together}; drop it: "
            "trials wait for resources by themselves"
        )
    return int(size)
