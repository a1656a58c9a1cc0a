"""Where the observations of each member stand in a history."""

from array import array
from bisect import bisect_left

import numpy as np

from popbandits.history.records import Key
from popbandits.typing import IntArray

_NONE = array("i")


class Places:
    """By member, where its rounds 0, 1, 2, … stand: four bytes an observation, which are never forgotten."""

    def __init__(self) -> None:
        self._of: dict[int, array[int]] = {}

    def __len__(self) -> int:
        """How many members there are."""
        return len(self._of)

    def __getitem__(self, key: Key) -> int:
        return self._of[key[0]][key[1]]

    def append(self, member: int, place: int) -> None:
        """Add a member's next round."""
        self._of.setdefault(member, array("i")).append(place)

    def finished(self, member: int, end: int) -> int:
        """How many rounds a member had finished when the history had the length `end`."""
        return bisect_left(self._of.get(member, _NONE), end)

    def latest(self) -> list[int]:
        """Where the last round of each member stands."""
        return [places[-1] for places in self._of.values()]

    def intervals(self, end: int) -> tuple[IntArray, IntArray]:
        """The member and the round at each of the first `end` places."""
        members, rounds = np.empty((2, end), np.int64)
        for member, places in self._of.items():
            mine = np.array(places[: self.finished(member, end)], np.int64)
            members[mine], rounds[mine] = member, np.arange(len(mine))
        return members, rounds
