"""What is believed about good values before anything is tried."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from popbandits.basics.typing import FloatArray
from popbandits.space.parameters import Categorical, Numerical
from popbandits.space.points import Points


@dataclass(frozen=True, eq=False)
class Prior:
    """Where in a space good values are expected: draws come from it.

    A parameter with a distribution of its own (ConfigSpace's Normal and Beta, weighted labels) keeps that whatever the
    prior. The others are uniform on their scales, or lean to the middle of their ranges, or to known points.

    Args:
        concentration: Weight of the belief. Numbers come from Beta(c, c); with the default, 1, they are uniform, and
            nothing leans anywhere.
        around: Points to lean to instead of the middle. Numbers come from the beta distribution of the same weight
            whose mode is the point's value, and one half of the labels are the point's. Default None.
    """

    concentration: float = 1.0
    around: Points | None = None

    @property
    def uniform(self) -> bool:
        """True if every parameter follows its own distribution."""
        return self.concentration == 1

    def centres_in_turn(self, n: int) -> Points | None:
        """Return a known point for each of n draws, in turn; None if there are none."""
        return None if self.around is None else self.around[np.arange(n) % len(self.around)]

    def lean(
        self, u: FloatArray, centres: Points | None, numerical: Sequence[Numerical], categorical: Sequence[Categorical]
    ) -> FloatArray:
        """Convert uniform quantiles u (n, d + m), numbers first, to quantiles of the prior.

        Args:
            u: Uniform quantiles.
            centres: Known point of each row; None for the middle.
            numerical: The d numbers.
            categorical: The m choices.
        """
        if self.uniform:
            return u
        d, weight = len(numerical), 2 * (self.concentration - 1)
        mode = 0.5 if centres is None else np.where(np.isnan(centres.x), 0.5, centres.x)
        own = np.array([number.prior is not None for number in numerical], dtype=np.bool_)
        made = u.copy()
        made[:, :d] = np.where(own, u[:, :d], betaincinv(1 + weight * mode, 1 + weight * (1 - mode), u[:, :d]))
        if centres is not None:
            for j, choice in enumerate(categorical):
                if not choice.weighted:
                    made[:, d + j] = choice.prefer(centres.h[:, j], u[:, d + j])
        return made


UNIFORM = Prior()
"""The prior that adds nothing to the distributions of the parameters."""
