"""The categorical half of a decision: one TV.EXP3.M for each categorical variable, replayed from the history."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from popbandits.basics.typing import FloatArray, IntArray
from popbandits.history import History, Rows
from popbandits.models.bandit import TVEXP3M
from popbandits.space import Space


@dataclass(frozen=True)
class Arms:
    """The state of the bandits after some rows of history.

    Paper: the batch is drawn, played and fed back. Here: only replaced members draw, while every member's outcome is
    feedback for its label, because there is four times as much of it.
    """

    space: Space
    rows: Rows
    horizon: int | None = None
    changes: int = 1
    exploration: str | float = "corrected"
    sharing: float | None = None
    fenced: bool = True
    """True if one collapse must not flatten the other gains (`Rows.gains`)."""

    @staticmethod
    def after(space: Space, history: History, window: int | None, **options: Any) -> "Arms":
        """Replay the bandits over the last `window` observations, from new ones: the window limits their horizon."""
        span = None if window is None else max(1, window // (history.size or 1))
        horizon = min((limit for limit in (history.rounds, span) if limit is not None), default=None)
        return Arms(space, history.recent(window), horizon, **options)

    @cached_property
    def _rounds(self) -> list[slice]:
        edges = np.flatnonzero(np.diff(self.rows.round, prepend=-1, append=-1))
        return [slice(start, stop) for start, stop in pairwise(edges)]

    @cached_property
    def _bandits(self) -> list[tuple[TVEXP3M, FloatArray]]:
        gains = self.rows.gains(self.fenced)
        known = []
        for column, variable in enumerate(self.space.categorical):
            bandit = TVEXP3M(len(variable.labels), self.horizon, self.changes, self.exploration, self.sharing)  # type: ignore[arg-type]
            played = self.rows.points.h[:, column]
            active = played >= 0
            feedback = [(played[r][active[r]], gains[r][active[r]]) for r in self._rounds]
            known.append((bandit, bandit.replay(feedback)))
        return known

    @cached_property
    def _feedback(self) -> int:
        """Mean number of members that give feedback in a round; it sets the bandits' exploration."""
        return max(1, round(len(self.rows) / max(1, len(self._rounds))))

    @cached_property
    def probabilities(self) -> list[FloatArray]:
        """For each variable, the probability of each label when one member draws."""
        return [
            bandit.expected_plays(weights, 1, len(self._rounds), self._feedback) for bandit, weights in self._bandits
        ]

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """Draw (count, m) labels for members of one round by dependent rounding: distinct if there are enough."""
        drawn = [
            bandit.draw(weights, count, rng, len(self._rounds), self._feedback) for bandit, weights in self._bandits
        ]
        return np.stack(drawn, axis=1) if drawn else np.empty((count, 0), dtype=np.int64)

    def record(self) -> dict[str, dict[str, list[float]]]:
        """Return the probabilities by variable, for the record of the decision."""
        names = (variable.name for variable in self.space.categorical)
        by_name = {name: p.tolist() for name, p in zip(names, self.probabilities, strict=True)}
        # Under their own key: a user's variable may be called "fallback" or "theta".
        return {"probabilities": by_name} if by_name else {}
