"""Patient PBT, the default: PBT that lets members train alone at first, and then searches broadly.

It differs from PBT (Jaderberg et al. 2017) in four points, each chosen by its effect on real training (docs/default.md
has the figures):

1. No member is replaced in the first quarter of the rounds (`selection.Patient`).
2. Resampled values and the first configurations are concentrated at the middle of their ranges: people choose ranges
   around values they trust, and with ten ranges a uniform draw nearly always has some value near an end.
3. Values are resampled more often. With few members and rounds, a broad search finds more than small steps.
4. After a collapse of all members, the best checkpoint of the whole run is the parent.
"""

from dataclasses import dataclass

import numpy as np

from popbandits.explorers.pbt import Perturbation
from popbandits.rules import PROBABILITY, real
from popbandits.selection import Patient
from popbandits.space import Space
from popbandits.typing import FloatArray


@dataclass(frozen=True)
class PatientPBT(Perturbation):
    """Resample most numbers and labels, near the middle of their ranges, and move the other numbers a little.

    >>> from popbandits import Population
    >>> Population({"lr": (1e-5, 1e-1)}, PatientPBT()).selection
    Patient(quantile=0.25, warm_up=0.25, collapse=1.0)

    Args:
        resample: Set the probability of resampling a number. Default 0.6. Lower it in long runs with many members,
            where small steps pay off.
        resample_label: Set the probability of resampling a label. Default 0.8. Lower it if changing a label disturbs
            training.
        step: Set the standard deviation of the other numbers' moves, as a share of their ranges. Default 0.1. Lower it
            if good values lie in a narrow band.
        concentration: Set how strongly draws concentrate at the middle of a range: from Beta(c, c), where 1 is uniform.
            Default 4.0. Lower it if your ranges are not centred on values you trust.
    """

    selection = Patient()

    resample: float = 0.6
    resample_label: float = 0.8
    step: float = 0.1
    concentration: float = 4.0

    def __post_init__(self) -> None:
        PROBABILITY.check("resample", self.resample)
        PROBABILITY.check("resample_label", self.resample_label)
        real("between 1 and 100", lambda c: 1 <= c <= 100, "1 is uniform").check("concentration", self.concentration)
        share = real("a share of a range between 0 and 1", lambda step: 0 <= step <= 1, "0.1 is usual")
        share.check("step", self.step)

    def perturb(self, space: Space, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Move numbers by a normal step, reflected at the ends of their ranges."""
        moved = np.abs(x + self.step * rng.standard_normal(x.shape))
        return space.snap(np.clip(np.where(moved > 1, 2 - moved, moved), 0.0, 1.0))
