"""Checks observations on their way into a history, and encodes them together. It must not import `History`."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from popbandits.errors import HistoryError
from popbandits.history.records import Config, Key, Observation
from popbandits.space import Points


class Adding:
    """Checks that observations follow a history, and finds what their columns need; the history stays as it is.

    A member that carries on has the encoding of its last row: computing it again would be waste.
    """

    def __init__(self, history: Any, new: Sequence[Observation]):
        self.history, self.new = history, new
        self.start = len(history)
        """The place of the first of them."""
        self._rows: dict[Key, int] = {}  # of those that are new
        self._finished: dict[int, int] = {}
        self._stages: list[int] = []
        self._encodings: list[int] = []  # by row: which of those to make; below 0, which of those to look up
        self._make: list[Config] = []
        self._look_up: list[int] = []
        self._news: list[bool] = []
        for row, observation in enumerate(new):
            self._check(observation)
            self._follow(observation)
            self._rows[observation.member, observation.round] = row
            self._finished[observation.member] = observation.round + 1

    def columns(self) -> dict[str, Any]:
        """A value for each of the new rows, by column."""
        sign, new = self.history.sign, self.new
        encoded = [self.history.space.encode(self._make)] if self._make else []
        if self._look_up:
            known = np.array(self._look_up, np.int64)
            encoded.append(Points(self.history.column("x", known), self.history.column("h", known)))
        points = encoded[0]
        if len(new) > 1:  # One alone, as a run adds them, has one encoding.
            at = np.array(self._encodings, np.int64)
            points = Points.concatenate(encoded)[np.where(at < 0, len(self._make) - 1 - at, at)]
        return {
            "x": points.x,
            "h": points.h,
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

    def _check(self, observation: Observation) -> None:
        if not isinstance(observation, Observation):
            raise HistoryError(
                f"a history holds Observations, got {observation!r}; give History.load(directory) of a run"
            )
        member, round_ = observation.member, observation.round
        if round_ != (finished := self._done(member)):
            raise HistoryError(
                f"member {member} is at round {finished}, got an observation of its round {round_}; keep the order"
            )
        size = self.history.size
        if size is not None and member >= size:
            raise HistoryError(f"members are 0 to {size - 1}, got an observation of member {member}; raise the size")
        parent = observation.parent
        if parent is not None and not 0 <= parent[1] < self._done(parent[0]):
            raise HistoryError(f"a parent comes first, got {observation.key} with {parent} unseen; append it")

    def _done(self, member: int) -> int:
        """Count the rounds that a member has finished, those included that were looked at."""
        if member not in self._finished:
            self._finished[member] = self.history.finished(member)
        return self._finished[member]

    def _follow(self, observation: Observation) -> None:
        """Find the stage and the encoding of one: from those before it, or the history."""
        parent = observation.parent
        inside = None if parent is None else self._rows.get(parent)
        self._stages.append(self.history.stage(parent) if inside is None else self._stages[inside] + 1)
        before = self._rows.get((observation.member, observation.round - 1))
        last = self.history.latest(observation.member) if before is None else self.new[before]
        same = last is not None and last.config == observation.config
        if not same:
            self._encodings.append(len(self._make))
            self._make.append(observation.config)
        elif before is not None:
            self._encodings.append(self._encodings[before])
        else:
            self._look_up.append(self.history.place((observation.member, observation.round - 1)))
            self._encodings.append(-len(self._look_up))
        lost = observation.status == "lost"
        carried = last is not None and same and last.status != "lost"
        self._news.append(not carried and not lost)
