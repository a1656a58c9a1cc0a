"""A candidate for the default: more first configurations than members, sifted before anything is copied.

A population of four begins with four configurations, and what it hands over is mostly one of these, trained to the end:
a later one must show its worth within an interval, on weights that suit another. Successive halving tries fifteen for
the same budget, and that decides tasks where early training is slow. Here the warm-up is spent in the same way: a first
configuration trains for `trial` intervals; only the `kept` best of all that were tried so far go on, and the other
members start afresh with new ones, until the warm-up is over. With four members of 30 rounds, and trial, kept and
warm_up of 3, 2 and 0.4, ten are tried; then weak members copy strong ones as ever.

Scores are compared at the same age, after `trial` intervals. A configuration that is tried late has fewer intervals
left to train, which is the price. No checkpoint is kept for longer than in any other run: what is given up is lost.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from popbandits.basics.rules import FLAG, whole
from popbandits.basics.typing import BoolArray, IntArray
from popbandits.explorers import PatientPBT
from popbandits.history import History, Observation
from popbandits.history.memory import NO_INDEX
from popbandits.selection.selection import Picks, stay
from popbandits.selection.truncation import rank, replace_members, sort_best_first
from popbandits.space import Prior, Space
from popbandits_experiments.methods.leaning import LeaningPBT, Watchful


@dataclass(frozen=True)
class Sifting(Watchful):
    """Patient truncation whose warm-up gives up weak first configurations for new ones.

    Args:
        quantile: As `Patient`'s.
        warm_up: As `Patient`'s.
        collapse: As `Patient`'s.
        adaptive: As `Patient`'s.
        edition: As `Patient`'s.
        lag: As `Watchful`'s.
        trial: Number of intervals after which a first configuration is judged. Default 3.
        kept: Number of first configurations that go on. Default 2.
        grace: Number of intervals after a copy in which a member is not replaced. Default 0.
        sift: Share of the warm-up in which new first configurations are tried. Default 1.0.
    """

    earlier: ClassVar[Mapping[str, Any]] = {}

    warm_up: float = 0.4
    lag: bool = False
    _: KW_ONLY
    trial: int = 3
    kept: int = 2
    grace: int = 0
    sift: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("trial", 1), ("kept", 1), ("grace", 0)):
            whole(least).check(name, getattr(self, name))

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Sift while the warm-up lasts; then pick as `Patient` does, but spare those that have just copied."""
        if not self._settled(history).any():
            return self._sift(history, members, rng)
        picks = super().select(history, members, rng)
        if not self.grace:
            return picks
        ranking = rank(history, self.quantile, rng, history.scores)
        spared = self._just_copied(history)[members] & ~ranking.failed[members]
        staying = stay(history, members)
        return Picks(
            np.where(spared, staying.weights, picks.weights),
            np.where(spared, staying.config, picks.config),
            np.where(spared, staying.explores, picks.explores),
        )

    def _sift(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Start members afresh whose first configuration is not among the best that were tried."""
        states, indices = history.member_states(), np.arange(len(history))
        tried = indices[history.column("stage", indices) == self.trial - 1]
        best = tried[sort_best_first(history.scores(tried), rng)[: self.kept]]
        ages = np.array([0 if i == NO_INDEX else history.value("stage", i) + 1 for i in states.completed.tolist()])
        failed = states.completed != states.latest
        # The observation that a member's present configuration is judged by: its members' rounds are consecutive.
        owners, rounds = history.intervals()
        judged = {(int(owners[i]), int(rounds[i])) for i in best}
        kept = [(m, int(states.finished[m] - ages[m] + self.trial - 1)) in judged for m in range(len(ages))]
        left = np.rint(self.sift * self.warm_up_rounds(history.rounds)) - states.finished
        again = failed | ((ages >= self.trial) & ~np.array(kept) & (left >= self.trial))
        return replace_members(history, members, again, np.full(int(again.sum()), NO_INDEX))

    def _just_copied(self, history: History) -> BoolArray:
        """Return by member whether it took its configuration at most `grace` intervals ago."""
        found = []
        for member, finished in enumerate(history.member_states().finished.tolist()):
            back = range(finished - 1, max(finished - 1 - self.grace, 0), -1)
            configs = [self._at(history, member, round_).config for round_ in back]
            before = self._at(history, member, max(finished - 1 - self.grace, 0)).config if finished else None
            found.append(any(config != before for config in configs))
        return np.array(found, dtype=np.bool_)

    @staticmethod
    def _at(history: History, member: int, round_: int) -> Observation:
        return history[history.index_of((member, round_))]


@dataclass(frozen=True)
class SiftingPBT(LeaningPBT):
    """PBT that sifts more first configurations than it has members, and whose draws may lean to the parent.

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
        lean: Whether draws lean to the parent, not to the middle of ranges or to a start. Default True.
    """

    selection = Sifting()
    earlier: ClassVar[Mapping[str, Any]] = {}

    model: bool = False
    _: KW_ONLY
    lean: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        FLAG.check("lean", self.lean)

    def explore(self, space: Space, history: History, pending: Any, parent: Any, rng: np.random.Generator) -> Any:
        """Resample around the parent's values, if draws lean to it, and perturb the others."""
        explorer = LeaningPBT if self.lean else PatientPBT
        return explorer.explore(self, space, history, pending, parent, rng)

    def make_prior(self, space: Space, start: Any) -> Prior:
        """Return the prior of the first configurations."""
        return LeaningPBT.make_prior(self, space, start)
