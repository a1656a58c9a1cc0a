"""New observations: checked and encoded before they are added to a history."""

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
    def finished(self, member: int) -> int: ...
    def index_of(self, key: Key) -> int: ...
    def stage(self, parent: Key | None) -> int: ...
    def latest(self, member: int) -> Observation | None: ...
    def column(self, name: str, indices: IntArray) -> Any: ...


def encode_new(history: _GrowingHistory, new: Sequence[Observation]) -> tuple[dict[int, list[int]], dict[str, Any]]:
    """Check new observations against a history, which is not changed, and encode them.

    Each gets its stage and encoding from the ones before it, or from the history: a member that keeps its configuration
    reuses the encoding of its last row. This is one loop over local names: with a call for each step, half the time of
    loading a long history is spent here.

    Returns:
        The new rows of each member, in order, and the values of the new rows, by column.
    """
    sign, size = history.sign, history.size
    rows_of: dict[int, list[int]] = {}
    begins: dict[int, int] = {}  # by member: rounds finished before
    make: list[Config] = []
    look_up: list[int] = []
    encodings: list[int] = []  # by row: index in `make`; below 0, -1 - index in `look_up`
    stages: list[int] = []
    news: list[bool] = []

    def meet(member: int) -> list[int]:
        """Start counting a member's rounds, and return the list for its rows."""
        begins[member] = history.finished(member)
        return rows_of.setdefault(member, [])

    for row, observation in enumerate(new):
        if not isinstance(observation, Observation):
            raise HistoryError(
                f"a history holds Observations, got {observation!r}; give History.load(directory) of a run"
            )
        member, round_, parent = observation.member, observation.round, observation.parent
        mine = rows_of[member] if member in rows_of else meet(member)
        begin = begins[member]
        if round_ != begin + len(mine):
            raise HistoryError(
                f"member {member} is at round {begin + len(mine)}, got an observation of its round {round_}; "
                "append rounds in order"
            )
        if size is not None and member >= size:
            raise HistoryError(f"members are 0 to {size - 1}, got an observation of member {member}; raise the size")
        if parent is None:
            stages.append(0)
        else:
            loaded, end = parent
            theirs = mine if loaded == member else rows_of[loaded] if loaded in rows_of else meet(loaded)
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
            look_up.append(history.index_of((member, round_ - 1)))
            encodings.append(-len(look_up))
        carried = last is not None and same and last.status != "lost"
        news.append(not carried and observation.status != "lost")
        mine.append(row)
    points = _encoded(history, make, look_up, np.array(encodings, np.int64))
    return rows_of, {
        "x": points.x,
        "h": points.h,
        "member": [o.member for o in new],
        "round": [o.round for o in new],
        "stage": stages,
        "score": [sign * o.score for o in new],
        "before": [sign * o.score_before for o in new],
        "steps": [math.nan if o.steps is None else o.steps for o in new],
        "fresh": [o.parent is None for o in new],
        "new": news,
        "lost": [o.status == "lost" for o in new],
    }


def _encoded(history: _GrowingHistory, make: list[Config], look_up: list[int], encodings: IntArray) -> Points:
    """Return the points of the new rows: encoded, or looked up in the history."""
    parts = [history.space.encode(make)] if make else []
    if look_up:
        known = np.array(look_up, np.int64)
        parts.append(Points(history.column("x", known), history.column("h", known)))
    return Points.concatenate(parts)[np.where(encodings < 0, len(make) - 1 - encodings, encodings)]
