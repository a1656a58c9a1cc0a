"""Checks and encodes observations before they are added to a history."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from popbandits.basics.records import Config, Key, Observation
from popbandits.basics.typing import IntArray
from popbandits.errors import HistoryError
from popbandits.space import Points, Space


class _GrowingHistory(Protocol):
    """What is asked of the history that observations are added to; `History` says what each returns."""

    space: Space
    size: int | None

    @property
    def sign(self) -> float: ...
    def __len__(self) -> int: ...
    def finished(self, member: int) -> int: ...
    def index_of(self, key: Key) -> int: ...
    def stage(self, parent: Key | None) -> int: ...
    def latest(self, member: int) -> Observation | None: ...
    def column(self, name: str, indices: IntArray) -> Any: ...
    def value(self, name: str, index: int) -> Any: ...


class NewObservations:
    """New observations, checked against a history and encoded as columns; the history is not changed.

    A member that keeps its configuration reuses the encoding of its last row, to save time.
    """

    def __init__(self, history: _GrowingHistory, new: Sequence[Observation]):
        self.history, self.new = history, new
        self.start = len(history)
        """Index of the first new observation."""
        self.rows: dict[int, list[int]] = {}
        """The new rows of each member, in order."""
        self._finished: dict[int, int] = {}  # by member: rounds finished before
        self._stages: list[int] = []
        self._encodings: list[int] = []  # by row: index in `_make`; below 0, -1 - index in `_look_up`
        self._make: list[Config] = []
        self._look_up: list[int] = []
        self._news: list[bool] = []
        self._follow()

    def columns(self) -> dict[str, Any]:
        """Return the values of the new rows, by column."""
        sign, new = self.history.sign, self.new
        x, h = self._encoded()
        return {
            "x": x,
            "h": h,
            "member": [o.member for o in new],
            "round": [o.round for o in new],
            "stage": self._stages,
            "score": [sign * o.score for o in new],
            "before": [sign * o.score_before for o in new],
            "steps": [math.nan if o.steps is None else o.steps for o in new],
            "fresh": [o.parent is None for o in new],
            "new": self._news,
            "lost": [o.status == "lost" for o in new],
        }

    def _encoded(self) -> tuple[Any, Any]:
        """Return the columns x and h."""
        make, known = self._make, self._look_up
        encoded = [self.history.space.encode(make)] if make else []
        if known:
            indices = np.array(known, np.int64)
            encoded.append(Points(self.history.column("x", indices), self.history.column("h", indices)))
        at = np.array(self._encodings, np.int64)
        points = Points.concatenate(encoded)[np.where(at < 0, len(make) - 1 - at, at)] if len(at) > 1 else encoded[0]
        return points.x, points.h

    def _follow(self) -> None:
        """Check each observation, and find its stage and encoding from the ones before it, or from the history.

        One loop over local names: with a call for each step, half the time of loading a long history is spent here.
        """
        history, new, size, begins = self.history, self.new, self.history.size, self._finished
        rows_of, stages, encodings, make, news = self.rows, self._stages, self._encodings, self._make, self._news
        for row, observation in enumerate(new):
            if not isinstance(observation, Observation):
                raise HistoryError(
                    f"a history holds Observations, got {observation!r}; give History.load(directory) of a run"
                )
            member, round_, parent = observation.member, observation.round, observation.parent
            mine = rows_of[member] if member in rows_of else self._meet(member)
            begin = begins[member]
            if round_ != begin + len(mine):
                raise HistoryError(
                    f"member {member} is at round {begin + len(mine)}, got an observation of its round {round_}; "
                    "append rounds in order"
                )
            if size is not None and member >= size:
                raise HistoryError(
                    f"members are 0 to {size - 1}, got an observation of member {member}; raise the size"
                )
            if parent is None:
                stages.append(0)
            else:
                loaded, end = parent
                theirs = mine if loaded == member else rows_of[loaded] if loaded in rows_of else self._meet(loaded)
                inside = end - begins[loaded]
                if end < 0 or inside >= len(theirs):
                    raise HistoryError(f"a parent comes first, got {observation.key} with {parent} unseen; append it")
                stages.append(history.stage(parent) if inside < 0 else stages[theirs[inside]] + 1)
            last = new[mine[-1]] if mine else history.latest(member) if begin else None
            same = last is not None and last.config == observation.config
            if not same:
                encodings.append(len(make))
                make.append(observation.config)
            elif mine:
                encodings.append(encodings[mine[-1]])
            else:
                self._look_up.append(history.index_of((member, round_ - 1)))
                encodings.append(-len(self._look_up))
            carried = last is not None and same and last.status != "lost"
            news.append(not carried and observation.status != "lost")
            mine.append(row)

    def _meet(self, member: int) -> list[int]:
        """Start counting a member's rounds, and return the list for its rows."""
        self._finished[member] = self.history.finished(member)
        return self.rows.setdefault(member, [])
