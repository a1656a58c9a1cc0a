"""Where every member of a population stands, as arrays that are kept up as observations come in."""

from dataclasses import dataclass

import numpy as np

from popbandits.typing import IntArray

NOWHERE = -1
"""The place of what is not in the history."""


@dataclass(frozen=True)
class Standing:
    """Arrays by member; places are positions in the history, NOWHERE where there is nothing."""

    finished: IntArray
    """How many rounds each has finished."""
    latest: IntArray
    """Where its last observation stands."""
    completed: IntArray
    """Where the last one that did not fail stands."""

    @staticmethod
    def of(size: int) -> "Standing":
        """That of a history without observations."""
        return Standing(np.zeros(size, np.int64), np.full(size, NOWHERE), np.full(size, NOWHERE))

    def copy(self) -> "Standing":
        """One that can be changed."""
        return Standing(self.finished.copy(), self.latest.copy(), self.completed.copy())

    def put(self, member: int, finished: int, latest: int, completed: int) -> None:
        """Write down where a member stands."""
        self.finished[member], self.latest[member], self.completed[member] = finished, latest, completed
