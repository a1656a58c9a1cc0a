"""What a run hands over, read from its file without the rest of its history."""

from collections.abc import Iterator

from popbandits.basics.records import Key, Observation
from popbandits.basics.typing import Directory
from popbandits.selection.choice import Choice, Past, read_choice
from popbandits.storage.queries import last_completed, last_evaluation, lost_checkpoints, members_seen
from popbandits.storage.store import Store, reading


def handed_over(store: Store, history: Past | None = None) -> Choice | None:
    """Return what a run hands over: by its evaluations, or else by its scores; None if nothing completed.

    Args:
        store: The file of the run.
        history: The history of the run, if it was read before. Default: what the file has now.
    """
    event = last_evaluation(store)
    past = Stored(store) if history is None else history
    return read_choice(past, None if event is None else event.data, bool(store.about.get("control")))


def read_handed_over(directory: Directory, history: Past | None = None) -> Choice | None:
    """Return what the run in a folder hands over; `history` as in `handed_over`."""
    with reading(directory) as store:
        store.begin()  # one snapshot
        return handed_over(store, history)


class Stored:
    """Read from a run's file what a choice needs, in time that hardly grows with the run.

    Args:
        store: The file of the run.
    """

    def __init__(self, store: Store):
        self._store = store
        self.sign = -1.0 if store.mode == "min" else 1.0
        self.size: int | None = store.about.get("size")
        self._members = members_seen(store)  # A damaged record may name any size.

    @property
    def best(self) -> Observation | None:
        """The completed observation with the best score."""
        return self._store.best()

    @property
    def lost(self) -> set[Key]:
        """(member, round) of the checkpoints that were missing or damaged when a member was to load them."""
        return lost_checkpoints(self._store)

    def __len__(self) -> int:
        return len(self._store)

    def __getitem__(self, last: slice) -> list[Observation]:
        """Return the observations from an index on."""
        start, _, _ = last.indices(len(self))
        return list(self._store.observations(after=start))

    def find(self, key: Key) -> Observation:
        """Return the observation of (member, round)."""
        return self._store[self._store.index_of(key)]

    def last_completed(self, member: int) -> Observation | None:
        """Return the last completed observation of a member, or None."""
        return last_completed(self._store, member) if member in self._members else None

    def ancestors(self, observation: Observation) -> Iterator[Observation]:
        """Walk back along a lineage: the observation, its parent, and so on to the fresh start."""
        while True:
            yield observation
            if observation.parent is None:
                return
            observation = self.find(observation.parent)
