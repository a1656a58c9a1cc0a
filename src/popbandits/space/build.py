"""Build a `ConfigurationSpace` from the user's dict, with errors that ConfigSpace does not raise."""

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from ConfigSpace import CategoricalHyperparameter, ConfigurationSpace, Constant, OrdinalHyperparameter
from ConfigSpace import UniformFloatHyperparameter as UniformFloat
from ConfigSpace import UniformIntegerHyperparameter as UniformInteger
from ConfigSpace.conditions import Condition, Conjunction
from ConfigSpace.forbidden import ForbiddenClause, ForbiddenConjunction, ForbiddenRelation
from ConfigSpace.hyperparameters import FloatHyperparameter, Hyperparameter, IntegerHyperparameter

from popbandits.errors import SpaceError
from popbandits.space.foreign import refuse_description, refuse_foreign
from popbandits.space.ranges import Limited, LogRange

Paths = dict[str, tuple[str, ...]]
"""For each dotted name, the keys that lead to it in the user's dict."""

AnyHyperparameter = Hyperparameter[Any, Any]

ONLY = "only"
"""Key of a hyperparameter's `meta` that says whether its value only "falls" or only "rises"."""

_RULES = (Condition, Conjunction, ForbiddenClause, ForbiddenConjunction, ForbiddenRelation)
_FIRST_STEP = "write for example {'lr': (0.1, 1.0)}"
_LARGEST_INTEGER = 2**40  # beyond it neighbours are equal on a log scale in float64


def build(space: Any) -> tuple[ConfigurationSpace, Paths]:
    """Return the validated `ConfigurationSpace`, and the path of each name in the user's dict.

    >>> made, paths = build({"optimizer": {"lr": (0.1, 1.0)}, "depth": (1, 8)})
    >>> paths
    {'optimizer.lr': ('optimizer', 'lr'), 'depth': ('depth',)}
    """
    paths: Paths = {}
    if isinstance(space, ConfigurationSpace):
        made = space
        for name, hyperparameter in space.items():
            _check_name(name, "space")
            _check(hyperparameter)
            paths[name] = (name,)
    elif isinstance(space, Mapping):
        hyperparameters: list[AnyHyperparameter] = []
        for path, value in leaves(space):
            name = ".".join(path)
            if name in paths:
                raise SpaceError(f"{name!r}: a name is used once, got it flat and nested; drop one of the two")
            paths[name] = path
            hyperparameters.append(_hyperparameter(name, path[-1], value))
        made = ConfigurationSpace(space=hyperparameters)
    else:
        refuse_foreign("space", space)
        raise SpaceError(f"a space is a dict or a ConfigurationSpace, got {space!r:.200}; {_FIRST_STEP}")
    if not paths:
        raise SpaceError(f"a space needs at least one parameter, got none; {_FIRST_STEP}")
    for name in paths:
        parts = name.split(".")
        for stop in range(1, len(parts)):
            if (prefix := ".".join(parts[:stop])) in paths:
                raise SpaceError(f"{name!r}: a parameter cannot also be a group, got {prefix!r} as well; rename one")
    return made, paths


def names_default(space: ConfigurationSpace) -> bool:
    """Tell whether somebody chose a default: one differs from what ConfigSpace sets if none is given.

    >>> names_default(build({"lr": LogRange(1e-5, 1e-1), "act": ["relu", "tanh"]})[0])
    False
    >>> names_default(build({"lr": LogRange(1e-5, 1e-1, default=3e-4), "act": ["relu", "tanh"]})[0])
    True
    """
    return any(hp.default_value != _usual_default(hp) for hp in space.values())


def _usual_default(hp: AnyHyperparameter) -> Any:
    """Return the default that ConfigSpace sets if none is given."""
    if isinstance(hp, UniformFloat | UniformInteger):
        return type(hp)(hp.name, hp.lower, hp.upper, log=hp.log).default_value
    if isinstance(hp, OrdinalHyperparameter):
        return OrdinalHyperparameter(hp.name, hp.sequence).default_value
    if isinstance(hp, CategoricalHyperparameter):
        return CategoricalHyperparameter(hp.name, hp.choices, weights=hp.weights).default_value
    return hp.default_value  # A distribution of its own says more than a default.


def unbox(value: Any) -> Any:
    """Convert numpy scalars to Python's own types; leave other values as they are."""
    return value.item() if isinstance(value, np.generic) else value


def leaves(space: Mapping[Any, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every parameter of a user's dict, with the keys that lead to it; SpaceError for a bad key or group."""
    for key, value in space.items():
        _check_name(key, ".".join(path) or "space")
        here = (*path, key)
        if isinstance(value, ConfigurationSpace):
            raise SpaceError(
                f"{'.'.join(here)!r}: a group is a dict, got a ConfigurationSpace; join the two with "
                "ConfigurationSpace.add_configuration_space"
            )
        if isinstance(value, Mapping):
            if not value:
                raise SpaceError(f"{'.'.join(here)!r}: a group needs a parameter, got {{}}; drop it")
            refuse_description(".".join(here), value)
            yield from leaves(value, here)
        else:
            yield here, value


def put(config: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set the value at a path of a nested dict; missing dicts on the way are made."""
    *outer, key = path
    for group in outer:
        config = config.setdefault(group, {})
    config[key] = value


def groups(space: Mapping[Any, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Mapping[Any, Any]]]:
    """Yield every dict inside a user's dict, with the keys that lead to it."""
    for key, value in space.items():
        if isinstance(value, Mapping):
            yield (*path, key), value
            yield from groups(value, (*path, key))


def _hyperparameter(name: str, key: str, value: Any) -> AnyHyperparameter:
    if isinstance(value, Hyperparameter):
        if value.name not in (name, key):
            raise SpaceError(
                f"{name!r}: a hyperparameter must be named like its key, got one named {value.name!r}; "
                "make the two equal"
            )
        _check(value)
        renamed: AnyHyperparameter = copy.copy(value)
        renamed.name = name
        return renamed
    if isinstance(value, Limited):
        made = _hyperparameter(name, key, value.values)
        made.meta = {**(made.meta or {}), ONLY: value.only}
        return made
    if isinstance(value, tuple):
        return _linear(name, value)
    if isinstance(value, LogRange):
        return _logarithmic(name, value)
    refuse_foreign(name, value)
    if isinstance(value, list):
        labels = [unbox(label) for label in value]
        _check_labels(name, labels)
        return CategoricalHyperparameter(name, labels)
    if isinstance(value, _RULES):
        raise SpaceError(
            f"{name!r}: a dict holds parameters only, got the rule {value!r}; "
            "make a ConfigurationSpace and add the rule to it"
        )
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        raise SpaceError(
            f"{name!r}: choices are a list, a range is a tuple and a constant is one value, got {value!r}; "
            f"write a list, or Constant({name!r}, ...) if it is one value"
        )
    constant = Constant(name, unbox(value))
    _check(constant)
    return constant


def _linear(name: str, bounds: tuple[Any, ...]) -> UniformFloat | UniformInteger:
    if len(bounds) != 2 or not all(map(_is_number, bounds)):
        raise SpaceError(
            f"{name!r}: a tuple is a range (lower, upper) of two numbers, got {bounds!r}; "
            "write a list for choices, or log(lower, upper) for a log range"
        )
    return _range(name, bounds)


def _logarithmic(name: str, given: LogRange) -> UniformFloat | UniformInteger:
    bounds = given.lower, given.upper
    if not all(map(_is_number, bounds)):
        raise SpaceError(f"{name!r}: a log range has two numbers, got {given!r}; write log(lower, upper)")
    mixed = len({isinstance(bound, Integral) for bound in bounds}) == 2
    if mixed and bounds[0] > 0 and all(float(bound).is_integer() for bound in bounds):
        lower, upper = map(int, bounds)
        raise SpaceError(
            f"{name!r}: a log range has two floats or two whole numbers, got {given!r}; write log({lower}, {upper}) "
            f"for whole numbers, or log({lower}.0, {upper}.0) for all numbers between"
        )
    return _range(name, bounds, given)


def _range(name: str, bounds: tuple[Any, Any], given: LogRange | None = None) -> UniformFloat | UniformInteger:
    """Make a range of two numbers: a log range if it was `given` as one."""
    # ConfigSpace looks only at the lower bound: it would make (0, 1.0) an integer that is 0 or 1.
    whole = all(isinstance(bound, Integral) for bound in bounds)
    lower, upper = (int(bound) if whole else float(bound) for bound in bounds)
    _check_bounds(name, lower, upper, given is not None, given)
    default = None if given is None or given.default is None else _default(name, given, whole)
    kind = UniformInteger if whole else UniformFloat
    try:
        made: UniformFloat | UniformInteger = kind(name, lower, upper, default, log=given is not None)
    except ValueError as error:
        raise SpaceError(
            f"{name!r}: ConfigSpace keeps 13 decimals of a bound, got {given or bounds!r}; use larger units"
        ) from error
    return made


def _default(name: str, given: LogRange, whole: bool) -> float:
    """Return the default of a log range; SpaceError if it is none of its values."""
    default: Any = given.default
    if not _is_number(default) or (whole and not isinstance(default, Integral)):
        kind = "a whole number, as its bounds are" if whole else "a number"
        raise SpaceError(f"{name!r}: the default must be {kind}, got {given!r}; convert it")
    if not given.lower <= default <= given.upper:
        raise SpaceError(f"{name!r}: the default must be within the bounds, got {given!r}; widen the range, or move it")
    return int(default) if whole else float(default)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check(hyperparameter: AnyHyperparameter) -> None:
    """Raise for a hyperparameter that ConfigSpace accepts but the encoding cannot use."""
    name = hyperparameter.name
    if isinstance(hyperparameter, FloatHyperparameter | IntegerHyperparameter):
        _check_bounds(name, hyperparameter.lower, hyperparameter.upper, hyperparameter.log)
    elif isinstance(hyperparameter, CategoricalHyperparameter):
        _check_labels(name, hyperparameter.choices)
    elif isinstance(hyperparameter, OrdinalHyperparameter):
        _check_labels(name, hyperparameter.sequence)
    elif not isinstance(hyperparameter, Constant):
        raise SpaceError(
            f"{name!r}: a hyperparameter is one of ConfigSpace's own, got {type(hyperparameter).__name__}; "
            "use Float, Integer, Categorical, OrdinalHyperparameter or Constant"
        )
    elif isinstance(hyperparameter.value, Limited):
        only = hyperparameter.value.only
        raise SpaceError(
            f"{name!r}: only_{only}() belongs in a dict, got {hyperparameter.value!r} in a ConfigurationSpace; "
            f"write Float({name!r}, (lower, upper), meta={{{ONLY!r}: {only!r}}}), or Integer"
        )
    elif isinstance(hyperparameter.value, LogRange):
        raise SpaceError(
            f"{name!r}: log() belongs in a dict, got {hyperparameter.value!r} in a ConfigurationSpace; "
            f"write Float({name!r}, (lower, upper), log=True), or Integer"
        )
    elif isinstance(hyperparameter.value, Mapping):
        raise SpaceError(
            f"{name!r}: a constant is one value, got the dict {hyperparameter.value!r}; "
            "pass the nested dict itself, not a ConfigurationSpace made from it"
        )
    else:
        _check_labels(name, (hyperparameter.value,))


def _check_name(name: Any, where: str) -> None:
    if not isinstance(name, str) or not name:
        raise SpaceError(f"{where!r}: a name is a string that is not empty, got {name!r}; rename it")


def _check_bounds(name: str, lower: float, upper: float, log: bool, given: LogRange | None = None) -> None:
    got = f"got {given or (lower, upper)!r}"
    if not (math.isfinite(lower) and math.isfinite(upper)):
        raise SpaceError(f"{name!r}: bounds must be finite, {got}; give the largest range you would try")
    if lower == upper:
        raise SpaceError(f"{name!r}: the bounds must differ, {got}; write the bare value for a constant")
    if lower > upper:
        raise SpaceError(f"{name!r}: the lower bound comes first, {got}; swap the two")
    if log and lower <= 0:
        raise SpaceError(
            f"{name!r}: a log range must be above zero, {got}; raise the lower bound, or use a linear range"
        )
    if isinstance(lower, int) and max(abs(lower), abs(upper)) > _LARGEST_INTEGER:
        raise SpaceError(f"{name!r}: an integer may be at most 2**40 in size, {got}; use a float range")


def _check_labels(name: str, labels: Sequence[Any]) -> None:
    seen: dict[Any, Any] = {}
    for label in labels:
        try:
            hash(label)
        except TypeError:
            raise SpaceError(
                f"{name!r}: a value must be hashable, got {label!r}; use a tuple or a name in its place"
            ) from None
        if isinstance(label, Mapping) or label != label:
            raise SpaceError(f"{name!r}: a value must not be NaN or a dict, got {label!r}; use a name or None")
        if label in seen:
            raise SpaceError(
                f"{name!r}: labels must differ, got {seen[label]!r} and {label!r}, which are equal; drop one"
            )
        seen[label] = label
    if not seen:
        raise SpaceError(f"{name!r}: a list of choices needs a label, got []; add one or drop the parameter")
