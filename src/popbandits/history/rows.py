"""Parts of a history as arrays: what the models learn from, and which part a decision looks at."""

from dataclasses import dataclass, fields

import numpy as np

from popbandits.history.memory import Columns
from popbandits.space import Points
from popbandits.typing import BoolArray, FloatArray, IntArray

EARLY = 10_000
"""Among how many of the first observations those of rounds 0 and 1 are looked for."""

LOOK_BACK = 20_000
"""How many observations `remembered` looks back, so that its cost does not grow with the history."""


@dataclass(frozen=True)
class Rows:
    """A stretch of history as arrays, ordered by round and member; what the models learn from.

    Scores are turned so that more is better, whatever the run's mode.
    """

    points: Points
    member: IntArray
    round: IntArray
    stage: IntArray
    """t of the models: how many intervals the weights had been trained for, along their lineage. It is the round, but
    for members that are behind the others (asynchronous) or fell back to older weights after a failure."""
    change: FloatArray
    """y of the models: `Observation.change`, turned so that more is better, per usual budget where budgets differ, and
    from a guess for fresh starts; NaN where the interval failed. Readers show `Observation.change` itself."""
    before: FloatArray
    """The score before the interval; NaN where unknown."""
    failed: BoolArray
    guessed: BoolArray
    """Fresh starts: nothing was measured before them, and their change is from a common guess."""

    def __len__(self) -> int:
        return len(self.round)

    def __getitem__(self, mask: BoolArray) -> "Rows":
        return Rows(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})

    def targets(self) -> FloatArray:
        """The change with failures at the lower quartile of what was seen.

        A model then keeps away from configurations that fail. At the worst change it would also flee from good ones
        that failed for reasons of their own, which costs more than a few failures.
        """
        known = self.change[np.isfinite(self.change)]
        return np.where(np.isfinite(self.change), self.change, np.quantile(known, 0.25) if len(known) else 0.0)

    def gains(self) -> FloatArray:
        """The change scaled to [0, 1] over these rows, for the bandit: 0 for failures, and for all if all are equal.

        >>> no, change = np.zeros(4, dtype=bool), np.array([1.0, 3.0, np.nan, 2.0])
        >>> rows = Rows(None, no, no, no, change, no, no, no)
        >>> rows.gains()
        array([0. , 1. , 0. , 0.5])
        """
        y = self.targets()
        spread = np.ptp(y) if len(y) else 0.0
        if not spread > 1e-12 * np.abs(y).max(initial=0.0):
            return np.zeros(len(y))
        return np.clip(np.where(np.isfinite(self.change), (y - y.min()) / spread, 0.0), 0.0, 1.0)


def recent(columns: Columns, end: int, size: int, window: int | None) -> IntArray:
    """Where the last observations stand: whole rounds, so that the order of telling within one never matters."""
    start = 0 if window is None else max(0, end - window)
    whole = -(-start // size) * size
    if whole < end or window is None or not window:
        return np.arange(whole, end)
    # Not even one round fits: of the last round, the same members whatever the order in which they told.
    places = np.arange(max(0, end - size), end)
    return places[np.argsort(columns.take("member", places), kind="stable")][:window]


def remembered(columns: Columns, end: int, size: int, window: int) -> IntArray:
    """Where recent observations stand, and older ones that were new, thinned by doubling strides of rounds."""
    last = recent(columns, end, size, window // 2)
    start = int(last.min(initial=end))
    older = np.arange(max(0, start - -(-LOOK_BACK // size) * size), start)  # whole rounds
    older = older[columns.take("new", older)]
    round_ = columns.take("round", older)
    room, stride = window - window // 2, 1
    while len(older) > room and stride <= round_.max():
        stride *= 2
        among = round_ % stride == 0
        older, round_ = older[among], round_[among]
    # Round 0 is left, of a population larger than the room there is: some of its members.
    if len(older) > room:
        older = older[np.argsort(columns.take("member", older), kind="stable")][:room]
    return np.concatenate([older, last])


def cut(columns: Columns, end: int, places: IntArray) -> Rows:
    """The rows at these places of a history of length `end`, by round and member; without lost ones."""
    places = places[~columns.take("lost", places)]
    places = places[np.lexsort((columns.take("member", places), columns.take("round", places)))]
    part = {name: columns.take(name, places) for name in columns.arrays}
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
    )


def _untrained(columns: Columns, end: int) -> float:
    """What a member without training would score, guessed: members that kept their configuration from round 0 to
    round 1 are taken to have gained as much in both.

    Paper: silent. Here: guessed, because after three rounds a third of what is known would be thrown away. The
    models are told that it is a guess, common to all fresh starts.
    """
    early = np.arange(min(end, EARLY))
    head = {name: columns.take(name, early) for name in ("fresh", "new", "round", "before", "score")}
    first, change = head["score"][head["fresh"]], head["score"] - head["before"]
    twice = (head["round"] == 1) & np.isfinite(change)
    usual = _mean(change[twice])
    kept = twice & ~head["new"]
    guess = _mean(head["before"][kept] - change[kept]) if kept.any() else _mean(first[np.isfinite(first)]) - usual
    # So near to zero it is most likely zero, where returns, totals and accuracies start.
    return 0.0 if abs(guess) <= 0.5 * abs(usual) else guess


def _mean(values: FloatArray) -> float:
    """Sorted first, so that it is the same to the last bit in whatever order members told; 0 of nothing."""
    return float(np.sort(values).mean()) if len(values) else 0.0


def _per_interval(change: FloatArray, steps: FloatArray) -> FloatArray:
    """Where intervals differ in budget, the change per unit of it, times the usual budget."""
    told = np.isfinite(steps)
    if not told.any() or np.ptp(steps[told]) == 0:
        return change
    usual = np.median(steps[told])
    return change * (usual / np.where(told, steps, usual))
