"""Where the observations of each member stand in a history."""

from array import array
from bisect import bisect_left

import numpy as np

from popbandits.records import Key
from popbandits.storage.store import Store
from popbandits.typing import IntArray

_NONE = array("i")


class Places:
    """By member, where its rounds 0, 1, 2, … stand; the older ones can be left to a store."""

    def __init__(self) -> None:
        self._of: dict[int, array[int]] = {}
        self._left: dict[int, int] = {}  # how many of a member's first rounds are left to the store
        self._store: Store | None = None

    def __len__(self) -> int:
        """How many members there are."""
        return len(self._of)

    def __getitem__(self, key: Key) -> int:
        member, round_ = key
        held = round_ - self._left.get(member, 0)
        if held >= 0 or self._store is None:
            return self._of[member][held]
        return self._store.place(key)

    def extend(self, member: int, places: list[int]) -> None:
        """Add a member's next rounds, if there are any."""
        if places:
            self._of.setdefault(member, array("i")).extend(places)

    def leave(self, before: int, store: Store) -> None:
        """Leave what stands before that place to the store, but for each member's last round."""
        self._store = store
        for member, places in self._of.items():
            count = min(bisect_left(places, before), len(places) - 1)
            del places[:count]
            self._left[member] = self._left.get(member, 0) + count

    def finished(self, member: int, end: int) -> int:
        """How many rounds a member had finished when the history had the length `end`."""
        places = self._of.get(member, _NONE)
        left = self._left.get(member, 0)
        if left and self._store is not None and end <= places[0]:
            return self._store.finished(member, end)
        return left + bisect_left(places, end)

    def latest(self) -> list[int]:
        """Where the last round of each member stands."""
        return [places[-1] for places in self._of.values()]

    def intervals(self, end: int) -> tuple[IntArray, IntArray]:
        """The member and the round at each of the first `end` places."""
        members, rounds = np.empty((2, end), np.int64)
        before = 0
        if self._store is not None:
            before = min(end, len(self._store))
            keys = np.fromiter(self._store.keys(before), np.dtype((np.int64, 2)), before)
            members[:before], rounds[:before] = keys.T
        for member, places in self._of.items():
            mine, left = np.array(places, np.int64), self._left.get(member, 0)
            new = (mine >= before) & (mine < end)
            members[mine[new]], rounds[mine[new]] = member, left + np.flatnonzero(new)
        return members, rounds
