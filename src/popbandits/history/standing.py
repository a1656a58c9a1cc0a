"""Where every member of a population stands, and the best, kept up as observations come in."""

import math
from array import array
from bisect import bisect_left
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


class Bests:
    """Where each observation stands that was better than all before it: the best of any state of a history."""

    def __init__(self) -> None:
        self._places = array("i")
        self._merit = (-math.inf, NOWHERE, NOWHERE)

    def put(self, place: int, score: float, round_: int, member: int) -> None:
        """Take in a score, turned so that more is better; of equals the last round counts, and the last member."""
        if (score, round_, member) > self._merit:
            self._places.append(place)
            self._merit = score, round_, member

    def of(self, end: int) -> int:
        """Where the best of the first `end` observations stands."""
        count = bisect_left(self._places, end)
        return self._places[count - 1] if count else NOWHERE
