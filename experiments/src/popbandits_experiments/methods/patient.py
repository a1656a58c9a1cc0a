"""Patient truncation: members train alone at first; later the worst load the best weights, or the best ever.

Early scores say little about the later success of a configuration. Slow starters rank among the worst, and so do
members whose exploration pays off late; truncation replaces both within a few rounds, and all members descend from one
lucky start. So no member is replaced in the first rounds, unless scores accumulate: then the leaders are known early.
Later, scores can collapse: when every member has fallen below the best score ever, by more than chance explains,
members load the checkpoint of that best score.

Chance makes two falls that are none. A score wavers from round to round; and the best of a whole run's n scores was
lucky, luckier than the best of the P members' last scores, even if nothing has changed:

    fallen > collapse u + s (m(n) - m(P))      u the usual change of a score, s = u / sqrt(2) its noise    (way-back)

m is the expected maximum of normal numbers (`expected_maximum`); the difference of two scores with independent noise s
has the deviation sqrt(2) s. A test holds how often scores of noise alone send a member back.
"""

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri
from scipy.stats import median_abs_deviation

from popbandits.basics.rules import EDITION, FLAG, SHARE, is_real, is_whole
from popbandits.basics.typing import BoolArray, IntArray
from popbandits.errors import ArgumentError
from popbandits.history import History
from popbandits.history.memory import NO_INDEX
from popbandits.selection.selection import Picks, Selection, checkpoints
from popbandits.selection.truncation import rank, replace_members
from popbandits_experiments.methods.accumulation import accumulation

DEFAULT_WARM_UP_ROUNDS = 10
"""Rounds without replacement in a run without a set end."""

ACCUMULATION_THRESHOLD = 0.3
"""Evidence of accumulation (`accumulation`) that ends the warm-up."""

CHANGE_WINDOW = 512
"""Number of last observations from which the usual change of a score is estimated."""


@dataclass(frozen=True)
class Patient(Selection):
    """Truncation by the last score after a warm-up without replacement, with a return to the best after a collapse.

    A member whose last interval failed, or whose checkpoint is lost, is replaced in the warm-up too.

    >>> Patient().warm_up_rounds(rounds=30)
    8

    Args:
        quantile: Share of members that is replaced, above 0 and at most 0.5: rounded down, at least one member. Default
            0.25. Raise it to give up weak members sooner.
        warm_up: Time that members train alone: below 1, a share of the run's rounds (10 rounds in a run without a set
            end); from 1, a number of rounds. In asynchronous runs it lasts until members have finished so many on
            average. Default 0.25. Lower it if early scores tell which members will win.
        collapse: Distance that the best member must fall below the best score ever, beyond the luck of that score,
            before members return to its checkpoint, in robust standard deviations of a score's change. Default 1.5.
            Lower it if scores hardly waver; `math.inf` never returns.
        adaptive: Whether the warm-up ends early if scores accumulate, as a running total does. Default True. Use False
            to compare with fixed warm-ups.
        edition: Edition of the rules. Default 2. Edition 1 is for runs of earlier versions: it does not allow for the
            luck of the best score, so that it returns though nothing collapsed, and counts each member's own rounds of
            warm-up.
    """

    earlier: ClassVar[Mapping[str, Any]] = {"adaptive": False, "collapse": 1.0, "edition": 1}

    quantile: float = 0.25
    warm_up: float = 0.25
    collapse: float = 1.5
    adaptive: bool = True
    _: KW_ONLY
    edition: int = 2

    def __post_init__(self) -> None:
        SHARE.check("quantile", self.quantile)
        if not (is_real(self.warm_up) and (0 <= self.warm_up < 1 or is_whole(self.warm_up, 1))):
            raise ArgumentError(
                f"warm_up must be a share of the rounds below 1, or a whole number of rounds, got {self.warm_up!r}; "
                "0.25 is usual"
            )
        if not (is_real(self.collapse) and self.collapse >= 0):
            raise ArgumentError(f"collapse must be at least 0, got {self.collapse!r}; 1.5 is usual, inf never returns")
        FLAG.check("adaptive", self.adaptive)
        EDITION.check("edition", self.edition)

    def warm_up_rounds(self, rounds: int | None) -> int:
        """Return how many rounds members train before one can be replaced."""
        if self.warm_up >= 1:
            return int(self.warm_up)
        if rounds is None:
            return DEFAULT_WARM_UP_ROUNDS if self.warm_up else 0
        return math.ceil(self.warm_up * rounds)

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Pick by the raw scores, once the warm-up is over."""
        ranking = rank(history, self.quantile, rng, history.scores)
        replaced = ranking.failed | (ranking.weak & self._settled(history))
        sources = ranking.draw(int(replaced.sum()), rng)
        if len(sources) and (peak := self._lost_peak(history)) != NO_INDEX:
            sources[:] = peak
        return replace_members(history, members, replaced, sources)

    def _settled(self, history: History) -> BoolArray:
        """Return by member whether its warm-up is over."""
        finished, rounds = history.member_states().finished, self.warm_up_rounds(history.rounds)
        # By the progress of all, which asynchronous members make at different speeds: by its own rounds, a slow member
        # would be spared for most of the run, and fast ones replaced while the others have hardly begun.
        settled = finished >= rounds if self.edition == 1 else np.full(len(finished), finished.mean() >= rounds)
        if self.adaptive and not settled.all():
            settled |= accumulation(history) >= ACCUMULATION_THRESHOLD
        return settled

    def planned(self, rounds: int) -> "Patient":
        """Return the selection with its warm-up as a number of rounds.

        Args:
            rounds: Number of rounds of the run.
        """
        return replace(self, warm_up=self.warm_up_rounds(rounds))

    def _lost_peak(self, history: History) -> int:
        """Return the index of the best checkpoint if every member has collapsed since, else NO_INDEX."""
        best, scores = history.best, history.scores(history.member_states().latest)
        if best is None or np.isnan(scores).all():  # Failures say nothing about scores.
            return NO_INDEX
        index = history.index_of(best.key)
        fallen = history.sign * best.score - float(np.nanmax(scores))
        collapsed = fallen > self._chance(history, int(np.isfinite(scores).sum()))
        return index if collapsed and index in checkpoints(history) else NO_INDEX

    def _chance(self, history: History, members: int) -> float:
        """Return how far below the best score ever the best of some members can be by chance (way-back)."""
        changes = [o.change for o in history[-CHANGE_WINDOW:] if math.isfinite(o.change)]
        usual = float(median_abs_deviation(changes, scale="normal")) if changes else 0.0
        if self.edition == 1:
            return self.collapse * usual
        # Failed intervals are counted too: to tell them apart, all of a long run would have to be read.
        luck = expected_maximum(len(history)) - expected_maximum(members)
        return usual * (self.collapse + luck / math.sqrt(2))


def expected_maximum(n: int) -> float:
    """Return about the mean of the largest of `n` independent standard normal numbers, by Blom's (1958) formula.

    >>> [round(expected_maximum(n), 2) for n in (1, 4, 100)]
    [0.0, 1.05, 2.5]
    """
    return float(ndtri((n - 0.375) / (n + 0.25)))
