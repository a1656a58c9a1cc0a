"""Schedules: values that change over a run, which members follow and whose deviation from them is tuned.

A parameter with a schedule s has, in round r, the value at

    x_r = clip(x + s_r - s_0, 0, 1),                                                    (schedule)

where x is its value in the configuration and s_r that of the schedule, all on the parameter's own scale. So the
configuration holds the value at the beginning of the run. On a log scale members tune a factor, on others a difference.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from popbandits.basics.arithmetic import without_rounding
from popbandits.basics.rules import is_real
from popbandits.basics.typing import FloatArray
from popbandits.errors import ArgumentError, SpaceError
from popbandits.space.parameters import Numerical, Parameter, Scale

_HALVINGS = 60  # to the last bit of a number in [0, 1]
_SAME = 1e-12  # relative difference of values that are one

Tables = Mapping[str, tuple[float, ...]]
"""Values of schedules in each round, by the name of the parameter."""


@dataclass(frozen=True, repr=False)
class Schedule:
    """A value as a function of the progress of a run, from 0 in its first round to 1 in its last."""

    function: Callable[..., float]
    """Function of the progress and the arguments; of a module, so that schedules can be pickled."""
    arguments: tuple[Any, ...]

    def __call__(self, progress: float) -> float:
        """Return the value at a progress between 0 and 1."""
        return self.function(progress, *self.arguments)

    def __repr__(self) -> str:
        return f"{self.function.__name__[1:]}({', '.join(map(repr, self.arguments))})"


def constant(value: float) -> Schedule:
    """Describe a value that stays, to follow a `warm_up`.

    >>> constant(0.1)(0.5)
    0.1

    Args:
        value: Value in every round.
    """
    return Schedule(_constant, (value,))


def _constant(progress: float, value: float) -> float:
    return value


def linear(first: float, last: float) -> Schedule:
    """Describe a value that changes by the same amount in each round.

    >>> linear(1.0, 0.5)(0.5)
    0.75

    Args:
        first: Value in the first round.
        last: Value in the last round.
    """
    return Schedule(_linear, (first, last))


def _linear(progress: float, first: float, last: float) -> float:
    return first + (last - first) * progress


def cosine(first: float, last: float) -> Schedule:
    """Describe a value that changes along half a cosine: slowly at both ends.

    >>> [round(cosine(1.0, 0.0)(progress), 3) for progress in (0.0, 0.25, 0.5, 1.0)]
    [1.0, 0.854, 0.5, 0.0]

    Args:
        first: Value in the first round.
        last: Value in the last round.
    """
    return Schedule(_cosine, (first, last))


def _cosine(progress: float, first: float, last: float) -> float:
    return last + (first - last) * (1 + math.cos(math.pi * progress)) / 2


def warm_up(first: float, then: Callable[[float], float], share: float = 0.1) -> Schedule:
    """Describe a linear change to the beginning of another schedule, which follows in the rest of the run.

    >>> [round(warm_up(0.0, cosine(1.0, 0.0), share=0.2)(progress), 3) for progress in (0.0, 0.1, 0.2, 0.6, 1.0)]
    [0.0, 0.5, 1.0, 0.5, 0.0]

    Args:
        first: Value in the first round.
        then: Schedule of the rest of the run.
        share: Share of the run that the change takes, above 0 and below 1. Default 0.1.
    """
    if not (is_real(share) and 0 < share < 1):
        raise ArgumentError(f"share must be above 0 and below 1, got {share!r}")
    return Schedule(_warm_up, (first, then, share))


def _warm_up(progress: float, first: float, then: Callable[[float], float], share: float) -> float:
    if progress >= share:
        return then((progress - share) / (1 - share))
    return _linear(progress / share, first, then(0.0))


def tabulate(name: str, schedule: Callable[[float], float], rounds: int | None) -> tuple[float, ...]:
    """Return the values of a schedule in each round of a run.

    Args:
        name: Name of the parameter, for errors.
        schedule: Function of the progress.
        rounds: Rounds of the run.
    """
    if rounds is None:
        raise ArgumentError(f"{name!r}: a schedule needs a run with a set end, got rounds=None; give rounds")
    values = [schedule(round_ / max(1, rounds - 1)) for round_ in range(rounds)]
    for value in values:
        if not is_real(value) or not math.isfinite(value):
            raise ArgumentError(f"{name!r}: a schedule must return numbers, got {value!r} from {schedule!r}")
    largest = max(map(abs, values))
    return tuple(without_rounding(float(value), largest) for value in values)


def check(parameters: Mapping[str, Parameter], tables: Mapping[str, Sequence[float]]) -> None:
    """Raise SpaceError for a schedule that its parameter cannot follow."""
    for name, table in tables.items():
        number = parameters.get(name)
        if not isinstance(number, Numerical) or number.kind == "ordinal":
            got = "an unknown parameter" if number is None else str(number)
            raise SpaceError(f"{name!r}: only a number with a range has a schedule, got one for {got}; give a value")
        for value in table:
            number.code(round(value) if number.kind == "integer" else value)
        if number.only is not None and list(table) != sorted(table, reverse=number.only == "falls"):
            raise SpaceError(
                f"{name!r}: a number that only {number.only} needs a schedule that only {number.only}, got the "
                f"values {', '.join(f'{value:.4g}' for value in table[:8])}, ...; change one of the two"
            )


def differing(before: Tables, now: Tables, rounds: int) -> list[str]:
    """List the parameters whose schedules do not lead through the same values in the first rounds.

    >>> differing({"lr": (0.5, 0.25), "clip": (0.2, 0.2)}, {"lr": (0.5, 0.25, 0.125)}, rounds=2)
    []
    >>> differing({"lr": (0.5, 0.25)}, {"lr": (0.5, 0.375, 0.25)}, rounds=2), differing({}, {"lr": (0.5, 0.25)}, 2)
    (['lr'], ['lr'])

    Args:
        before: Schedules of a run.
        now: Schedules with which it is to go on.
        rounds: Rounds that the run has begun.
    """
    found = []
    for name in {**before, **now}:
        one, other = (tables.get(name) for tables in (before, now))
        # A parameter without a schedule stays, and so does one whose schedule is a single value.
        lines = [[table[min(r, len(table) - 1)] for r in range(rounds)] for table in (one, other) if table is not None]
        if len(lines) == 1:
            differ = len(set(lines[0])) > 1
        else:
            # Another machine's cosine may differ in the last bits.
            close = partial(math.isclose, rel_tol=_SAME, abs_tol=_SAME * max(map(abs, lines[0]), default=0.0))
            differ = not all(map(close, *lines))
        if differ:
            found.append(name)
    return found


def shifted(number: Numerical, value: Any, table: Sequence[float], round_: int) -> Any:
    """Return the value of a number in a round, from its value in the configuration; a longer run keeps the last one.

    >>> lr = Numerical("lr", "float", 1e-4, 1.0, log=True)
    >>> round(shifted(lr, 0.02, (0.1, 0.01), round_=1), 6)
    0.002
    """
    code, first, now = number.code(value), table[0], table[min(round_, len(table) - 1)]
    if now == first:
        return value
    if code == first:  # On the schedule, to the last bit.
        return number.at(round(now) if number.kind == "integer" else now)
    scale = Scale([number])
    x = scale.unit(np.array([code])) + offsets(number, (first, now))[1]
    return number.at(float(scale.codes(x.clip(0, 1))[0]))


def held(number: Numerical, value: Any, limit: Any, table: Sequence[float], round_: int) -> Any:
    """Return the nearest value in a configuration whose meaning in a round does not pass a limit.

    >>> lr = Numerical("lr", "float", 1e-4, 1.0, log=True, only="falls")
    >>> held(lr, 0.5, 0.1, (), round_=1), round(held(lr, 0.5, 0.02, (0.1, 0.01), round_=1), 6)
    (0.1, 0.2)

    Args:
        number: A number that only falls or only rises.
        value: Its value in the configuration.
        limit: Value that it had before, in training.
        table: Values of its schedule in each round; empty without one.
        round_: Round of the configuration.
    """
    sign, last = (1 if number.only == "falls" else -1), number.code(limit)

    def passes(inner: Any) -> bool:
        meant = shifted(number, inner, table, round_) if table else inner
        return sign * (number.code(meant) - last) > 0

    if not passes(value):
        return value
    if not table:
        return limit
    scale = Scale([number])
    inside, outside = np.array([0.0 if sign > 0 else 1.0]), scale.unit(np.array([number.code(value)]))
    for _ in range(_HALVINGS):  # A schedule falls with the number, so that the end of the range never passes.
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if passes(number.at(float(scale.codes(middle)[0]))) else (middle, outside)
    return number.at(float(scale.codes(inside)[0]))


def offsets(number: Numerical, table: Sequence[float]) -> FloatArray:
    """Return s_r - s_0 in each round, on the number's scale."""
    s = Scale([number]).unit(np.array(table, float)[:, None])[:, 0]
    moved: FloatArray = s - s[0]
    return moved
