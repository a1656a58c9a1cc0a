"""The history of a run: append-only observations, and the arrays that decisions are made from."""

import copy
import gc
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from popbandits.errors import HistoryError
from popbandits.history import rows
from popbandits.history.adding import Adding
from popbandits.history.memory import NOWHERE, Bests, Column, Columns, Places, Shelf, Standing
from popbandits.history.rows import Rows
from popbandits.records import Config, Key, Observation
from popbandits.rules import whole
from popbandits.settings import Mode, check
from popbandits.space import Space
from popbandits.storage.store import Store, reading
from popbandits.typing import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas

_ABOUT: dict[str, Any] = {"mode": "max", "size": None, "rounds": None}
"""What a run's file says of its history; it may say more, of how the run is made."""

AT_A_TIME = 8192
"""Observations that are added at a time, of many."""

IN_MEMORY = 4096
"""At least so many of the last observations stay in memory when a run's file keeps the others."""

ROUNDS_BEHIND = 16
"""How many rounds the numbers stay in memory beyond those that a decision looks at: a resumed run decides for a slow
member from the history as it was when that member became idle."""


class History(Sequence[Observation]):
    """Every observation of a run, in the order in which they were told.

    A decision may depend on nothing else than this (and the seed), which is why a resumed run decides as an
    uninterrupted one. `until` gives the history as it was, without copying.

    Args:
        space: The search space, as `Population` takes it.
        observations: What happened so far, in order. Default ().
        mode: Which scores are better. Default "max". Use "min" for losses and errors.
        size: Number of members. None (default) if unknown.
        rounds: Intervals that each member trains. None (default) if unknown, or without a set end.
    """

    def __init__(
        self,
        space: Space | Any,
        observations: Iterable[Observation] = (),
        *,
        mode: Mode = "max",
        size: int | None = None,
        rounds: int | None = None,
    ):
        check("mode", mode)
        for name, value in (("size", size), ("rounds", rounds)):
            whole(1).or_none("if unknown").check(name, value)
        self.space = Space(space)
        self.mode: Mode = mode
        self.size = size
        """Members of the population, where known."""
        self.rounds = rounds
        """The horizon T; None if the run has no set end."""
        self._observations = Shelf()
        labels = [len(variable.labels) for variable in self.space.categorical]
        self._columns = Columns(len(self.space.numerical), len(labels), max(labels, default=0))
        self._places = Places()
        self._store: Store | None = None  # that has what is forgotten
        self._standing = None if size is None else Standing.of(size)
        self._bests = Bests(self.sign)
        self._lost: dict[Key, int] = {}  # whose checkpoint was missed, and where the observation stands that says so
        self._length: int | None = None  # of a view made by `until`
        self.extend(observations)

    @property
    def sign(self) -> float:
        """+1 where more is better, -1 where less is: the one place where the direction is turned."""
        return 1.0 if self.mode == "max" else -1.0

    def append(self, observation: Observation) -> None:
        """Add what happened; the rounds of a member follow one another."""
        self._take([observation])

    def extend(self, observations: Iterable[Observation]) -> None:
        """Add what happened, in order; many at a time take a fraction of the time."""
        left = iter(observations)
        with _all_is_kept():
            while some := list(islice(left, AT_A_TIME)):
                self._take(some)

    def _take(self, new: Sequence[Observation]) -> None:
        """Add some, or none of them if one does not fit."""
        if self._length is not None:
            raise HistoryError("an earlier state of a history is read-only; append to the history itself")
        adding = Adding(self, new)
        columns = adding.columns()
        self._columns.put(len(new), columns)
        self._observations.extend(new)
        for member, added in adding.rows.items():
            self._places.extend(member, [adding.start + row for row in added])
        self._keep_up(adding.start, new, columns)
        self._forget()

    def _keep_up(self, start: int, new: Sequence[Observation], columns: Mapping[str, Any]) -> None:
        """Find what would take a walk over the history to find again."""
        for row in compress(range(len(new)), columns["lost"]):
            if (parent := new[row].parent) is not None:
                self._lost.setdefault(parent, start + row)
        self._bests.extend(start, columns["score"], new)
        if self._standing is not None:
            self._standing.extend(start, columns["score"], columns["round"], columns["member"])

    def _forget(self) -> None:
        """Leave to the run's file what no decision looks at any more, now and then."""
        if self._store is not None and self._columns.forget(self._wanted):
            self._places.leave(self._columns.whole_from, self._store)

    def _wanted(self) -> IntArray:
        """Places that a decision looks at however old they are: the first ones, where members stand, and the best."""
        completed = [] if self._standing is None else self._standing.completed.tolist()
        return np.array([*range(rows.EARLY), *self._places.latest(), *completed, self._bests.of(len(self))])

    def __len__(self) -> int:
        return len(self._observations) if self._length is None else self._length

    @overload
    def __getitem__(self, index: int) -> Observation: ...
    @overload
    def __getitem__(self, index: slice) -> list[Observation]: ...
    def __getitem__(self, index: int | slice) -> Observation | list[Observation]:
        if isinstance(index, slice):
            return [self._observations[i] for i in range(*index.indices(len(self)))]
        return self._observations[range(len(self))[index]]

    def __iter__(self) -> Iterator[Observation]:
        return (self._observations[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Whether the same happened, in whatever order members were told within a round."""
        if not isinstance(other, History):
            return NotImplemented
        mine, theirs = (sorted(history, key=lambda o: (o.round, o.member)) for history in (self, other))
        return self.mode == other.mode and mine == theirs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        best = self.best
        score = (
            "none completed"
            if best is None
            else f"best score {best.score:g} (member {best.member}, round {best.round})"
        )
        return f"History({len(self)} observations of {len(self._places)} members, {score})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from popbandits.history.frame import history_html

        return history_html(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """A row for each observation, in order; the columns are those of `popbandits export`."""
        from popbandits.history.frame import frame

        return frame(self)

    def until(self, length: int) -> "History":
        """The history when it had `length` observations: shares everything, copies nothing, read-only."""
        view = History.__new__(History)
        view.__dict__.update(self.__dict__)
        view._length = max(0, min(length, len(self)))
        return view

    def finished(self, member: int) -> int:
        """How many rounds a member has finished."""
        return self._places.finished(member, len(self))

    def find(self, key: Key) -> Observation | None:
        """The observation of (member, round), if it is there."""
        return self._observations[self.place(key)] if 0 <= key[1] < self.finished(key[0]) else None

    def place(self, key: Key) -> int:
        """Where the observation of (member, round) stands."""
        return self._places[key]

    def stage(self, parent: Key | None) -> int:
        """For how many intervals the weights of `parent` had been trained, itself included; 0 for a fresh start."""
        if parent is None:
            return 0
        place = self.place(parent)
        if self._store is not None and not self._columns.holds(place):  # A member may tell long after it began.
            return self._store.generations(parent)
        return int(self._columns.at("stage", place)) + 1

    def latest(self, member: int) -> Observation | None:
        """The last round that a member finished."""
        finished = self.finished(member)
        return self._observations[self.place((member, finished - 1))] if finished else None

    def last_completed(self, member: int) -> Observation | None:
        """The last round that a member finished without failing."""
        place = self._completed(member)
        return None if place == NOWHERE else self._observations[place]

    def _completed(self, member: int) -> int:
        finished = self.finished(member)
        if finished and self._standing is not None and self._standing.completed[member] < len(self):
            return int(self._standing.completed[member])
        back = (self.place((member, round_)) for round_ in range(finished - 1, -1, -1))
        return next((place for place in back if math.isfinite(self._columns.at("score", place))), NOWHERE)

    def standing(self) -> Standing:
        """Where every member stands, for a history whose size is known; as long as nothing is appended."""
        assert self._standing is not None, "the size is unknown"
        end = len(self)
        if end == len(self._observations):
            return self._standing
        # Members that have observations since are put back to where they stood.
        then = self._standing.copy()
        for member in np.flatnonzero(then.latest >= end).tolist():
            finished = self.finished(member)
            latest = self.place((member, finished - 1)) if finished else NOWHERE
            then.put(member, finished, latest, self._completed(member))
        return then

    def intervals(self) -> tuple[IntArray, IntArray]:
        """The members and the rounds of all observations, in the order of telling."""
        return self._places.intervals(len(self))

    def scores(self, places: IntArray) -> FloatArray:
        """The scores at these places, turned so that more is better; NaN where the interval failed, and for NOWHERE."""
        found, known = np.full(len(places), np.nan), places != NOWHERE
        found[known] = self._columns.take("score", places[known])
        return found

    def column(self, name: str, places: IntArray) -> Column:
        """One of the columns that decisions are made from, at these places."""
        return self._columns.take(name, places)

    def at(self, name: str, place: int) -> Any:
        """The same at one place."""
        return self._columns.at(name, place)

    @property
    def lost(self) -> set[Key]:
        """Whose checkpoints were missing or damaged when somebody wanted to start from them."""
        return {key for key, place in self._lost.items() if place < len(self)}

    @property
    def best(self) -> Observation | None:
        """The completed observation with the best score; of equals that of the last round, and of the last member."""
        place = self._bests.of(len(self))
        return None if place == NOWHERE else self._observations[place]

    def lineage(self, observation: Observation | None = None) -> list[Observation]:
        """Who an observation descends from, first ancestor first; the best one's if none is given."""
        return list(self.ancestors(self.best if observation is None else observation))[::-1]

    def ancestors(self, observation: Observation | None) -> Iterator[Observation]:
        """Walk back along a lineage: the observation, its parent, and so on to the fresh start."""
        while observation is not None:
            yield observation
            observation = None if observation.parent is None else self.find(observation.parent)

    def schedule(self, observation: Observation | None = None) -> list[Config]:
        """The configurations along a lineage, one an interval: training with them in turn replays it."""
        return [copy.deepcopy(step.config) for step in self.lineage(observation)]

    def recent(self, window: int | None = None) -> Rows:
        """The last `window` observations as arrays (whole rounds where the size is known), by round and member."""
        end = len(self)
        return rows.cut(self._columns, end, rows.recent(self._columns, end, self.size or 1, window))

    def remembered(self, window: int | None = None) -> Rows:
        """Up to `window` observations that say most, by round and member: recent ones, and of the rest the new ones.

        Half are the most recent observations. The other half are older ones whose configuration was new then; where
        these are too many, those of every 2nd, 4th, 8th … round. A model that saw recent rows alone would forget what
        is bad, once everybody does what is good, and try it again.
        """
        end = len(self)
        if window is None or end <= window:
            return self.recent()
        return rows.cut(self._columns, end, rows.remembered(self._columns, end, self.size or 1, window))

    def backwards(self) -> Iterator[Observation]:
        """The observations, the latest first."""
        return (self._observations[i] for i in range(len(self) - 1, -1, -1))

    def save(self, directory: str | Path) -> None:
        """Write the history to a run's folder; into a folder that holds its beginning, what is new.

        So it can be called after every `tell`, and what was written is never written again.
        """
        about = {name: getattr(self, name) for name in _ABOUT}
        with Store.open_or_create(directory, self.space, about) as store:
            if len(store) > len(self) or not self._agrees(store):
                raise HistoryError(f"{store.path} holds another run, or one that went further; give another directory")
            store.extend(self[len(store) :])

    @staticmethod
    def load(directory: str | Path) -> "History":
        """The history of any run, finished or not."""
        with reading(directory) as store:
            about = store.about
            known = {name: about.get(name, default) for name, default in _ABOUT.items()}
            return History(store.space, store.observations(), **known)

    def keep(self, store: Store) -> None:
        """Let a run's file hold the observations, so that memory does not grow with them.

        What the file has and the history has not is appended. From then on whoever appends an observation also writes
        it to the file; what the file has is dropped from memory when it is old, and read back when it is asked for.
        One observation is read by itself. For the arrays everything is read, after which more of them stays in memory.
        """
        if not self._agrees(store):
            raise HistoryError(f"{store.path} holds another run; give the file of this one")
        size = self.size or 1
        enough = max(IN_MEMORY, 2 * size)
        self._observations.keep(store, enough)
        tail = rows.LOOK_BACK + IN_MEMORY + ROUNDS_BEHIND * size
        self._columns.keep(store, tail, partial(_read_columns, self.space, self.mode, store, enough))
        self._store = store
        self._forget()
        with store.blamed():
            self.extend(store.observations(after=len(self)))

    def _agrees(self, store: Store) -> bool:
        """Whether the last observation that both have is the same."""
        both = min(len(self), len(store))
        return not both or self[both - 1] == store[both - 1]


@contextmanager
def _all_is_kept() -> Iterator[None]:
    """Keep Python from looking for garbage among objects that all stay: of a long history that takes a fifth of it."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _read_columns(space: Space, mode: Mode, store: Store, enough: int, count: int) -> Columns:
    """The columns of the first `count` observations of a run's file, to the last bit as they were."""
    store[count - 1]  # A file that no longer has them says so.
    again = History(space, mode=mode)
    again._observations.keep(store, enough)
    again.extend(islice(store.observations(), count))
    return again._columns
