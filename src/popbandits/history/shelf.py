"""The observations themselves: all in memory, or the last ones with a run's file behind them."""

from collections.abc import Sequence

from popbandits.records import Observation
from popbandits.storage.store import Store


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
