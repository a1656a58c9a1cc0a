"""Rules for allowed values, in code and in words. Cheap to import."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from os import PathLike
from typing import Any

from popbandits.basics.wording import suggestion
from popbandits.errors import ArgumentError, PopbanditsError


def is_real(value: object) -> bool:
    """Tell whether a value is a real number, numpy's too; NaN and booleans are not.

    >>> is_real(1), is_real(0.5), is_real(float("nan")), is_real(True), is_real("1")
    (True, True, False, False, False)
    """
    return (type(value) is float or (type(value) is not bool and isinstance(value, Real))) and bool(value == value)


def is_whole(value: object, least: int) -> bool:
    """Tell whether a value is an integer (not a boolean, not 2.0) of at least `least`."""
    if type(value) is int:  # The checks below take ten times as long.
        return value >= least
    return type(value) is not bool and isinstance(value, Integral) and int(value) >= least


@dataclass(frozen=True)
class Rule:
    """A rule that says which values are allowed."""

    holds: Callable[[Any], bool]
    words: str
    """Completes "it must be ..."."""
    fix: str = ""
    values: tuple[str, ...] = ()
    """The allowed values, if they are a few strings; an error suggests the closest."""

    def check(self, name: str, value: Any, error: type[PopbanditsError] = ArgumentError) -> None:
        """Raise if a value breaks the rule.

        >>> whole(1).or_none("for all").check("workers", 0)
        Traceback (most recent call last):
        popbandits.errors.ArgumentError: workers must be a whole number of at least 1, or None for all, got 0
        """
        if not self.holds(value):
            fix = self.fix and f"; {self.fix}"
            raise error(f"{name} must be {self.words}, got {value!r:.80}{fix or suggestion(value, self.values)}")

    def or_none(self, meaning: str = "") -> "Rule":
        """Allow None too; its meaning is part of the words."""
        words = f"{self.words}, or None {meaning}" if meaning else self.words
        return replace(self, holds=lambda value: value is None or self.holds(value), words=words)


def whole(least: int, most: int | None = None, fix: str = "") -> Rule:
    """Allow whole numbers, numpy's too."""

    def holds(value: Any) -> bool:
        return is_whole(value, least) and (most is None or value <= most)

    return Rule(holds, "a whole number " + (f"from {least} to {most:,}" if most else f"of at least {least}"), fix)


def real(words: str, holds: Callable[[float], bool] = math.isfinite, fix: str = "") -> Rule:
    """Allow the numbers for which `holds` is true; NaN is never allowed."""

    return Rule(lambda value: is_real(value) and holds(value), words, fix)


def one_of(*values: str) -> Rule:
    """Allow a few strings."""
    words = " or ".join(map(repr, values)) if len(values) == 2 else f"one of {', '.join(values)}"
    return Rule(lambda value: isinstance(value, str) and value in values, words, values=values)


EDITION = whole(1, 2)
"""Edition of the rules by which a method or selection decides; 1 is for runs of earlier versions."""
FLAG = Rule(lambda value: isinstance(value, bool), "True or False")
PATH = Rule(lambda path: isinstance(path, PathLike | str) and "\0" not in str(path), "a path, without null characters")
PROBABILITY = real("a probability between 0 and 1", lambda number: 0 <= number <= 1)
SCORE = Rule(lambda value: value != value or real("finite").holds(value), "finite")
"""NaN is an unknown score."""
SHARE = real("above 0 and at most 0.5", lambda number: 0 < number <= 0.5, fix="0.25 is usual")
