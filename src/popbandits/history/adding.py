"""Checks observations on their way into a history, and encodes them together. It must not import `History`."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from popbandits.errors import HistoryError
from popbandits.records import Config, Observation
from popbandits.space import Points


class Adding:
    """Checks that observations follow a history, and finds what their columns need; the history stays as it is.

    A member that carries on has the encoding of its last row: computing it again would be waste.
    """

    def __init__(self, history: Any, new: Sequence[Observation]):
        self.history, self.new = history, new
        self.start = len(history)
        """The place of the first of them."""
        self.rows: dict[int, list[int]] = {}
        """By member, which of them are its next rounds."""
        self._finished: dict[int, int] = {}  # rounds that members had finished before
        self._stages: list[int] = []
        self._encodings: list[int] = []  # by row: which of those to make; below 0, which of those to look up
        self._make: list[Config] = []
        self._look_up: list[int] = []
        self._news: list[bool] = []
        self._follow()

    def columns(self) -> dict[str, Any]:
        """A value for each of the new rows, by column."""
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
        """The columns x and h."""
        made, known = self._make, self._look_up
        if len(self.new) == 1 and known:  # What a run adds most often; for one, arrays take several times as long.
            return [self.history.at("x", known[0])], [self.history.at("h", known[0])]
        encoded = [self.history.space.encode(made)] if made else []
        if known:
            places = np.array(known, np.int64)
            encoded.append(Points(self.history.column("x", places), self.history.column("h", places)))
        at = np.array(self._encodings, np.int64)
        points = Points.concatenate(encoded)[np.where(at < 0, len(made) - 1 - at, at)] if len(at) > 1 else encoded[0]
        return points.x, points.h

    def _follow(self) -> None:
        """Check each, and find its stage and its encoding: from those before it, or the history.

        One loop over local names: with a call for each step, half of the time of loading a long history is spent here.
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
                    "keep the order"
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
                self._look_up.append(history.place((member, round_ - 1)))
                encodings.append(-len(self._look_up))
            carried = last is not None and same and last.status != "lost"
            news.append(not carried and observation.status != "lost")
            mine.append(row)

    def _meet(self, member: int) -> list[int]:
        """Begin to count a member's rounds."""
        self._finished[member] = self.history.finished(member)
        return self.rows.setdefault(member, [])
