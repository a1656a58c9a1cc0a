"""The parts of a history in memory: observations, their indices, their numbers as columns, and the state of members.

Each part can drop older entries that an archive has.
"""

import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from popbandits.basics.records import Key, Observation, merit
from popbandits.basics.typing import IntArray
from popbandits.history.archive import Archive

Column = np.ndarray[Any, Any]

NO_INDEX = -1
"""Index of an observation that does not exist."""

_NONE = array("i")


class Observations:
    """A list of observations that holds only its end in memory if an archive has the others."""

    def __init__(self) -> None:
        self._held: list[Observation] = []
        self._dropped = 0  # number of earlier ones; the archive has them
        self._archive: Archive | None = None
        self._enough = 0

    def __len__(self) -> int:
        return self._dropped + len(self._held)

    def __getitem__(self, index: int) -> Observation:
        if index >= self._dropped:
            return self._held[index - self._dropped]
        assert self._archive is not None, "nothing is dropped without an archive"
        return self._archive[index]

    def extend(self, observations: Sequence[Observation]) -> None:
        """Add observations, and drop the oldest if at least 2 * `enough` are held."""
        self._held.extend(observations)
        if self._archive is not None and len(self._held) >= 2 * self._enough:
            self._drop(self._archive)

    def offload(self, archive: Archive, enough: int) -> None:
        """Hold only the last `enough` from now on, and those that the archive does not have."""
        self._archive, self._enough = archive, enough
        self._drop(archive)

    def _drop(self, archive: Archive) -> None:
        count = max(0, min(len(archive), len(self) - self._enough) - self._dropped)
        del self._held[:count]
        self._dropped += count


class Indices:
    """The index of each (member, round) in a history; an archive can look up older ones."""

    def __init__(self) -> None:
        self._of: dict[int, array[int]] = {}
        self._dropped: dict[int, int] = {}  # by member: number of first rounds that the archive looks up
        self._archive: Archive | None = None

    def __len__(self) -> int:
        """Return the number of members."""
        return len(self._of)

    def __getitem__(self, key: Key) -> int:
        member, round_ = key
        held = round_ - self._dropped.get(member, 0)
        if held >= 0 or self._archive is None:
            return self._of[member][held]
        return self._archive.index_of(key)

    def extend(self, member: int, indices: list[int]) -> None:
        """Add the indices of a member's next rounds, if there are any."""
        if indices:
            self._of.setdefault(member, array("i")).extend(indices)

    def offload(self, before: int, archive: Archive) -> None:
        """Drop indices below `before`, which the archive has, except for each member's last round."""
        self._archive = archive
        for member, indices in self._of.items():
            count = min(bisect_left(indices, before), len(indices) - 1)
            del indices[:count]
            self._dropped[member] = self._dropped.get(member, 0) + count

    def finished(self, member: int, end: int) -> int:
        """Count a member's rounds among the first `end` observations."""
        indices = self._of.get(member, _NONE)
        dropped = self._dropped.get(member, 0)
        if dropped and self._archive is not None and end <= indices[0]:
            return self._archive.finished(member, end)
        return dropped + bisect_left(indices, end)

    def latest(self) -> list[int]:
        """Return the index of each member's last round."""
        return [indices[-1] for indices in self._of.values()]

    def intervals(self, end: int) -> tuple[IntArray, IntArray]:
        """Return the members and the rounds of the first `end` observations."""
        members, rounds = np.empty((2, end), np.int64)
        before = 0
        if self._archive is not None:
            before = min(end, len(self._archive))
            keys = np.fromiter(self._archive.keys(before), np.dtype((np.int64, 2)), before)
            members[:before], rounds[:before] = keys.T
        for member, indices in self._of.items():
            mine, dropped = np.array(indices, np.int64), self._dropped.get(member, 0)
            new = (mine >= before) & (mine < end)
            members[mine[new]], rounds[mine[new]] = member, dropped + np.flatnonzero(new)
        return members, rounds


class Columns:
    """Numeric columns of a history. They double in capacity, so that appending is cheap at any length.

    Types are narrow: without an archive they hold every row, perhaps a million. With one they drop old rows. If one of
    those is needed, all are read back: dropping rows changes only time and memory, never a result.
    """

    def __init__(self, numbers: int, labels: int, most_labels: int):
        shapes: dict[str, tuple[Any, tuple[int, ...]]] = {
            "x": (np.float64, (numbers,)),
            "h": (np.min_scalar_type(-max(1, most_labels)), (labels,)),  # signed: -1 is inactive
            **dict.fromkeys(("member", "round", "stage"), (np.int32, ())),
            **dict.fromkeys(("score", "before", "steps"), (np.float64, ())),
            # Started without weights; another configuration than in the round before; did not train.
            **dict.fromkeys(("fresh", "new", "lost"), (np.bool_, ())),
        }
        self.arrays: dict[str, Column] = {
            name: np.empty((64, *shape), dtype) for name, (dtype, shape) in shapes.items()
        }
        self._length = 0  # dropped rows included
        # Indices of the rows before `complete_from`, and `complete_from` itself.
        self._kept_indices: IntArray = np.zeros(1, np.int64)
        self.complete_from = 0
        """Index from which on no row is missing."""
        self._archive: Archive | None = None
        self._tail = 0
        self._read: Callable[[int], Columns]

    def append(self, count: int, values: Mapping[str, Any]) -> None:
        """Add rows, given by column; if they do not fit, at least double the capacity."""
        row = self._length - self._dropped_count
        if row + count > len(self.arrays["member"]):
            self.arrays = {name: _with_room(column, max(row, count)) for name, column in self.arrays.items()}
        for name, value in values.items():
            self.arrays[name][row : row + count] = value
        self._length += count

    def take(self, name: str, indices: IntArray) -> Column:
        """Return the values of a column at these indices."""
        rows = self._rows(indices)
        return self.arrays[name][rows]

    def value(self, name: str, index: int) -> Any:
        """Return the value of a column at one index."""
        if index >= self.complete_from:
            return self.arrays[name][index - self._dropped_count]
        return self.take(name, np.array([index]))[0]

    def offload(self, archive: Archive, tail: int, read: Callable[[int], "Columns"]) -> None:
        """Hold only the last `tail` rows from now on, and those that the archive does not have.

        `read(n)` returns the columns of the archive's first n observations.
        """
        self._archive, self._tail, self._read = archive, tail, read

    def holds(self, index: int) -> bool:
        """Tell whether a row is in memory."""
        return index >= self.complete_from or index in self._kept_indices[:-1]

    def drop_old(self, wanted: Callable[[], IntArray]) -> bool:
        """Drop the rows before the tail, except the wanted indices, if they are as many as the tail's.

        Return whether rows were dropped.
        """
        if self._archive is None or self._length - self.complete_from < 2 * self._tail:
            return False
        end = min(len(self._archive), self._length - self._tail)
        if end - self.complete_from < self._tail:  # The archive lags behind; dropping a few rows is not worth a copy.
            return False
        indices = wanted()
        kept = np.unique(indices[(indices >= 0) & (indices < end)])
        rows = self._rows(np.concatenate([kept, np.arange(end, self._length)]))
        self.arrays = {name: _with_room(column[rows], self._tail) for name, column in self.arrays.items()}
        self._kept_indices, self.complete_from = np.append(kept, end), end
        return True

    @property
    def _dropped_count(self) -> int:
        return self.complete_from - (len(self._kept_indices) - 1)

    def _rows(self, indices: IntArray) -> IntArray:
        """Return the rows of these indices; read everything back if one is missing."""
        oldest = int(indices.min(initial=self.complete_from))
        if oldest >= self.complete_from:
            return indices - self._dropped_count
        assert oldest >= 0, f"indices count from 0, got {oldest}"
        near = np.minimum(indices, self.complete_from)
        rows = np.searchsorted(self._kept_indices, near)
        missing = indices[self._kept_indices[rows] != near]
        if not len(missing):
            return rows + (indices - near)
        self._read_back(int(missing.min()))
        return indices

    def _read_back(self, oldest: int) -> None:
        """Read every row back, and lengthen the tail to reach `oldest`.

        The tail grows by doubling, so that repeated use of all rows reads them back only a few times.
        """
        before = self._read(self.complete_from)
        own = slice(len(self._kept_indices) - 1, self._length - self._dropped_count)
        self.arrays = {
            name: np.concatenate([before.arrays[name][: self.complete_from], column[own]])
            for name, column in self.arrays.items()
        }
        self._kept_indices, self.complete_from = np.zeros(1, np.int64), 0
        while self._tail < self._length - oldest:
            self._tail *= 2


def _with_room(column: Column, more: int) -> Column:
    """Return a copy of the column with room for more rows at its end."""
    longer = np.empty((len(column) + more, *column.shape[1:]), column.dtype)
    longer[: len(column)] = column
    return longer


@dataclass(frozen=True)
class MemberStates:
    """The state of every member, as arrays by member; indices are NO_INDEX for a member without such an observation."""

    finished: IntArray
    """Number of rounds finished."""
    latest: IntArray
    """Index of the last observation."""
    completed: IntArray
    """Index of the last completed observation."""

    @staticmethod
    def initial(size: int) -> "MemberStates":
        """Make the state of a history without observations."""
        return MemberStates(np.zeros(size, np.int64), np.full(size, NO_INDEX), np.full(size, NO_INDEX))

    def extend(self, start: int, scores: Sequence[float], rounds: Sequence[int], members: Sequence[int]) -> None:
        """Add observations with indices from `start` on; the score of a failed one is NaN."""
        who, indices = np.array(members), np.arange(start, start + len(members))
        completed = ~np.isnan(scores)
        self.finished[who] = np.array(rounds) + 1  # If a member has several, the last one stays.
        self.latest[who] = indices
        self.completed[who[completed]] = indices[completed]


class Incumbents:
    """The indices of observations that were the best so far, to find the best at any length of a history."""

    def __init__(self, sign: float) -> None:
        self._sign = sign
        self._indices = array("i")
        self._merit = (-math.inf, NO_INDEX, NO_INDEX)

    def extend(self, start: int, scores: Sequence[float], new: Sequence[Observation]) -> None:
        """Add observations with indices from `start` on; `scores` are times the sign, NaN if failed."""
        for row, score in enumerate(scores):
            # In a long history few pass this first test.
            if score >= self._merit[0] and (of := merit(new[row], self._sign)) > self._merit:
                self._indices.append(start + row)
                self._merit = of

    def best(self, end: int) -> int:
        """Return the index of the best of the first `end` observations, or NO_INDEX."""
        count = bisect_left(self._indices, end)
        return self._indices[count - 1] if count else NO_INDEX
