"""Histories for selections, written as tables of scores; selections that do what no shipped one does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from popbandits.basics.typing import IntArray
from popbandits.history import History, Key, Observation
from popbandits.history.memory import NO_INDEX
from popbandits.selection import Picks, Selection, Truncation
from popbandits.selection.selection import stay

SPACE = {"x": (0.0, 1.0)}


def history_of(scores: Sequence[Sequence[float]], parents: Mapping[Key, Key | None] | None = None) -> History:
    """Rows are rounds, columns members; NaN fails. Members go on from themselves unless `parents` says otherwise."""
    made = History(SPACE, size=len(scores[0]), rounds=1000)
    drawn = np.random.default_rng(0)
    for round_, row in enumerate(scores):
        for member, score in enumerate(row):
            own = made.last_completed(member)
            usual = None if own is None else own.key
            made.append(
                Observation(
                    member=member,
                    round=round_,
                    config={"x": float(drawn.random())},
                    parent=(parents or {}).get((member, round_), usual),
                    score_before=np.nan,
                    score=score,
                    status="completed" if np.isfinite(score) else "failed",
                )
            )
    return made


@dataclass(frozen=True)
class Crossed(Selection):
    """Truncation of the weights; members keep their own configurations."""

    quantile: float = 0.5

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        picks = Truncation(self.quantile).select(history, members, rng)
        own = stay(history, members)
        return Picks(picks.weights, own.config, own.explores)


@dataclass(frozen=True)
class StartsAgain(Selection):
    """New weights after the third interval: odd members keep their configurations, the others explore."""

    quantile: float = 0.5

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        picks = Truncation(self.quantile).select(history, members, rng)
        again, odd = history.member_states().finished[members] == 3, members % 2 == 1
        weights = np.where(again, NO_INDEX, picks.weights)
        config = np.where(again, np.where(odd, stay(history, members).config, NO_INDEX), picks.config)
        return Picks(weights, config, np.where(again, ~odd, picks.explores))
