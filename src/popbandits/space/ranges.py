"""Ranges as a user writes them: `log(1e-5, 1e-1)`, `only_falls(...)`, and which linear ranges are too wide."""

from dataclasses import dataclass
from typing import Any, Literal

Only = Literal["falls", "rises"]
"""Direction in which the value of a number may change along a lineage."""

_WIDE = 1000
"""Ratio of the bounds, three decades, from which on a linear range almost never tries small values."""


@dataclass(frozen=True, repr=False)
class LogRange:
    """A range as `log` returns it, unchecked: the space that it is put in knows its name, for errors."""

    lower: float
    upper: float
    default: float | None = None

    def __repr__(self) -> str:
        default = "" if self.default is None else f", default={self.default!r}"
        return f"log({self.lower!r}, {self.upper!r}{default})"


def log(lower: float, upper: float, *, default: float | None = None) -> LogRange:
    """Describe a range on a log scale, for the dict of a space: every power of ten is tried as often as any other.

    Use it for learning rates, weight decay, batch sizes. Two whole numbers make a range of whole numbers.

    >>> from popbandits import Space, log
    >>> Space({"lr": log(1e-5, 1e-1, default=3e-4), "batch": log(8, 512)})
    Space(
      batch: integer [8, 512] log
      lr: float [1e-05, 0.1] log
    )

    Args:
        lower: Lower bound, above zero.
        upper: Upper bound; it can be chosen too.
        default: Value that you know to work: a run begins there, unless its `start` says otherwise. None (default) is
            the middle of the log scale, which says nothing.
    """
    return LogRange(lower, upper, default)


@dataclass(frozen=True, repr=False)
class Limited:
    """Values as `only_falls` and `only_rises` return them, unchecked."""

    values: Any
    only: Only

    def __repr__(self) -> str:
        return f"only_{self.only}({self.values!r})"


def only_falls(values: Any) -> Limited:
    """Describe a number that never rises while a model trains: a member's value is at most its parent's.

    It holds for the value that agents train with, along every lineage and for every method: what would rise stays at
    the parent's value. Two members that began apart may still have any two values.

    >>> from popbandits import Space, log
    >>> Space({"lr": only_falls(log(1e-5, 1e-1)), "layers": only_rises((1, 8))})
    Space(
      layers: integer [1, 8] only rises
      lr: float [1e-05, 0.1] log only falls
    )

    Args:
        values: A range, (lower, upper) or `log(lower, upper)`, or an ordinal of ConfigSpace. In a `ConfigurationSpace`
            write `meta={"only": "falls"}` instead.
    """
    return Limited(values, "falls")


def only_rises(values: Any) -> Limited:
    """Describe a number that never falls while a model trains, as `only_falls` does.

    Args:
        values: A range, (lower, upper) or `log(lower, upper)`, or an ordinal of ConfigSpace. In a `ConfigurationSpace`
            write `meta={"only": "rises"}` instead.
    """
    return Limited(values, "rises")


def is_wide(lower: float, upper: float) -> bool:
    """Tell whether a range spans three decades or more.

    >>> is_wide(1e-4, 1e-1), is_wide(1e-3, 1e-1), is_wide(0.0, 1.0)
    (True, False, False)
    """
    return lower > 0 and upper / lower >= _WIDE * (1 - 1e-9)  # 1e-1 / 1e-4 may be just below 1000.


def written(lower: float, upper: float) -> str:
    """Write a range as it should be: as a log range if it is wide.

    >>> written(1e-5, 1e-1), written(0.1, 1.0)
    ('log(1e-05, 0.1)', '(0.1, 1.0)')
    """
    return repr(LogRange(lower, upper)) if is_wide(lower, upper) else repr((lower, upper))
