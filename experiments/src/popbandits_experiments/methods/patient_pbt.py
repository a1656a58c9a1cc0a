"""Patient PBT, the former default: members train alone at first, values cross over, and a model chooses if it can.

It is `popbandits.NearPBT` without the control, with a stronger prior, which leans to the middle of ranges where there
is no start, and with four parts that did not beat their removal (docs/default.md has the figures). Runs on record go on
with it:

1. No member is replaced in the first quarter of the rounds (`Patient`).
2. Some values come from another member instead of the parent, one that is not about to be replaced.
3. After a collapse of all members, the best checkpoint of the whole run is the parent (`Patient`).
4. If scores accumulate, which they show within a few rounds, PB2-Fuse's model chooses instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from popbandits import NearPBT, PB2Fuse
from popbandits.basics.rules import EDITION, FLAG, PROBABILITY
from popbandits.basics.typing import IntArray
from popbandits.explorers import Proposal
from popbandits.history import Config, History, Observation
from popbandits.history.memory import NO_INDEX
from popbandits.selection.truncation import rank
from popbandits.space import Points, Prior, Space
from popbandits.space.prior import UNIFORM
from popbandits_experiments.methods.accumulation import accumulation
from popbandits_experiments.methods.patient import Patient

TRUSTED = (0.05, 0.25)
"""Evidence of accumulation (`accumulation`) up to which the model never chooses, and from which on it always does."""


@dataclass(frozen=True)
class PatientPBT(NearPBT):
    """Near PBT with crossover, a model for scores that accumulate, and patient truncation.

    >>> from popbandits import Population, log
    >>> Population({"lr": log(1e-5, 1e-1)}, PatientPBT()).selection
    Patient(quantile=0.25, warm_up=0.25, collapse=1.5, adaptive=True, edition=2)

    Args:
        resample: As `NearPBT`'s.
        resample_label: As `NearPBT`'s.
        step: As `NearPBT`'s.
        concentration: Concentration of draws at the middle of a range: from Beta(c, c), where 1 is uniform. Default
            4.0.
        around_start: Whether draws concentrate around the start instead, if there is one. Default True.
        crossover: Probability that a value comes from another member, not the parent and none of the worst quarter.
            Default 0.3. Lower it if good values depend on one another.
        model: Whether the model of `PB2Fuse` chooses if scores accumulate, as a running total does. Default True. Use
            False for a method without a model.
        edition: Edition of the rules. Default 2. Edition 1 is for runs of earlier versions: crossover takes values of
            the worst members too, and the model is that of `PB2Fuse(edition=1)`.
    """

    keeps_start = False
    selection = Patient()
    earlier: ClassVar[Mapping[str, Any]] = {"crossover": 0.0, "model": False, "around_start": False, "edition": 1}

    concentration: float = 4.0
    around_start: bool = True
    crossover: float = 0.3
    model: bool = True
    _: KW_ONLY
    edition: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        PROBABILITY.check("crossover", self.crossover)
        for name in ("model", "around_start"):
            FLAG.check(name, getattr(self, name))
        EDITION.check("edition", self.edition)

    def make_prior(self, space: Space, start: Sequence[Config]) -> Prior:
        """Lean to the start, if there is one and `around_start`, or else to the middle of ranges."""
        return Prior(self.concentration, space.encode(start) if start and self.around_start else None)

    def explore_round(
        self,
        space: Space,
        history: History,
        pending: Sequence[Config],
        parents: Sequence[Observation | None],
        rng: np.random.Generator,
    ) -> list[Proposal]:
        """Let the model choose with the probability that the evidence gives it; else resample and perturb."""
        if self.model:
            low, high = TRUSTED
            trust = (accumulation(history) - low) / (high - low)
            if trust > 0 and rng.random() < trust:
                fuse, uniform = PB2Fuse(edition=self.edition), space.with_prior(UNIFORM)  # It has no prior of its own.
                return fuse.explore_round(uniform, history, pending, parents, rng)
        return [Proposal(self.explore(space, history, pending, parent, rng)) for parent in parents]

    def inherit(self, space: Space, history: History, parent: Observation, rng: np.random.Generator) -> Points:
        """Return the parent's point, with some values of another member."""
        own = space.encode([parent.config])
        if not self.crossover or history.size is None:
            return own
        others = self._donors(history, rng)
        others = others[others != history.index_of(parent.key)]
        if not len(others):
            return own
        other = space.encode([history[int(rng.choice(others))].config])
        x = np.where((rng.random(own.x.shape) < self.crossover) & ~np.isnan(other.x), other.x, own.x)
        return Points(x, np.where((rng.random(own.h.shape) < self.crossover) & (other.h >= 0), other.h, own.h))

    def _donors(self, history: History, rng: np.random.Generator) -> IntArray:
        """Return the last intervals of the members that may pass on values: not of those that truncation replaces."""
        states = history.member_states()
        if self.edition == 1:
            last, may = states.completed, states.completed != NO_INDEX
        else:
            weak = rank(history, Patient.quantile, rng, history.scores).weak
            last, may = states.latest, ~weak & (states.latest != NO_INDEX)
        donors: IntArray = last[may]
        return donors
