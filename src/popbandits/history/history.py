"""The history of a run: append-only observations, and the arrays that decisions are made from."""

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import compress, islice
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from popbandits.basics.deprecation import present_name
from popbandits.basics.records import Config, Key, Observation
from popbandits.basics.rules import whole
from popbandits.basics.settings import Mode, check
from popbandits.basics.typing import Directory, FloatArray, IntArray
from popbandits.basics.wording import counted
from popbandits.errors import HistoryError
from popbandits.history import rows
from popbandits.history.archive import Archive
from popbandits.history.memory import NO_INDEX, Column, Columns, Incumbents, Indices, MemberStates, Observations
from popbandits.history.new_observations import encode_new
from popbandits.history.rows import Rows
from popbandits.history.spending import spending
from popbandits.space import Space
from popbandits.space.schedules import differing

if TYPE_CHECKING:
    import pandas

_METADATA: dict[str, Any] = {"mode": "max", "size": None, "rounds": None}
"""Metadata in a run's file that concerns the history, with defaults."""

MAX_ADDED_AT_ONCE = 8192
"""Maximum number of observations added at a time."""

MIN_IN_MEMORY = 4096
"""Minimum number of the last observations held in memory when an archive has the others."""

EXTRA_ROUNDS = 16
"""Number of rounds whose columns stay in memory beyond those that a decision uses: a resumed run decides for a slow
member from the history as it was when that member became idle."""


FORMER_NAMES = {
    "place": "index_of",
    "standing": "member_states",
    "at": "value",
    "keep": "attach_archive",
    "remembered": "informative",
    "until": "prefix",
    "backwards": "__reversed__",
}
"""Present names of methods, by former name."""


class History(Sequence[Observation]):
    """Every observation of a run, in the order in which they were reported.

    A decision depends only on this and the seed, so a resumed run decides like an uninterrupted one. `prefix` returns
    the history at an earlier time, without copying.

    Args:
        space: The search space, as `Population` takes it.
        observations: Observations so far, in order. Default ().
        mode: Direction of better scores. Default "max". Use "min" for losses and errors.
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
        """Number of members; None if unknown."""
        self.rounds = rounds
        """The horizon T; None if the run has no set end."""
        self._observations = Observations()
        labels = [len(variable.labels) for variable in self.space.categorical]
        self._columns = Columns(len(self.space.numerical), len(labels), max(labels, default=0))
        self._indices = Indices()
        self._archive: Archive | None = None  # It has the observations dropped from memory.
        self._member_states = None if size is None else MemberStates.initial(size)
        self._incumbents = Incumbents(self.sign)
        self._lost: dict[Key, int] = {}  # lost checkpoint -> index of the observation that reports it
        self._length: int | None = None  # length of a view made by `prefix`
        self.extend(observations)

    @property
    def sign(self) -> float:
        """+1 if higher scores are better, -1 if lower ones are."""
        return 1.0 if self.mode == "max" else -1.0

    def append(self, observation: Observation) -> None:
        """Add an observation; the rounds of a member must be added in order."""
        self._add([observation])

    def extend(self, observations: Iterable[Observation]) -> None:
        """Add observations in order; this is much faster than `append` for each."""
        left = iter(observations)
        while some := list(islice(left, MAX_ADDED_AT_ONCE)):
            self._add(some)

    def _add(self, new: Sequence[Observation]) -> None:
        """Add all of the observations, or none if one is invalid."""
        if self._length is not None:
            raise HistoryError("an earlier state of a history is read-only; append to the history itself")
        start = len(self)
        rows_of, columns = encode_new(self, new)
        self._columns.append(len(new), columns)
        self._observations.extend(new)
        for member, rows_of_member in rows_of.items():
            self._indices.extend(member, [start + row for row in rows_of_member])
        # So that no search is needed later, for lost checkpoints, the best, and the state of members.
        for row in compress(range(len(new)), columns["lost"]):
            if (parent := new[row].parent) is not None:
                self._lost.setdefault(parent, start + row)
        self._incumbents.extend(start, columns["score"], new)
        if self._member_states is not None:
            self._member_states.extend(start, columns["score"], columns["round"], columns["member"])
        self._drop_old()

    def _drop_old(self) -> None:
        """Drop from memory what no decision uses any more, if enough has accumulated; the archive has it."""
        if self._archive is not None and self._columns.drop_old(self._wanted):
            self._indices.offload(self._columns.complete_from, self._archive)

    def _wanted(self) -> IntArray:
        """Return the indices that a decision uses at any age: the first ones, each member's last ones, and the best."""
        completed = [] if self._member_states is None else self._member_states.completed.tolist()
        return np.array(
            [*range(rows.EARLY_OBSERVATIONS), *self._indices.latest(), *completed, self._incumbents.best(len(self))]
        )

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
        """Compare mode and observations, whatever the order of members within a round."""
        if not isinstance(other, History):
            return NotImplemented
        mine, theirs = (sorted(history, key=lambda o: (o.round, o.member)) for history in (self, other))
        return self.mode == other.mode and mine == theirs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        best = self.best
        score = "none completed"
        if best is not None:
            score = f"best score {best.score:g} (member {best.member}, round {best.round})"
        return f"History({counted(len(self), 'observation')} of {counted(len(self._indices), 'member')}, {score})"

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        from popbandits.history.frame import history_html

        return history_html(self.space, self.lineage(), repr(self), "The lineage of the best score")

    def to_pandas(self, winner: Observation | None = None) -> "pandas.DataFrame":
        """Return a table with a row for each observation, in order, and the columns of `popbandits export`.

        Args:
            winner: Observation whose lineage is marked as winning. None (default) is the one with the best score;
                `Result.to_pandas` marks the lineage of what the run hands over.
        """
        from popbandits.history.frame import frame

        return frame(self.space, self, self.stage, self.lineage(winner))

    def prefix(self, length: int) -> "History":
        """Return a read-only view of the first `length` observations, without copying."""
        view = History.__new__(History)
        view.__dict__.update(self.__dict__)
        view._length = max(0, min(length, len(self)))
        return view

    def finished(self, member: int) -> int:
        """Count the rounds that a member has finished."""
        return self._indices.finished(member, len(self))

    def find(self, key: Key) -> Observation | None:
        """Return the observation of (member, round), or None."""
        return self._observations[self.index_of(key)] if 0 <= key[1] < self.finished(key[0]) else None

    def index_of(self, key: Key) -> int:
        """Return the index of the observation of (member, round)."""
        return self._indices[key]

    def stage(self, parent: Key | None) -> int:
        """Count the intervals that the weights of `parent` have been trained for, its own included; 0 for None."""
        if parent is None:
            return 0
        index = self.index_of(parent)
        if self._archive is not None and not self._columns.holds(index):  # A slow member's parent may be old.
            return self._archive.generations(parent)
        return int(self._columns.value("stage", index)) + 1

    def latest(self, member: int) -> Observation | None:
        """Return the last observation of a member, or None."""
        return self.find((member, self.finished(member) - 1))

    def last_completed(self, member: int) -> Observation | None:
        """Return the last completed observation of a member, or None."""
        index = self._completed(member)
        return None if index == NO_INDEX else self._observations[index]

    def _completed(self, member: int) -> int:
        finished = self.finished(member)
        if finished and self._member_states is not None and self._member_states.completed[member] < len(self):
            return int(self._member_states.completed[member])
        back = (self.index_of((member, round_)) for round_ in range(finished - 1, -1, -1))
        return next((index for index in back if math.isfinite(self._columns.value("score", index))), NO_INDEX)

    def member_states(self) -> MemberStates:
        """Return the state of every member; the size must be known. It is valid until something is appended."""
        assert self._member_states is not None, "the size is unknown"
        end = len(self)
        if end == len(self._observations):
            return self._member_states
        # Members with later observations are set back to their state at that time.
        then = copy.deepcopy(self._member_states)
        for member in np.flatnonzero(then.latest >= end).tolist():
            then.finished[member] = finished = self.finished(member)
            then.latest[member] = self.index_of((member, finished - 1)) if finished else NO_INDEX
            then.completed[member] = self._completed(member)
        return then

    def intervals(self) -> tuple[IntArray, IntArray]:
        """Return the members and the rounds of all observations, in order."""
        return self._indices.intervals(len(self))

    def scores(self, indices: IntArray) -> FloatArray:
        """Return the scores at these indices, times `sign`; NaN if the interval failed, and for NO_INDEX."""
        found, known = np.full(len(indices), np.nan), indices != NO_INDEX
        found[known] = self._columns.take("score", indices[known])
        return found

    def column(self, name: str, indices: IntArray) -> Column:
        """Return the values at these indices of a column that decisions are made from."""
        return self._columns.take(name, indices)

    def value(self, name: str, index: int) -> Any:
        """Return the value of a column at one index."""
        return self._columns.value(name, index)

    @property
    def lost(self) -> set[Key]:
        """(member, round) of the checkpoints that were missing or damaged when a member was to load them."""
        return {key for key, index in self._lost.items() if index < len(self)}

    @property
    def best(self) -> Observation | None:
        """The completed observation with the best score; ties go to the later round, then the higher member."""
        index = self._incumbents.best(len(self))
        return None if index == NO_INDEX else self._observations[index]

    def best_within(self, cost: float) -> Observation | None:
        """Return the completed observation with the best score when the run had spent so much; None if none had.

        Args:
            cost: What all members may have spent: the sum of the metric `cost` that agents report or, if they report
                none, of the seconds that they trained.
        """
        pairs = np.array([(o.cost, o.seconds) for o in self], float)  # None becomes NaN.
        spent = spending(*pairs.reshape(-1, 2).T)
        return self.prefix(int(np.searchsorted(spent, cost * (1 + 1e-9), side="right"))).best

    def lineage(self, observation: Observation | None = None) -> list[Observation]:
        """List an observation and its ancestors, the first ancestor first; by default, of the best observation."""
        return list(self.ancestors(self.best if observation is None else observation))[::-1]

    def ancestors(self, observation: Observation | None) -> Iterator[Observation]:
        """Walk back along a lineage: the observation, its parent, and so on to the fresh start."""
        while observation is not None:
            yield observation
            observation = None if observation.parent is None else self.find(observation.parent)

    def schedule(self, observation: Observation | None = None) -> list[Config]:
        """Return the configurations along a lineage, one per interval: training with them in turn replays it."""
        return [copy.deepcopy(self.applied(step)) for step in self.lineage(observation)]

    def applied(self, observation: Observation) -> Config:
        """Return the hyperparameters that an interval trained with: its configuration, moved along the schedules."""
        return self.space.applied(observation.config, observation.round)

    def differing_schedules(self, space: Space) -> list[str]:
        """List the parameters that trained, in the rounds so far, on another schedule than a space has for them."""
        if self.space.schedules == space.schedules:
            return []  # Before a long history is read.
        rounds = self.intervals()[1]
        return differing(self.space.schedules, space.schedules, int(rounds.max()) + 1 if len(rounds) else 0)

    def recent(self, window: int | None = None) -> Rows:
        """Return the last `window` observations as arrays (whole rounds if the size is known), by round and member."""
        end = len(self)
        return rows.rows_at(self._columns, end, rows.recent_indices(self._columns, end, self.size or 1, window))

    def informative(self, window: int | None = None) -> Rows:
        """Return up to `window` informative observations as arrays, by round and member.

        Half are the most recent observations. The other half are older ones whose configuration was new then; if there
        are too many, those of every 2nd, 4th, 8th … round. A model that saw only recent rows would forget which
        configurations are bad, once all members use good ones, and try them again.
        """
        end = len(self)
        if window is None or end <= window:
            return self.recent()
        return rows.rows_at(self._columns, end, rows.informative_indices(self._columns, end, self.size or 1, window))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return getattr(self, present_name("History", FORMER_NAMES, name))

    def save(self, directory: Directory) -> None:
        """Write the history to a run's folder, or append what is new if the folder holds its beginning.

        It can be called after every `tell`: nothing is written twice. The number of rounds may be a new one.
        """
        from popbandits.storage.store import Store  # Only `load` and `save` lead from a history to files.

        about = {name: getattr(self, name) for name in _METADATA}
        with Store.open_or_create(directory, self.space, about) as store:
            known = store.about
            # As it was written, or read back: names that were written nested may then be in another order.
            is_same = self.space.to_json() in (store.space_text, store.space.to_json())
            is_same = is_same and all(known.get(name) == about[name] for name in ("mode", "size"))
            if not is_same or len(store) > len(self) or not self._agrees(store):
                raise HistoryError(f"{store.path} holds another run, or one that went further; give another directory")
            if known.get("rounds") != self.rounds:
                store.describe(rounds=self.rounds)
            store.extend(self[len(store) :])

    @staticmethod
    def load(directory: Directory) -> "History":
        """Load the history of any run, finished or not."""
        from popbandits.storage.store import reading

        with reading(directory) as store:
            about = store.about
            known = {name: about.get(name, default) for name, default in _METADATA.items()}
            return History(store.space, store.observations(), **known)

    def attach_archive(self, archive: Archive) -> None:
        """Leave old observations to an archive, such as a run's file, so that memory does not grow with the run.

        Observations that only the archive has are appended. From then on the caller must also write each observation
        that it appends to the archive. Old ones are dropped from memory, and read back when needed: a single
        observation by itself, and the arrays all together, after which more of them stay in memory.
        """
        with archive.blamed():
            if not self._agrees(archive):
                raise HistoryError("it holds another run; give the file of this one")
        size = self.size or 1
        enough = max(MIN_IN_MEMORY, 2 * size)
        self._observations.offload(archive, enough)
        tail = rows.MAX_LOOK_BACK + MIN_IN_MEMORY + EXTRA_ROUNDS * size
        self._columns.offload(archive, tail, partial(_read_columns, self.space, self.mode, archive, enough))
        self._archive = archive
        self._drop_old()
        with archive.blamed():
            self.extend(archive.observations(after=len(self)))

    def _agrees(self, archive: Archive) -> bool:
        """Tell whether the last observation that both have is the same."""
        both = min(len(self), len(archive))
        return not both or self[both - 1] == archive[both - 1]


def _read_columns(space: Space, mode: Mode, archive: Archive, enough: int, count: int) -> Columns:
    """Read the columns of the first `count` observations from an archive, equal to the last bit."""
    archive[count - 1]  # Raises if the archive no longer has them.
    again = History(space, mode=mode)
    again._observations.offload(archive, enough)
    again.extend(islice(archive.observations(), count))
    return again._columns
