"""Population based training (Jaderberg et al. 2017): perturb the parent's values or resample them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from popbandits.basics.rules import PROBABILITY, is_real
from popbandits.basics.typing import FloatArray, IntArray
from popbandits.errors import ArgumentError
from popbandits.explorers.explorer import Configs, Explorer
from popbandits.history import Config, History, Observation
from popbandits.space import Points, Space
from popbandits.space.drawing import complete_point, draw_config


def drop_labels(parent: Points, resample: float, rng: np.random.Generator) -> IntArray:
    """Return (1, m) the parent's labels, each set to -1, to be drawn, with probability `resample`."""
    return np.where(rng.random(parent.h.shape) < resample, -1, parent.h)


class Perturbation(Explorer):
    """Changes the parent's values a little by `perturb`, or resamples them; a subclass sets how often."""

    resample: float
    """Probability of resampling a number."""
    resample_label: float
    """Probability of resampling a label."""

    def perturb(self, space: Space, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Change (1, d) numbers a little."""
        raise NotImplementedError(f"{type(self).__name__} must define perturb")

    def inherit(self, space: Space, history: History, parent: Observation, rng: np.random.Generator) -> Points:
        """Return the point to change: the parent's."""
        return space.encode([parent.config])

    def explore(
        self, space: Space, history: History, pending: Configs, parent: Observation | None, rng: np.random.Generator
    ) -> Config:
        """Perturb the parent's configuration; in a space without a prior, with the prior of the method."""
        space = space if space.prior is not None else space.with_prior(self.make_prior(space, ()))
        if parent is None:
            return draw_config(space, rng)
        old = self.inherit(space, history, parent, rng)
        x = np.where(rng.random(old.x.shape) < self.resample, np.nan, self.perturb(space, old.x, rng))
        open_ = Points(x, drop_labels(old, self.resample_label, rng))
        point = complete_point(space, open_, rng)
        return draw_config(space, rng) if point is None else space.decode(point)[0]


@dataclass(frozen=True)
class PBT(Perturbation):
    """Multiply numbers by 0.8 or 1.2, within bounds, or resample them; keep or resample labels.

    An integer that rounding would leave unchanged moves by one; ordinals move by one level.

    Args:
        factors: Factors that numbers are multiplied by, one below and one above 1. Default (0.8, 1.2). Spread them to
            move faster through wide ranges.
        resample: Probability of resampling a number. Default 0.25. Raise it to search more broadly.
        resample_label: Probability of resampling a label. Default 0.5. Lower it if changing a label disturbs training.
    """

    factors: tuple[float, float] = (0.8, 1.2)
    resample: float = 0.25
    resample_label: float = 0.5

    def __post_init__(self) -> None:
        factors: Any = self.factors
        pair = isinstance(factors, tuple | list) and len(factors) == 2 and all(map(is_real, factors))
        if not (pair and 0 < factors[0] < 1 < factors[1] < np.inf):
            raise ArgumentError(f"factors must be one below and one above 1, got {factors!r}; (0.8, 1.2) is usual")
        PROBABILITY.check("resample", self.resample)
        PROBABILITY.check("resample_label", self.resample_label)

    def perturb(self, space: Space, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Multiply values; an integer that rounding would leave unchanged, and any ordinal, moves by one level."""
        up = rng.random(x.shape) < 0.5
        old = space.codes(x)
        new = old * np.where(up, self.factors[1], self.factors[0])
        ordinal = np.array([number.kind == "ordinal" for number in space.numerical], dtype=np.bool_)
        level = np.array([number.levels is not None for number in space.numerical], dtype=np.bool_)
        return space.unit(np.where(ordinal | (level & (np.rint(new) == old)), old + np.where(up, 1, -1), new))
