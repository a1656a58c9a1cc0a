"""PBT near what you have, the default with a start: population based training whose new values are drawn around it.

It differs from PBT (Jaderberg et al. 2017) in three points (docs/default.md says what each brings on real training, and
what was tried and left out):

1. Its prior, from which resampled values and the other first configurations come, leans to the start.
2. Values are resampled more often, and the other numbers move by a normal step instead of a factor.
3. In a population of four or more, one member stays on the start: the control.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from popbandits.basics.rules import PROBABILITY, real
from popbandits.basics.typing import FloatArray
from popbandits.explorers.pbt import Perturbation
from popbandits.history import Config
from popbandits.space import Prior, Space
from popbandits.space.prior import UNIFORM


@dataclass(frozen=True)
class NearPBT(Perturbation):
    """Resample most numbers and labels, near the start; move the other numbers a little.

    Args:
        resample: Probability of resampling a number. Default 0.6. Lower it in long runs with many members, where small
            steps pay off.
        resample_label: Probability of resampling a label. Default 0.8. Lower it if changing a label disturbs training.
        step: Standard deviation of the other numbers' moves, as a share of their ranges. Default 0.1. Lower it if good
            values lie in a narrow band.
        concentration: Concentration of draws around the start. Default 2.0: those of numbers have the width of
            Beta(2, 2), and half of the labels are the start's. 1 is uniform, as it is without a start. Raise it if you
            trust your start, to 4 for instance.
    """

    keeps_start = True

    resample: float = 0.6
    resample_label: float = 0.8
    step: float = 0.1
    concentration: float = 2.0

    def __post_init__(self) -> None:
        for name in ("resample", "resample_label"):
            PROBABILITY.check(name, getattr(self, name))
        real("between 1 and 100", lambda c: 1 <= c <= 100, "1 is uniform").check("concentration", self.concentration)
        share = real("a share of a range between 0 and 1", lambda step: 0 <= step <= 1, "0.1 is usual")
        share.check("step", self.step)

    def make_prior(self, space: Space, start: Sequence[Config]) -> Prior:
        """Lean to the start, if there is one."""
        return Prior(self.concentration, space.encode(start)) if start else UNIFORM

    def perturb(self, space: Space, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Move numbers by a normal step, reflected at the ends of their ranges."""
        moved = np.abs(x + self.step * rng.standard_normal(x.shape))
        return space.snap(np.clip(np.where(moved > 1, 2 - moved, moved), 0.0, 1.0))
