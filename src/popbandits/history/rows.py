"""Parts of a history as arrays, for the models to learn from, and the choice of these parts."""

from dataclasses import dataclass, fields

import numpy as np

from popbandits.basics.typing import BoolArray, FloatArray, IntArray
from popbandits.history.memory import Columns
from popbandits.space import Points

EARLY_OBSERVATIONS = 10_000
"""Number of first observations that are searched for rounds 0 and 1."""

MAX_LOOK_BACK = 20_000
"""Maximum number of observations that `informative_indices` looks back: its cost does not grow with the history."""


FENCE_RANGES = 3.0
"""Number of quartile ranges below the lower quartile from which a fall is a collapse, for the bandit (Tukey's outer
fence): normal changes reach it once in 800,000 times."""


@dataclass(frozen=True)
class Rows:
    """A part of a history as arrays, ordered by round and member, for the models to learn from.

    Scores are times the history's sign: higher is better, whatever the run's mode.
    """

    points: Points
    member: IntArray
    round: IntArray
    stage: IntArray
    """t of the models: number of intervals the weights had been trained for, along their lineage. It is the round,
    except for members that are behind the others (asynchronous) or returned to older weights after a failure."""
    change: FloatArray
    """y of the models: `Observation.change`, times the sign, per usual budget if budgets differ, and from a guess for
    fresh starts; NaN if the interval failed. Readers show `Observation.change` itself."""
    before: FloatArray
    """Score before the interval; NaN if unknown."""
    failed: BoolArray
    guessed: BoolArray
    """Fresh starts: they have no score before, and their change is from a common guess."""
    new: BoolArray
    """Intervals whose configuration is not that of the member's interval before: first ones, and most after a copy."""

    def __len__(self) -> int:
        return len(self.round)

    def __getitem__(self, mask: BoolArray) -> "Rows":
        return Rows(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})

    def targets(self) -> FloatArray:
        """Return the change, with the lower quartile of the known changes for failures.

        A model then avoids configurations that fail. With the worst change instead, it would also avoid good ones that
        failed for other reasons, which costs more than a few failures.
        """
        known = self.change[np.isfinite(self.change)]
        return np.where(np.isfinite(self.change), self.change, np.quantile(known, 0.25) if len(known) else 0.0)

    def gains(self, fenced: bool = True) -> FloatArray:
        """Return the change scaled to [0, 1], for the bandit; 0 for failures, and for all if all are equal.

        Paper: gains are in [0, 1], not how they get there. Here: from the least to the largest change, where a collapse
        (`fenced`, beyond FENCE_RANGES) counts as a fall to the fence, because one collapse would make all other gains
        nearly equal for as long as it is in the window. A leap upwards stays as it is: it is what the bandit looks for.

        >>> no, change = np.zeros(4, dtype=bool), np.array([1.0, 3.0, np.nan, 2.0])
        >>> rows = Rows(None, no, no, no, change, no, no, no, no)
        >>> rows.gains()
        array([0. , 1. , 0. , 0.5])
        """
        y = self.targets()
        y = np.maximum(y, _fence(self.change)) if fenced else y
        spread = np.ptp(y) if len(y) else 0.0
        if not spread > 1e-12 * np.abs(y).max(initial=0.0):
            return np.zeros(len(y))
        return np.clip(np.where(np.isfinite(self.change), (y - y.min()) / spread, 0.0), 0.0, 1.0)


def _fence(change: FloatArray) -> float:
    """Return the change below which a fall is a collapse; -inf if the changes do not spread."""
    known = change[np.isfinite(change)]
    if not len(known):
        return -np.inf
    low, high = np.quantile(known, [0.25, 0.75])
    return float(low - FENCE_RANGES * (high - low)) if high - low > 1e-12 * np.abs(known).max() else -np.inf


def recent_indices(columns: Columns, end: int, size: int, window: int | None) -> IntArray:
    """Return the indices of the last observations: whole rounds, so that the order within a round never matters."""
    start = 0 if window is None else max(0, end - window)
    whole = -(-start // size) * size
    if whole < end or window is None or not window:
        return np.arange(whole, end)
    # Less than a round fits: the first members of the last round, whatever the order in which they reported.
    indices = np.arange(max(0, end - size), end)
    return indices[np.argsort(columns.take("member", indices), kind="stable")][:window]


def informative_indices(columns: Columns, end: int, size: int, window: int) -> IntArray:
    """Return the indices of recent observations, and of older new ones, thinned by doubling strides of rounds."""
    last = recent_indices(columns, end, size, window // 2)
    start = int(last.min(initial=end))
    older = np.arange(max(0, start - -(-MAX_LOOK_BACK // size) * size), start)  # whole rounds
    older = older[columns.take("new", older)]
    round_ = columns.take("round", older)
    room, stride = window - window // 2, 1
    while len(older) > room and stride <= round_.max():
        stride *= 2
        among = round_ % stride == 0
        older, round_ = older[among], round_[among]
    # Only round 0 is left, and it is larger than the room: take its first members.
    if len(older) > room:
        older = older[np.argsort(columns.take("member", older), kind="stable")][:room]
    return np.concatenate([older, last])


def rows_at(columns: Columns, end: int, indices: IntArray) -> Rows:
    """Return the rows at these indices of a history of length `end`, by round and member, without lost ones."""
    indices = indices[~columns.take("lost", indices)]
    indices = indices[np.lexsort((columns.take("member", indices), columns.take("round", indices)))]
    part = {name: columns.take(name, indices) for name in columns.arrays}
    whole = {name: part[name].astype(np.int64) for name in ("h", "member", "round", "stage")}
    guessed = part["fresh"] & np.isfinite(part["score"]) & ~np.isfinite(part["before"])
    before = np.where(guessed, _untrained(columns, end), part["before"]) if guessed.any() else part["before"]
    return Rows(
        points=Points(part["x"], whole["h"]),
        member=whole["member"],
        round=whole["round"],
        stage=whole["stage"],
        change=_per_interval(part["score"] - before, part["steps"]),
        before=part["before"],
        failed=~np.isfinite(part["score"]),
        guessed=guessed,
        new=part["new"],
    )


def _untrained(columns: Columns, end: int) -> float:
    """Guess the score of an untrained member: assume that members which kept their configuration from round 0 to round
    1 gained as much in both.

    Paper: silent. Here: guessed, because after three rounds a third of the data would be thrown away. The models know
    that it is a guess, common to all fresh starts.
    """
    early = np.arange(min(end, EARLY_OBSERVATIONS))
    head = {name: columns.take(name, early) for name in ("fresh", "new", "round", "before", "score")}
    first, change = head["score"][head["fresh"]], head["score"] - head["before"]
    twice = (head["round"] == 1) & np.isfinite(change)
    usual = _mean(change[twice])
    kept = twice & ~head["new"]
    guess = _mean(head["before"][kept] - change[kept]) if kept.any() else _mean(first[np.isfinite(first)]) - usual
    # A guess this near to zero is most likely zero: returns, totals and accuracies start there.
    return 0.0 if abs(guess) <= 0.5 * abs(usual) else guess


def _mean(values: FloatArray) -> float:
    """Return the mean, 0 of nothing; sorted first, so that it does not depend on the order, to the last bit."""
    return float(np.sort(values).mean()) if len(values) else 0.0


def _per_interval(change: FloatArray, steps: FloatArray) -> FloatArray:
    """Scale the change to the usual budget, if budgets differ."""
    told = np.isfinite(steps)
    if not told.any() or np.ptp(steps[told]) == 0:
        return change
    usual = np.median(steps[told])
    return change * (usual / np.where(told, steps, usual))
