"""A stretch of history as arrays: what the models learn from."""

from dataclasses import dataclass, fields

import numpy as np

from popbandits.space import Points
from popbandits.typing import BoolArray, FloatArray, IntArray


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
