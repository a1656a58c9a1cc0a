"""A candidate for the default: more first configurations than members, sifted before anything is copied.

A population of four begins with four configurations, and what it hands over is mostly one of these, trained to the end:
a later one must show its worth within an interval, on weights that suit another. Successive halving tries fifteen for
the same budget, and that decides tasks where early training is slow. Here the warm-up is spent in the same way: a first
configuration trains for a trial; the best half of as many as there are members, of all that were tried so far, goes on,
and the other members start afresh with new ones, until the warm-up is over. Four members of 30 rounds try fourteen in
the first six rounds. Then weak members copy strong ones as ever.

Scores are compared at the same age, at the end of the trial. A configuration that is tried late has fewer intervals
left to train, which is the price. No checkpoint is kept for longer than in any other run: what is given up is lost.
"""

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from popbandits.basics.rules import FLAG
from popbandits.basics.typing import IntArray
from popbandits.errors import ArgumentError
from popbandits.explorers import PatientPBT
from popbandits.history import History
from popbandits.history.memory import NO_INDEX
from popbandits.selection import Patient
from popbandits.selection.selection import Picks
from popbandits.selection.truncation import replace_members, sort_best_first
from popbandits.space import Space
from popbandits_experiments.methods.leaning import LeaningPBT


@dataclass(frozen=True)
class Sifting(Patient):
    """Patient truncation whose warm-up gives up weak first configurations for new ones.

    Args:
        quantile: As `Patient`'s.
        warm_up: As `Patient`'s. Default 0.2.
        collapse: As `Patient`'s.
        adaptive: As `Patient`'s. Default False.
        edition: As `Patient`'s.
        trial: Time after which a first configuration is judged: below 1, a share of the run's rounds; from 1, a number
            of rounds. Default 0.03. From the warm-up on, nothing is sifted.
    """

    earlier: ClassVar[Mapping[str, Any]] = {}

    warm_up: float = 0.2
    adaptive: bool = False
    _: KW_ONLY
    trial: float = 0.03

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.trial > 0:
            raise ArgumentError(f"trial must be above 0, got {self.trial!r}; 0.03 is usual")

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Sift while the warm-up lasts; then pick as `Patient` does."""
        if self._settled(history).any():
            return super().select(history, members, rng)
        return self._sift(history, members, rng)

    def trial_rounds(self, rounds: int | None) -> int:
        """Return how many rounds a trial lasts."""
        return math.ceil(self.trial if self.trial >= 1 or rounds is None else self.trial * rounds)

    def _sift(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Start members afresh whose first configuration is not among the best that were tried."""
        states, indices, trial = history.member_states(), np.arange(len(history)), self.trial_rounds(history.rounds)
        judged = indices[history.column("stage", indices) == trial - 1]
        best = judged[sort_best_first(history.scores(judged), rng)[: max(1, len(states.finished) // 2)]]
        by, rounds = history.intervals()
        going_on = {(int(by[index]), int(rounds[index])) for index in best}
        ages = np.array([0 if i == NO_INDEX else history.value("stage", i) + 1 for i in states.completed.tolist()])
        # While nothing is copied, a member's rounds since its fresh start are its age.
        ends = states.finished - ages + trial - 1
        weak = np.array([(member, end) not in going_on for member, end in enumerate(ends.tolist())])
        time = self.warm_up_rounds(history.rounds) - states.finished >= trial
        again = (states.completed != states.latest) | ((ages >= trial) & weak & time)
        return replace_members(history, members, again, np.full(int(again.sum()), NO_INDEX))


@dataclass(frozen=True)
class SiftingPBT(LeaningPBT):
    """PBT that sifts more first configurations than it has members; draws lean to the start, or else to the parent.

    Args:
        resample: As `PatientPBT`'s.
        resample_label: As `PatientPBT`'s.
        step: As `PatientPBT`'s.
        concentration: As `LeaningPBT`'s.
        crossover: As `PatientPBT`'s.
        model: As `PatientPBT`'s. Default False.
        around_start: As `PatientPBT`'s.
        edition: As `PatientPBT`'s.
        first: As `LeaningPBT`'s.
        keep: As `LeaningPBT`'s.
        lean: Whether draws lean to the parent. None (default) if there is no start, to which they lean otherwise.
    """

    selection = Sifting()  # type: ignore[assignment]  # Nothing of a watchful one is used.
    earlier: ClassVar[Mapping[str, Any]] = {}

    model: bool = False
    _: KW_ONLY
    lean: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        FLAG.or_none("if there is no start").check("lean", self.lean)

    def explore(self, space: Space, history: History, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        """Resample around the start or the parent's values, and perturb the others."""
        lean = self.lean if self.lean is not None else space.prior is None or space.prior.around is None
        return (LeaningPBT if lean else PatientPBT).explore(self, space, history, pending, parent, rng)
