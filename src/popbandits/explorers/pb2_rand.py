"""PB2-Rand: the PB2 of Parker-Holder et al. 2020, with labels chosen at random as in PBT."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from popbandits.basics.rules import PROBABILITY
from popbandits.basics.typing import IntArray
from popbandits.explorers.explorer import Parents
from popbandits.explorers.pbt import drop_labels
from popbandits.explorers.surrogate import ModelExplorer
from popbandits.history import History
from popbandits.space import Space
from popbandits.space.drawing import draw_points, quantiles


@dataclass(frozen=True)
class PB2Rand(ModelExplorer):
    """Keep or resample labels, as in PBT; choose numbers by one GP that does not see labels.

    Args:
        c1: Scale of the weight of uncertainty in the upper confidence bound, sqrt(c1 log(c2 n)) after n observations;
            at least 0. Default 0.2. Raise it to explore more, lower it to stay with what worked.
        c2: Scale of the number of observations in that weight; above 0. Default 0.4. Raise it to explore earlier in a
            run.
        window: Maximum number of observations that a decision uses: the model uses the recent half and older ones with
            new configurations, bandits the last. Default 300, which keeps a decision under half a second. None uses
            all.
        per_dimension: Whether each number has its own length-scale instead of one for all. Default False. Use True if
            few of many numbers matter, and there are enough observations.
        score_before: Whether the model sees the score before the interval. Default False. Use True if gains depend on
            how good a member already is; it harms if the score is a running total.
        resample_label: Probability of resampling a label. Default 0.5. Lower it if changing a label disturbs training.
        continued_only: Whether the model leaves out intervals with a new configuration, as the published code does.
            Default False. Who is copied was lucky, so the score falls next, least where hardly anything is learnt: a
            model of all intervals prefers that. Without them it sees no collapse; on four tasks it was not better.
        edition: Edition of the rules. Default 2. Edition 1 is for runs of earlier versions: one collapse makes the
            bandit's other gains nearly equal, and a first decision takes the raw score as the score before.
    """

    resample_label: float = 0.5
    sees_labels: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        PROBABILITY.check("resample_label", self.resample_label)

    def choose_labels(
        self, space: Space, history: History, parents: Parents, rng: np.random.Generator
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
