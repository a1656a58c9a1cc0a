"""Random search: the baseline that learns nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from popbandits.explorers.explorer import Explorer, sampled
from popbandits.history import Config, History, Observation
from popbandits.space import Space


@dataclass(frozen=True)
class RandomSearch(Explorer):
    """Every member keeps the configuration it was dealt, and nobody is copied.

    With `explore="all"` each member draws a new one every round.
    """

    exploits = False

    def explore(
        self,
        space: Space,
        history: History,
        pending: Sequence[Config],
        parent: Observation | None,
        rng: np.random.Generator,
    ) -> Config:
        """A draw from the space, uniform in each parameter's own scale."""
        return sampled(space, rng)
