"""Patient truncation: members train alone at first; later the worst load the best weights there are, or ever were.

Early scores say little of what becomes of a configuration. Slow starters are among the worst, and so is whoever pays
for exploring before it pays off; truncation copies over both within a few rounds, and all that is left descends from
one lucky start. So for the first rounds nobody is replaced. Later scores can collapse: when every member has fallen
below the best checkpoint there ever was, by more than a score usually changes, that checkpoint is the parent.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import median_abs_deviation

from popbandits.docstrings import complete_args
from popbandits.errors import ArgumentError
from popbandits.history import History
from popbandits.history.standing import NOWHERE
from popbandits.rules import SHARE
from popbandits.selection.selection import Picks, Selection, checkpoints
from popbandits.selection.truncation import Truncation, rank, replace_members
from popbandits.typing import IntArray, is_real, is_whole

WARM_UP_ROUNDS = 10
"""Rounds without replacement, in a run that has no set end."""

LOOKED_AT = 512
"""Last observations from which the usual change of a score is estimated."""


@complete_args(Truncation)
@dataclass(frozen=True)
class Patient(Selection):
    """Truncation by the last score after a warm-up in which nobody is replaced, with a way back after a collapse.

    A member whose last interval failed, or whose checkpoint is lost, is replaced in the warm-up too.

    >>> Patient().warm_up_rounds(rounds=30)
    8

    Args:
        warm_up: Set how long members train alone: below 1 a share of the run's rounds (of a run without a set end 10
            rounds), from 1 on a number of rounds. Default 0.25. Lower it if early scores tell which members will win.
        collapse: Set how far the best member must fall below the best score ever before members go back to that
            checkpoint, in robust standard deviations of a score's change. Default 1.0. Raise it if scores are noisy;
            `math.inf` never goes back.
    """

    quantile: float = 0.25
    warm_up: float = 0.25
    collapse: float = 1.0

    def __post_init__(self) -> None:
        SHARE.check("quantile", self.quantile)
        if not (is_real(self.warm_up) and (0 <= self.warm_up < 1 or is_whole(self.warm_up, 1))):
            raise ArgumentError(
                f"warm_up must be a share of the rounds below 1, or a whole number of rounds, got {self.warm_up!r}; "
                "0.25 is usual"
            )
        if not (is_real(self.collapse) and self.collapse >= 0):
            raise ArgumentError(f"collapse must be at least 0, got {self.collapse!r}; 1 is usual, inf never goes back")

    def warm_up_rounds(self, rounds: int | None) -> int:
        """Return how many rounds a member trains before it can be replaced."""
        if self.warm_up >= 1:
            return int(self.warm_up)
        if rounds is None:
            return WARM_UP_ROUNDS if self.warm_up else 0
        return math.ceil(self.warm_up * rounds)

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Pick by the scores as they are, once the warm-up is over."""
        ranking = rank(history, self.quantile, rng, history.scores)
        settled = history.standing().finished >= self.warm_up_rounds(history.rounds)
        replaced = ranking.failed | (ranking.weak & settled)
        sources = ranking.draw(int(replaced.sum()), rng)
        if len(sources) and (peak := self._lost_peak(history)) != NOWHERE:
            sources[:] = peak
        return replace_members(history, members, replaced, sources)

    def planned(self, rounds: int) -> "Patient":
        """Return the selection with its warm-up as a number of rounds.

        Args:
            rounds: Give the rounds that the run is going to have.
        """
        return replace(self, warm_up=self.warm_up_rounds(rounds))

    def _lost_peak(self, history: History) -> int:
        """Return the place of the best checkpoint if every member has collapsed since, NOWHERE if not."""
        best, scores = history.best, history.scores(history.standing().latest)
        if best is None or np.isnan(scores).all():  # Failures say nothing about scores.
            return NOWHERE
        place = history.place(best.key)
        changes = [o.change for o in history[-LOOKED_AT:] if math.isfinite(o.change)]
        usual = float(median_abs_deviation(changes, scale="normal")) if changes else 0.0
        fallen = history.sign * best.score - float(np.nanmax(scores))
        return place if fallen > self.collapse * usual and place in checkpoints(history) else NOWHERE
