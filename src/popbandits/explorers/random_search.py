"""Random search: the baseline that learns nothing."""

from dataclasses import dataclass

import numpy as np

from popbandits.explorers.explorer import Configs, Explorer
from popbandits.history import Config, History, Observation
from popbandits.space import Space
from popbandits.space.drawing import draw_config


@dataclass(frozen=True)
class RandomSearch(Explorer):
    """Keep every member's first configuration, and copy nothing.

    With `explore="all"` each member draws a new configuration every round.
    """

    exploits = False

    def explore(
        self, space: Space, history: History, pending: Configs, parent: Observation | None, rng: np.random.Generator
    ) -> Config:
        """Draw a configuration."""
        return draw_config(space, rng)
