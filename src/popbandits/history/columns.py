"""A history's numbers as columns: all of them, or those that decisions look at with a run's file behind them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from popbandits.storage.store import Store
from popbandits.typing import IntArray

Column = np.ndarray[Any, Any]


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
