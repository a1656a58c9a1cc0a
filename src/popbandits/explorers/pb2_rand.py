"""PB2-Rand: the PB2 of Parker-Holder et al. 2020, with labels chosen at random as in PBT."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from popbandits.docstrings import complete_args
from popbandits.explorers.pbt import PBT, drop_labels
from popbandits.explorers.surrogate import ModelExplorer
from popbandits.history import History, Observation
from popbandits.rules import PROBABILITY
from popbandits.space import Space
from popbandits.space.drawing import draw_points, quantiles
from popbandits.typing import IntArray


@complete_args(ModelExplorer, PBT)
@dataclass(frozen=True)
class PB2Rand(ModelExplorer):
    """Keep or resample labels, as in PBT; choose numbers by one GP that does not see labels."""

    resample_label: float = PBT.resample_label
    sees_labels: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        PROBABILITY.check("resample_label", self.resample_label)

    def choose_labels(
        self, space: Space, history: History, parents: Sequence[Observation | None], rng: np.random.Generator
    ) -> tuple[IntArray, Mapping[str, Any]]:
        """Return the parents' labels, each resampled with probability `resample_label`."""
        labels = draw_points(space, len(parents), rng).h
        # A kept label may activate a variable that is inactive in the draw, so every variable needs a label.
        spare = rng.random((len(parents), len(space.numerical) + len(space.categorical)))
        labels = np.where(labels < 0, space.from_quantiles_full(quantiles(space, spare)).h, labels)
        for row, parent in enumerate(parents):
            if parent is not None:
                kept = drop_labels(space.encode([parent.config]), self.resample_label, rng)[0]
                labels[row] = np.where(kept < 0, labels[row], kept)
        return labels, {}
