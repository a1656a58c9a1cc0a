"""What a history asks of the archive that has what it dropped from memory."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from popbandits.basics.records import Key, Observation
from popbandits.basics.settings import Mode


@runtime_checkable
class Archive(Protocol):
    """The observations of a run, in order, wherever they are kept. `Store`, the file of a run, is one.

    A history only reads it: whoever appends to the history also writes to its archive.
    """

    @property
    def mode(self) -> Mode | None:
        """Which scores are better; None if unknown."""

    def __len__(self) -> int:
        """Return the number of observations."""

    def __getitem__(self, index: int) -> Observation:
        """Return the observation at an index, from 0."""

    def observations(self, after: int = 0) -> Iterator[Observation]:
        """Yield the observations in order, without the first `after`."""

    def keys(self, count: int) -> Iterator[Key]:
        """Yield member and round of the first `count` observations, in order."""

    def index_of(self, key: Key) -> int:
        """Return the index of the observation of (member, round)."""

    def finished(self, member: int, end: int) -> int:
        """Count the observations of a member among the first `end`."""

    def generations(self, key: Key) -> int:
        """Return the length of the lineage of (member, round), itself included."""

    def blamed(self) -> AbstractContextManager[None]:
        """Turn any error of the block into a HistoryError that names the archive."""
