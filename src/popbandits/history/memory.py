"""Hold a history in memory: observations, their indices, their numbers as columns, and where every member stands.

Each part can leave its older entries to the run's file.
"""

import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from popbandits.records import Key, Observation, merit
from popbandits.storage.store import Store
from popbandits.typing import IntArray

Column = np.ndarray[Any, Any]

NOWHERE = -1
"""Index of an observation that does not exist."""

_NONE = array("i")


class Shelf:
    """A list of observations that can leave all but its end to a store."""

    def __init__(self) -> None:
        self._held: list[Observation] = []
        self._dropped = 0  # how many came before those held; the store has them
        self._store: Store | None = None
        self._enough = 0

    def __len__(self) -> int:
        return self._dropped + len(self._held)

    def __getitem__(self, place: int) -> Observation:
        if place >= self._dropped:
            return self._held[place - self._dropped]
        assert self._store is not None, "nothing is dropped without a store"
        return self._store[place]

    def extend(self, observations: Sequence[Observation]) -> None:
        """Add some, and drop the oldest when twice as many are held as is enough."""
        self._held.extend(observations)
        if self._store is not None and len(self._held) >= 2 * self._enough:
            self._drop(self._store)

    def keep(self, store: Store, enough: int) -> None:
        """Hold the last `enough` from now on, as far as the store has the others."""
        self._store, self._enough = store, enough
        self._drop(store)

    def _drop(self, store: Store) -> None:
        count = min(len(store), len(self) - self._enough) - self._dropped
        if count > 0:
            del self._held[:count]
            self._dropped += count


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


class Columns:
    """Numeric columns by place in a history, that double in capacity, so that appending is cheap at any length.

    Types are narrow: without a store they hold every row, of which there may be a million. With a store behind them
    they forget old rows. If one of those is asked for, all are read back: nothing but time and memory ever depends on
    what was forgotten.
    """

    def __init__(self, numbers: int, labels: int, most_labels: int):
        shapes: dict[str, tuple[Any, tuple[int, ...]]] = {
            "x": (np.float64, (numbers,)),
            "h": (np.min_scalar_type(-max(1, most_labels)), (labels,)),  # signed: -1 is inactive
            "member": (np.int32, ()),
            "round": (np.int32, ()),
            "stage": (np.int32, ()),
            "score": (np.float64, ()),
            "before": (np.float64, ()),
            "steps": (np.float64, ()),
            "fresh": (np.bool_, ()),  # started without weights
            "new": (np.bool_, ()),  # with another configuration than the round before
            "lost": (np.bool_, ()),  # never trained
        }
        self.arrays: dict[str, Column] = {
            name: np.empty((64, *shape), dtype) for name, (dtype, shape) in shapes.items()
        }
        self._length = 0  # forgotten rows included
        self._marks: IntArray = np.zeros(1, np.int64)  # places of the first rows, and `whole_from`
        self.whole_from = 0
        """From here on no row is missing."""
        self._store: Store | None = None
        self._tail = 0
        self._read: Callable[[int], Columns]

    def put(self, count: int, values: Mapping[str, Any]) -> None:
        """Add rows, given by column; when they do not fit, there is room for as many again as there are."""
        row = self._length - self._forgotten
        if row + count > len(self.arrays["member"]):
            self.arrays = {name: _with_room(column, max(row, count)) for name, column in self.arrays.items()}
        for name, value in values.items():
            if count == 1:  # What a run adds; through a slice it takes several times as long.
                self.arrays[name][row] = value[0]
            else:
                self.arrays[name][row : row + count] = value
        self._length += count

    def take(self, name: str, places: IntArray) -> Column:
        """A column at these places."""
        rows = self._rows(places)
        taken: Column = self.arrays[name][rows]
        return taken

    def at(self, name: str, place: int) -> Any:
        """A column at one place."""
        if place >= self.whole_from:
            return self.arrays[name][place - self._forgotten]
        return self.take(name, np.array([place]))[0]

    def keep(self, store: Store, tail: int, read: Callable[[int], "Columns"]) -> None:
        """Hold the last `tail` rows from now on, as far as the store has the others.

        `read` makes the columns of the store's first observations, of as many as it is told.
        """
        self._store, self._tail, self._read = store, tail, read

    def holds(self, place: int) -> bool:
        """Whether a row can be had without reading anything back."""
        return place >= self.whole_from or place in self._marks[:-1]

    def forget(self, wanted: Callable[[], IntArray]) -> bool:
        """Drop what comes before the tail but for the wanted places, once it is as long as the tail itself.

        It says whether it did.
        """
        if self._store is None or self._length - self.whole_from < 2 * self._tail:
            return False
        end = min(len(self._store), self._length - self._tail)
        if end - self.whole_from < self._tail:  # The store lags behind, and a copy to drop a few rows costs too much.
            return False
        places = wanted()
        kept = np.unique(places[(places >= 0) & (places < end)])
        rows = self._rows(np.concatenate([kept, np.arange(end, self._length)]))
        self.arrays = {name: _with_room(column[rows], self._tail) for name, column in self.arrays.items()}
        self._marks, self.whole_from = np.append(kept, end), end
        return True

    @property
    def _forgotten(self) -> int:
        return self.whole_from - (len(self._marks) - 1)

    def _rows(self, places: IntArray) -> IntArray:
        """Where the rows of these places are; everything is read back if one is not here."""
        oldest = int(places.min(initial=self.whole_from))
        if oldest >= self.whole_from:
            return places - self._forgotten
        assert oldest >= 0, f"places count from 0, got {oldest}"
        near = np.minimum(places, self.whole_from)
        rows = np.searchsorted(self._marks, near)
        missing = places[self._marks[rows] != near]
        if not len(missing):
            found: IntArray = rows + (places - near)
            return found
        self._read_back(int(missing.min()))
        return places

    def _read_back(self, oldest: int) -> None:
        """Have every row again, and from now on a tail that reaches as far back as was asked.

        It grows by doubling. So whoever wants everything, time and again, has it read a few times only.
        """
        before = self._read(self.whole_from)
        own = slice(len(self._marks) - 1, self._length - self._forgotten)
        self.arrays = {
            name: np.concatenate([before.arrays[name][: self.whole_from], column[own]])
            for name, column in self.arrays.items()
        }
        self._marks, self.whole_from = np.zeros(1, np.int64), 0
        while self._tail < self._length - oldest:
            self._tail *= 2


def _with_room(column: Column, more: int) -> Column:
    """The column, with room for more rows at its end."""
    longer = np.empty((len(column) + more, *column.shape[1:]), column.dtype)
    longer[: len(column)] = column
    return longer


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
