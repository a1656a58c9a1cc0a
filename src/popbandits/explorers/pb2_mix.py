"""PB2-Mix (paper, Algorithm "PB2-Mix: explore"): TV.EXP3.M picks the labels, one mixed-kernel GP the numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from popbandits.docstrings import complete_args
from popbandits.explorers.arms import Arms
from popbandits.explorers.surrogate import ModelExplorer
from popbandits.history import History, Observation
from popbandits.space import Space
from popbandits.typing import IntArray


@complete_args(ModelExplorer)
@dataclass(frozen=True)
class PB2Mix(ModelExplorer):
    """Choose labels by TV.EXP3.M; numbers by the upper confidence bound at the member's new labels, under one GP."""

    def choose_labels(
        self, space: Space, history: History, parents: Sequence[Observation | None], rng: np.random.Generator
    ) -> tuple[IntArray, Mapping[str, Any]]:
        """Draw a batch of labels by the bandits."""
        arms = Arms.after(space, history, self.window, fenced=self.edition > 1)
        return arms.draw(len(parents), rng), arms.record()
