"""Ranges as a user writes them: `log(1e-5, 1e-1)`, and which linear ranges are too wide to be meant."""

from dataclasses import dataclass

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
