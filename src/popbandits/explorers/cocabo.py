"""CoCaBO (Ru et al. 2020): Bayesian optimisation of mixed inputs without a population; every trial starts afresh."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from popbandits.docstrings import complete_args
from popbandits.explorers.arms import Arms
from popbandits.explorers.surrogate import ModelExplorer
from popbandits.history import History, Observation
from popbandits.space import Space
from popbandits.typing import IntArray


@complete_args(ModelExplorer)
@dataclass(frozen=True)
class CoCaBO(ModelExplorer):
    """Choose labels by EXP3, numbers by the mixed kernel without time. Every interval is a new trial; no copies."""

    exploits = False
    restarts = True
    ages: ClassVar[bool] = False

    def choose_labels(
        self, space: Space, history: History, parents: Sequence[Observation | None], rng: np.random.Generator
    ) -> tuple[IntArray, Mapping[str, Any]]:
        """Draw a batch of labels by bandits that never forget."""
        options = {"exploration": "paper", "sharing": 0.0, "fenced": self.edition > 1}
        arms = Arms.after(space, history, self.window, **options)
        return arms.draw(len(parents), rng), arms.record()
