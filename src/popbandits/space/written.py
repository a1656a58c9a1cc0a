"""Find what is valid in a space as a user wrote it, but may not be what was meant."""

from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import Any

from ConfigSpace import ConfigurationSpace
from ConfigSpace import UniformFloatHyperparameter as UniformFloat
from ConfigSpace import UniformIntegerHyperparameter as UniformInteger

from popbandits.basics.rules import is_real
from popbandits.space.build import groups, leaves
from popbandits.space.foreign import likely_meant
from popbandits.space.ranges import Limited, is_wide, written


def doubts(space: Any, made: ConfigurationSpace) -> list[str]:
    """List points to check in what a user wrote, from which `made` was built; empty for most spaces.

    >>> from popbandits.space.build import build
    >>> space = {"gamma": (0, 1), "clip": [0.1, 0.2], "lr": (1e-5, 1e-1)}
    >>> for doubt in doubts(space, build(space)[0]):
    ...     print(doubt)
    gamma: (0, 1) means the whole numbers 0, 1; write (0.0, 1.0) for all numbers between
    clip: [0.1, 0.2] is a choice of two values, a range is a tuple; write (0.1, 0.2) for all numbers between
    lr: (1e-05, 0.1) is linear, so that most values tried are above 0.01; write log(1e-05, 0.1)
    """
    is_dict = isinstance(space, Mapping) and not isinstance(space, ConfigurationSpace)
    return [*(_in_dict(space) if is_dict else ()), *_wide(made, is_dict)]


def _in_dict(space: Mapping[Any, Any]) -> Iterator[str]:
    for path, written_as in leaves(space):
        name = ".".join(path)
        value = written_as.values if isinstance(written_as, Limited) else written_as
        if isinstance(value, tuple) and all(isinstance(bound, Integral) and abs(int(bound)) <= 1 for bound in value):
            first, last = map(int, value)
            yield (
                f"{name}: ({first}, {last}) means the whole numbers {', '.join(map(str, range(first, last + 1)))}; "
                f"write ({first}.0, {last}.0) for all numbers between"
            )
        if isinstance(value, list) and _like_bounds(value):
            low, high = map(float, value)
            yield (
                f"{name}: {value!r} is a choice of two values, a range is a tuple; write {written(low, high)} for all "
                "numbers between"
            )
    for path, group in groups(space):
        if (meant := likely_meant(group)) is not None:
            name = ".".join(path)
            made = " and ".join(f"{name}.{key}" for key in group)
            yield f"{name}: {dict(group)!r} is a group and makes {made}; write {meant} to tune {name} itself"


def _like_bounds(labels: list[Any]) -> bool:
    """Tell whether two labels look like bounds: numbers, the smaller first, not both whole."""
    return (
        len(labels) == 2
        and all(map(is_real, labels))
        and any(isinstance(label, float) for label in labels)
        and labels[0] < labels[1]
    )


def _wide(made: ConfigurationSpace, is_dict: bool) -> Iterator[str]:
    for name, one in made.items():
        if isinstance(one, UniformFloat | UniformInteger) and not one.log and is_wide(one.lower, one.upper):
            kind = "Float" if isinstance(one, UniformFloat) else "Integer"
            fix = written(one.lower, one.upper) if is_dict else f"{kind}({name!r}, {(one.lower, one.upper)}, log=True)"
            yield (
                f"{name}: {(one.lower, one.upper)} is linear, so that most values tried are above {one.upper / 10:g}; "
                f"write {fix}"
            )
