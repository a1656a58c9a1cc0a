"""Densities of good and of other configurations, for tree-structured Parzen estimators (Bergstra et al. 2011).

| symbol | meaning | shape |
|---|---|---|
| X | configurations as columns: numbers in [0, 1], then indices of labels | (n, D) |
| c | labels of each column; 0 for a number | (D,) |
| w | bandwidths, 1.06 sigma n^(-1 / (4 + D)), between 1e-3 and, for labels, (c - 1) / c | (D,) |

    p(x) = 1/n sum_i prod_j k_j(x_j, X_ij),   numbers: normal;   labels: 1 - w if equal, else w / (c - 1)

New configurations are drawn from the density of the good ones, l, with three times its bandwidths, and the one with the
largest l(x) / g(x) is taken: kernels, bandwidths and numbers as in BOHB (Falkner et al. 2018), whose reference
implementation has them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm, truncnorm

from popbandits.basics.typing import FloatArray, IntArray
from popbandits.space import Space
from popbandits.space.points import Points

CANDIDATES = 64
WIDENING = 3.0
LEAST = 1e-3


@dataclass(frozen=True)
class Density:
    """A kernel density estimate."""

    data: FloatArray
    labels: IntArray
    """(D,) number of labels of a column; 0 for a number."""

    @property
    def bandwidths(self) -> FloatArray:
        """(D,) w."""
        n, columns = self.data.shape
        most = np.where(self.labels > 0, 1 - 1 / np.maximum(self.labels, 1), np.inf)
        made: FloatArray = np.clip(1.06 * self.data.std(axis=0) * n ** (-1 / (4 + columns)), LEAST, most)
        return made

    def log(self, x: FloatArray) -> FloatArray:
        """Compute log p at (q, D) rows, (q,)."""
        w, numbers = self.bandwidths, self.labels == 0
        gaps = (x[:, None, numbers] - self.data[None, :, numbers]) / w[numbers]
        parts = (norm.logpdf(gaps) - np.log(w[numbers])).sum(-1)
        same = x[:, None, ~numbers] == self.data[None, :, ~numbers]
        wrong = w[~numbers] / np.maximum(self.labels[~numbers] - 1, 1)
        parts += np.log(np.where(same, 1 - w[~numbers], wrong)).sum(-1)
        made: FloatArray = logsumexp(parts, axis=1) - np.log(len(self.data))
        return made

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Draw rows with widened bandwidths, (count, D)."""
        rows = self.data[rng.integers(len(self.data), size=count)]
        made = rows.copy()
        for j, (w, labels) in enumerate(zip(self.bandwidths, self.labels.tolist(), strict=True)):
            if labels:
                made[:, j] = np.where(rng.random(count) < 1 - w, rows[:, j], rng.integers(labels, size=count))
            else:
                wide = WIDENING * w
                low, high = -rows[:, j] / wide, (1 - rows[:, j]) / wide
                made[:, j] = truncnorm.rvs(low, high, rows[:, j], wide, random_state=rng)
        return made


def propose(
    space: Space, good: Sequence[dict[str, Any]], bad: Sequence[dict[str, Any]], rng: np.random.Generator
) -> dict[str, Any] | None:
    """Choose the candidate with the largest l(x) / g(x), of the good and the bad; None if all are forbidden."""
    labels = np.array([0] * len(space.numerical) + [len(choice.labels) for choice in space.categorical])
    better, rest = (Density(_filled(space.encode(list(side)), labels, rng), labels) for side in (good, bad))
    drawn = better.draw(CANDIDATES, rng)
    d = len(space.numerical)
    points = space.activate(Points(drawn[:, :d], drawn[:, d:].astype(np.int64)))
    ratio = np.where(space.legal(points), better.log(drawn) - rest.log(drawn), -np.inf)
    best = int(ratio.argmax())
    return space.decode(points[[best]])[0] if np.isfinite(ratio[best]) else None


def _filled(points: Points, labels: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return the rows of points; what is inactive gets the value of another row, or any if all are."""
    rows = np.concatenate([points.x, np.where(points.h < 0, np.nan, points.h)], axis=1)
    for j, count in enumerate(labels.tolist()):
        missing = np.isnan(rows[:, j])
        known = rows[~missing, j]
        if len(known) == 0:
            known = rng.integers(count, size=len(rows)).astype(float) if count else rng.random(len(rows))
        rows[missing, j] = rng.choice(known, size=int(missing.sum()))
    return rows
