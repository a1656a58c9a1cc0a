"""The history of a run: append-only observations, and the arrays that decisions are made from."""

import copy
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from popbandits.errors import ArgumentError, HistoryError
from popbandits.history.records import Config, Key, Observation
from popbandits.history.rows import Columns, Rows
from popbandits.history.store import Store
from popbandits.space import Points, Space
from popbandits.typing import FloatArray, IntArray, is_whole

Mode = Literal["max", "min"]

EARLY = 10_000
"""Among how many of the first observations those of rounds 0 and 1 are looked for."""

_ABOUT: dict[str, Any] = {"mode": "max", "size": None, "rounds": None}
"""What a run's file says of its history; it may say more, of how the run is made."""

LOOK_BACK = 20_000
"""How many observations `remembered` looks back, so that its cost does not grow with the history."""


class History(Sequence[Observation]):
    """Every observation of a run, in the order in which they were told.

    A decision may depend on nothing else than this (and the seed), which is why a resumed run decides as an
    uninterrupted one. `until` gives the history as it was, without copying.
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
        if mode not in ("max", "min"):
            raise ArgumentError(f"mode must be 'max' or 'min', got {mode!r}; say which scores are better")
        for name, value in (("size", size), ("rounds", rounds)):
            if value is not None and not is_whole(value, 1):
                raise ArgumentError(f"{name} must be a whole number of at least 1, got {value!r}; None if unknown")
        self.space = Space(space)
        self.mode: Mode = mode
        self.size = size
        """Members of the population, where known."""
        self.rounds = rounds
        """The horizon T; None if the run has no set end."""
        self._observations: list[Observation] = []
        self._columns = Columns(len(self.space.numerical), len(self.space.categorical))
        self._places: dict[int, list[int]] = {}  # member -> where its rounds 0, 1, 2, … stand
        self._length: int | None = None  # of a view made by `until`
        for observation in observations:
            self.append(observation)

    @property
    def sign(self) -> float:
        """+1 where more is better, -1 where less is: the one place where the direction is turned."""
        return 1.0 if self.mode == "max" else -1.0

    def append(self, observation: Observation) -> None:
        """Add what happened; the rounds of a member follow one another."""
        if self._length is not None:
            raise HistoryError("an earlier state of a history is read-only; append to the history itself")
        if not isinstance(observation, Observation):
            raise HistoryError(
                f"a history holds Observations, got {observation!r}; give History.load(directory) of a run"
            )
        member, round_ = observation.key
        places = self._places.get(member, [])
        if round_ != len(places):
            raise HistoryError(
                f"member {member} is at round {len(places)}, got an observation of its round {round_}; keep the order"
            )
        if self.size is not None and member >= self.size:
            raise HistoryError(
                f"members are 0 to {self.size - 1}, got an observation of member {member}; raise the size"
            )
        if observation.parent is not None and self.find(observation.parent) is None:
            raise HistoryError(
                f"a parent comes first, got {observation.key} with {observation.parent} unseen; append it"
            )
        row = len(self._observations)
        carried = bool(places) and self._observations[places[-1]].config == observation.config
        # A member that carries on has the encoding of its last row: computing it again would be waste.
        points = self._points(places[-1]) if carried else self.space.encode([observation.config])
        self._columns.put(
            row,
            x=points.x[0],
            h=points.h[0],
            member=member,
            round=round_,
            stage=self.stage(observation.parent),
            score=self.sign * observation.score,
            before=self.sign * observation.score_before,
            steps=math.nan if observation.steps is None else observation.steps,
            fresh=observation.parent is None,
            new=not carried,
        )
        self._observations.append(observation)
        self._places.setdefault(member, []).append(row)

    def _points(self, row: int) -> Points:
        return Points(self._columns.arrays["x"][row : row + 1], self._columns.arrays["h"][row : row + 1])

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

    def until(self, length: int) -> "History":
        """The history when it had `length` observations: shares everything, copies nothing, read-only."""
        view = History.__new__(History)
        view.__dict__.update(self.__dict__)
        view._length = max(0, min(length, len(self)))
        return view

    def finished(self, member: int) -> int:
        """How many rounds a member has finished."""
        return bisect_left(self._places.get(member, []), len(self))

    def find(self, key: Key) -> Observation | None:
        """The observation of (member, round), if it is there."""
        member, round_ = key
        return self._observations[self._places[member][round_]] if 0 <= round_ < self.finished(member) else None

    def place(self, key: Key) -> int:
        """Where the observation of (member, round) stands."""
        return self._places[key[0]][key[1]]

    def stage(self, parent: Key | None) -> int:
        """For how many intervals the weights of `parent` had been trained, itself included; 0 for a fresh start."""
        return 0 if parent is None else int(self._columns.arrays["stage"][self.place(parent)]) + 1

    def latest(self, member: int) -> Observation | None:
        """The last round that a member finished."""
        return self.find((member, self.finished(member) - 1))

    def last_completed(self, member: int) -> Observation | None:
        """The last round that a member finished without failing."""
        rounds = range(self.finished(member) - 1, -1, -1)
        return next((o for round_ in rounds if (o := self.find((member, round_))) and not o.failed), None)

    @property
    def best(self) -> Observation | None:
        """The completed observation with the best score; of equals that of the last round, and of the last member."""
        score = self._columns.arrays["score"][: len(self)]
        if not np.isfinite(score).any():
            return None
        equals = np.flatnonzero(score == np.nanmax(score))
        return max((self._observations[i] for i in equals), key=lambda o: (o.round, o.member))

    def lineage(self, observation: Observation | None = None) -> list[Observation]:
        """Who an observation descends from, first ancestor first; the best one's if none is given."""
        last = self.best if observation is None else observation
        line: list[Observation] = []
        while last is not None:
            line.append(last)
            last = None if last.parent is None else self.find(last.parent)
        return line[::-1]

    def schedule(self, observation: Observation | None = None) -> list[Config]:
        """The configurations along a lineage, one an interval: training with them in turn replays it."""
        return [copy.deepcopy(step.config) for step in self.lineage(observation)]

    def recent(self, window: int | None = None) -> Rows:
        """The last `window` observations as arrays (whole rounds where the size is known), by round and member."""
        return self._rows(self._last(window))

    def remembered(self, window: int | None = None) -> Rows:
        """Up to `window` observations that say most, by round and member: recent ones, and of the rest the new ones.

        Half are the most recent observations. The other half are older ones whose configuration was new then; where
        these are too many, those of every 2nd, 4th, 8th … round. A model that saw recent rows alone would forget what
        is bad, once everybody does what is good, and try it again.
        """
        if window is None or len(self) <= window:
            return self.recent()
        recent = self._last(window // 2)
        start = int(recent.min(initial=len(self)))
        size = self.size or 1
        older = np.arange(max(0, start - -(-LOOK_BACK // size) * size), start)  # whole rounds
        columns = self._columns.arrays
        older = older[columns["new"][older]]
        room, stride = window - window // 2, 1
        while len(older) > room and stride <= columns["round"][older].max():
            stride *= 2
            older = older[columns["round"][older] % stride == 0]
        # Round 0 is left, of a population larger than the room there is: some of its members.
        older = older[np.argsort(columns["member"][older], kind="stable")][:room] if len(older) > room else older
        return self._rows(np.concatenate([older, recent]))

    def _last(self, window: int | None) -> IntArray:
        """Where the last observations stand: whole rounds, so that the order of telling within one never matters."""
        end, size = len(self), self.size or 1
        start = 0 if window is None else max(0, end - window)
        whole = -(-start // size) * size
        if whole < end or window is None or not window:
            return np.arange(whole, end)
        # Not even one round fits: of the last round, the same members whatever the order in which they told.
        places = np.arange(max(0, end - size), end)
        return places[np.argsort(self._columns.arrays["member"][places], kind="stable")][:window]

    def _rows(self, places: IntArray) -> Rows:
        columns = self._columns.arrays
        order = np.lexsort((columns["member"][places], columns["round"][places]))
        part = {name: column[places[order]] for name, column in columns.items()}
        guessed = part["fresh"] & np.isfinite(part["score"]) & ~np.isfinite(part["before"])
        return Rows(
            points=Points(part["x"], part["h"]),
            member=part["member"],
            round=part["round"],
            stage=part["stage"],
            change=_per_interval(part["score"] - np.where(guessed, self._untrained, part["before"]), part["steps"]),
            before=part["before"],
            failed=~np.isfinite(part["score"]),
            guessed=guessed,
        )

    @property
    def _untrained(self) -> float:
        """What a member without training would score, guessed: members that kept their configuration from round 0 to
        round 1 are taken to have gained as much in both.

        Paper: silent. Here: guessed, because after three rounds a third of what is known would be thrown away. The
        models are told that it is a guess, common to all fresh starts.
        """
        head = {name: column[: min(len(self), EARLY)] for name, column in self._columns.arrays.items()}
        first, change = head["score"][head["fresh"]], head["score"] - head["before"]
        twice = (head["round"] == 1) & np.isfinite(change)
        usual = _mean(change[twice])
        kept = twice & ~head["new"]
        guess = _mean(head["before"][kept] - change[kept]) if kept.any() else _mean(first[np.isfinite(first)]) - usual
        # So near to zero it is most likely zero, where returns, totals and accuracies start.
        return 0.0 if abs(guess) <= 0.5 * abs(usual) else guess

    def backwards(self) -> Iterator[Observation]:
        """The observations, the latest first."""
        return (self._observations[i] for i in range(len(self) - 1, -1, -1))

    def save(self, directory: str | Path) -> None:
        """Write the history to a run's folder; into a folder that holds its beginning, what is new.

        So it can be called after every `tell`, and what was written is never written again.
        """
        about = {name: getattr(self, name) for name in _ABOUT}
        with Store.open_or_create(directory, self.space, about) as store:
            stored = len(store)
            known = self[stored - 1] if 0 < stored <= len(self) else None
            if stored and (known is None or known != store.last()):
                raise HistoryError(f"{store.path} holds another run, or one that went further; give another directory")
            store.extend(self[stored:])

    @staticmethod
    def load(directory: str | Path) -> "History":
        """The history of any run, finished or not."""
        with Store.open(directory) as store:
            about = {name: store.about.get(name, default) for name, default in _ABOUT.items()}
            return History(store.space, store.observations(), **about)


def _mean(values: FloatArray) -> float:
    """Sorted first, so that it is the same to the last bit in whatever order members told; 0 of nothing."""
    return float(np.sort(values).mean()) if len(values) else 0.0


def _per_interval(change: FloatArray, steps: FloatArray) -> FloatArray:
    """Where intervals differ in budget, the change per unit of it, times the usual budget."""
    told = np.isfinite(steps)
    if not told.any() or np.ptp(steps[told]) == 0:
        return change
    usual = np.median(steps[told])
    return change * (usual / np.where(told, steps, usual))
