"""Where every member of a population stands, and the best, kept up as observations come in."""

import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from popbandits.records import Observation, merit
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

    def extend(self, start: int, scores: Sequence[float], rounds: Sequence[int], members: Sequence[int]) -> None:
        """Take in observations that stand from `start` on; the score of one that failed is NaN."""
        if len(scores) == 1:  # What a run adds; for one, arrays take several times as long.
            [score], [round_], [member] = scores, rounds, members
            self.put(member, round_ + 1, start, start if score == score else int(self.completed[member]))
            return
        who, places = np.array(members), np.arange(start, start + len(members))
        completed = ~np.isnan(scores)
        self.finished[who] = np.array(rounds) + 1  # Of several for one member, the last one stays.
        self.latest[who] = places
        self.completed[who[completed]] = places[completed]


class Bests:
    """Where each observation stands that was better than all before it: the best of any state of a history."""

    def __init__(self, sign: float) -> None:
        self._sign = sign
        self._places = array("i")
        self._merit = (-math.inf, NOWHERE, NOWHERE)

    def extend(self, start: int, scores: Sequence[float], new: Sequence[Observation]) -> None:
        """Take in observations that stand from `start` on; scores are turned so that more is better, NaN if failed."""
        for row, score in enumerate(scores):
            # Nearly none is as good, in a long history.
            if score >= self._merit[0] and (of := merit(new[row], self._sign)) > self._merit:
                self._places.append(start + row)
                self._merit = of

    def of(self, end: int) -> int:
        """Where the best of the first `end` observations stands."""
        count = bisect_left(self._places, end)
        return self._places[count - 1] if count else NOWHERE
