"""PBT near what you have, the default: population based training whose new values are drawn around a start.

It differs from PBT (Jaderberg et al. 2017) in two points (docs/default.md says what each brings on real training, and
what was tried and left out):

1. Its prior, from which resampled values and the first configurations come, leans to a start, or to the middle of
   ranges: people choose ranges around values they trust, and with ten ranges a uniform draw nearly always has some
   value near an end.
2. Values are resampled more often, and the other numbers move by a normal step instead of a factor.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from popbandits.basics.rules import FLAG, PROBABILITY, real
from popbandits.basics.typing import FloatArray
from popbandits.explorers.pbt import Perturbation
from popbandits.history import Config
from popbandits.space import Prior, Space


@dataclass(frozen=True)
class NearPBT(Perturbation):
    """Resample most numbers and labels, near the start or the middle of their ranges; move the other numbers a little.

    Args:
        resample: Probability of resampling a number. Default 0.6. Lower it in long runs with many members, where small
            steps pay off.
        resample_label: Probability of resampling a label. Default 0.8. Lower it if changing a label disturbs training.
        step: Standard deviation of the other numbers' moves, as a share of their ranges. Default 0.1. Lower it if good
            values lie in a narrow band.
        concentration: Concentration of draws at the middle of a range: from Beta(c, c), where 1 is uniform. Default
            4.0. Lower it if your ranges are not centred on values you trust.
        around_start: Whether draws concentrate around the configurations given as `start`, not the middles of ranges,
            and half of the resampled labels are theirs. Default True. Use False if they are only a first guess.
    """

    resample: float = 0.6
    resample_label: float = 0.8
    step: float = 0.1
    concentration: float = 4.0
    around_start: bool = True

    def __post_init__(self) -> None:
        for name in ("resample", "resample_label"):
            PROBABILITY.check(name, getattr(self, name))
        real("between 1 and 100", lambda c: 1 <= c <= 100, "1 is uniform").check("concentration", self.concentration)
        share = real("a share of a range between 0 and 1", lambda step: 0 <= step <= 1, "0.1 is usual")
        share.check("step", self.step)
        FLAG.check("around_start", self.around_start)

    def make_prior(self, space: Space, start: Sequence[Config]) -> Prior:
        """Lean to the start, if there is one and `around_start`, or else to the middle of ranges."""
        return Prior(self.concentration, space.encode(start) if start and self.around_start else None)

    def perturb(self, space: Space, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Move numbers by a normal step, reflected at the ends of their ranges."""
        moved = np.abs(x + self.step * rng.standard_normal(x.shape))
        return space.snap(np.clip(np.where(moved > 1, 2 - moved, moved), 0.0, 1.0))
