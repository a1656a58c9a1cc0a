"""Patient PBT, the default: PBT that lets members train alone at first, searches broadly, and trusts a model if it can.

It differs from PBT (Jaderberg et al. 2017) in six points. They were chosen in sweeps; measured later, only the second
has a large effect on real training (docs/default.md has the figures):

1. No member is replaced in the first quarter of the rounds (`selection.Patient`).
2. Its prior, from which resampled values and the first configurations come, leans to the middle of ranges, or to a
   start: people choose ranges around values they trust, and with ten ranges a uniform draw nearly always has some value
   near an end.
3. Values are resampled more often.
4. Some values come from another member instead of the parent, one that is not about to be replaced.
5. After a collapse of all members, the best checkpoint of the whole run is the parent.
6. If scores accumulate, which they show within a few rounds, PB2-Fuse's model chooses instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from popbandits.basics.rules import EDITION, FLAG, PROBABILITY, real
from popbandits.basics.typing import FloatArray, IntArray
from popbandits.explorers.explorer import Proposal
from popbandits.explorers.pb2_fuse import PB2Fuse
from popbandits.explorers.pbt import Perturbation
from popbandits.history import Config, History, Observation
from popbandits.history.memory import NO_INDEX
from popbandits.selection import Patient
from popbandits.selection.accumulation import accumulation
from popbandits.selection.truncation import rank
from popbandits.space import Points, Prior, Space
from popbandits.space.prior import UNIFORM

TRUSTED = (0.05, 0.25)
"""Evidence of accumulation (`accumulation`) up to which the model never chooses, and from which on it always does."""


@dataclass(frozen=True)
class PatientPBT(Perturbation):
    """Resample most numbers and labels, near the middle of their ranges, and move the other numbers a little.

    >>> from popbandits import Population, log
    >>> Population({"lr": log(1e-5, 1e-1)}, PatientPBT()).selection
    Patient(quantile=0.25, warm_up=0.25, collapse=1.5, adaptive=True, edition=2)

    Args:
        resample: Probability of resampling a number. Default 0.6. Lower it in long runs with many members, where small
            steps pay off.
        resample_label: Probability of resampling a label. Default 0.8. Lower it if changing a label disturbs training.
        step: Standard deviation of the other numbers' moves, as a share of their ranges. Default 0.1. Lower it if good
            values lie in a narrow band.
        concentration: Concentration of draws at the middle of a range: from Beta(c, c), where 1 is uniform. Default
            4.0. Lower it if your ranges are not centred on values you trust.
        crossover: Probability that a value comes from another member, not the parent and none of the worst quarter.
            Default 0.3. Lower it if good values depend on one another.
        model: Whether the model of `PB2Fuse` chooses if scores accumulate, as a running total does. Default True. Use
            False for a method without a model.
        around_start: Whether draws concentrate around the configurations given as `start`, not the middles of ranges,
            and half of the resampled labels are theirs. Default True. Use False if they are only a first guess.
        edition: Edition of the rules. Default 2. Edition 1 is for runs of earlier versions: crossover takes values of
            the worst members too, and the model is that of `PB2Fuse(edition=1)`.
    """

    selection = Patient()
    earlier: ClassVar[Mapping[str, Any]] = {"crossover": 0.0, "model": False, "around_start": False, "edition": 1}

    resample: float = 0.6
    resample_label: float = 0.8
    step: float = 0.1
    concentration: float = 4.0
    crossover: float = 0.3
    model: bool = True
    around_start: bool = True
    _: KW_ONLY
    edition: int = 2

    def __post_init__(self) -> None:
        for name in ("resample", "resample_label", "crossover"):
            PROBABILITY.check(name, getattr(self, name))
        real("between 1 and 100", lambda c: 1 <= c <= 100, "1 is uniform").check("concentration", self.concentration)
        share = real("a share of a range between 0 and 1", lambda step: 0 <= step <= 1, "0.1 is usual")
        share.check("step", self.step)
        FLAG.check("model", self.model)
        FLAG.check("around_start", self.around_start)
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

    def perturb(self, space: Space, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Move numbers by a normal step, reflected at the ends of their ranges."""
        moved = np.abs(x + self.step * rng.standard_normal(x.shape))
        return space.snap(np.clip(np.where(moved > 1, 2 - moved, moved), 0.0, 1.0))
