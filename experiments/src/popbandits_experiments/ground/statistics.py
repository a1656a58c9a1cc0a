"""Statistics of few runs on several tasks: Agarwal et al. (2021), "Deep RL at the edge of the statistical precipice".

| symbol | meaning | shape |
|---|---|---|
| n | runs of all tasks together | |
| x | their scores, task after task | (n,) |
| w | weight of each run in each resample; a row sums to 1, every task has the same share | (1 + B, n) |

A bootstrap resample is a row of weights: within each task, how often each seed was drawn. So every statistic is
written once, as a function of scores and weights. Row 0 is the sample itself. Tasks may have different numbers of
seeds, and have equal weight.

Not rliable (1.2.0): with the pandas that this project is tested with (3.1.1) it cannot be imported, since it needs
arch < 8, whose 7.2.0 calls a decorator of pandas that has changed. Apart from that, its probability of improvement
compares all pairs of runs, not runs of the same seed; it needs the same number of seeds for all tasks; and it resamples
by NumPy's global generator, whatever its `random_state`. With pandas 2 its interquartile means, intervals and
profiles equal those of this file.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

RESAMPLES = 5_000
LEVEL = 0.05
"""One minus the coverage of intervals."""

ByTask = Sequence[FloatArray]
"""One array of scores for each task."""
Verdict = Literal["ahead", "behind", "undecided"]


@dataclass(frozen=True)
class Estimate:
    """A statistic with its bootstrap interval, which is NaN where no task has a second run to resample."""

    value: float
    low: float
    high: float
    count: int
    """Number of runs or pairs of runs."""


@dataclass(frozen=True)
class Improvement(Estimate):
    """Probability that a method scores higher than a baseline with the same seed."""

    p: float
    """Two-sided p of the sign test over all pairs except ties."""

    @property
    def verdict(self) -> Verdict:
        """Side that is ahead, if the interval excludes a half and the sign test agrees.

        The bootstrap alone is too confident with few pairs: three wins and a tie would be enough.
        """
        if self.p < LEVEL and self.low > 0.5:
            return "ahead"
        return "behind" if self.p < LEVEL and self.high < 0.5 else "undecided"


@lru_cache(64)
def _draw_counts(runs: int, task: int) -> FloatArray:
    """Draw how often each of a task's runs is in each resample: (RESAMPLES, runs)."""
    rng = np.random.default_rng([runs, task])
    return rng.multinomial(runs, np.full(runs, 1 / runs), size=RESAMPLES).astype(np.float64)


@lru_cache(4)
def resample(sizes: tuple[int, ...]) -> FloatArray:
    """Draw w for tasks of these sizes; equal sizes give equal draws, so runs of the same seeds stay paired."""
    parts = [
        np.vstack([np.ones(size), _draw_counts(size, task)]) / (size * len(sizes)) for task, size in enumerate(sizes)
    ]
    w = np.hstack(parts)
    w.flags.writeable = False  # The cached array is shared.
    return w


def iqm(x: FloatArray, w: FloatArray) -> FloatArray:
    """Return the interquartile mean of x for each row of weights: the mean of the middle half of the weight.

    A run on a quartile counts by the part of its weight that lies inside. Where a quarter of equally weighted runs is
    a whole number this is `scipy.stats.trim_mean(x, 0.25)`.

    >>> x = np.array([0.0, 1.0, 2.0, 90.0])
    >>> float(iqm(x, np.full((1, 4), 0.25))[0])
    1.5
    """
    order = np.argsort(x)
    upper = np.cumsum(w[:, order], axis=1)
    inside = np.diff(np.clip(upper, 0.25, 0.75), axis=1, prepend=0.25)
    means: FloatArray = inside @ x[order] / inside.sum(axis=1)
    return means


def mean(x: FloatArray, w: FloatArray) -> FloatArray:
    """Return the weighted mean of x for each row of weights; for booleans, the share that is true."""
    means: FloatArray = w @ x
    return means


def draw(statistic: Callable[[FloatArray, FloatArray], FloatArray], scores: ByTask) -> FloatArray:
    """Return a statistic of the sample, then of its resamples: (1 + RESAMPLES,)."""
    return statistic(np.concatenate(scores), resample(tuple(map(len, scores))))


def summarise(draws: FloatArray, scores: ByTask) -> Estimate:
    """Return the statistic with its percentile interval."""
    low, high = np.quantile(draws[1:], (LEVEL / 2, 1 - LEVEL / 2))
    if all(len(task) < 2 for task in scores):
        low = high = np.nan
    return Estimate(float(draws[0]), float(low), float(high), sum(map(len, scores)))


def estimate(statistic: Callable[[FloatArray, FloatArray], FloatArray], scores: ByTask) -> Estimate:
    """Return a statistic of scores by task, with its stratified bootstrap interval."""
    return summarise(draw(statistic, scores), scores)


def won(ours: FloatArray, theirs: FloatArray) -> FloatArray:
    """Score pairs: 1 where ours is higher, 0 where theirs is, a half for ties."""
    return np.where(ours == theirs, 0.5, ours > theirs)


def improvement(pairs: Sequence[tuple[FloatArray, FloatArray]]) -> Improvement:
    """Estimate the probability that a method beats a baseline, from (method's, baseline's) scores by task.

    Scores are paired by seed; ties count half. The result is the mean over tasks, with the interval of resampled pairs.
    """
    outcomes = [won(ours, theirs) for ours, theirs in pairs]
    found, every = estimate(mean, outcomes), np.concatenate(outcomes)
    wins, losses = int((every == 1).sum()), int((every == 0).sum())
    low, high = found.low, found.high
    # If all pairs went one way, all resamples are equal; use the exact bound of Clopper and Pearson.
    if wins == len(every):
        low, high = (LEVEL / 2) ** (1 / wins), 1.0
    elif losses == len(every):
        low, high = 0.0, 1 - (LEVEL / 2) ** (1 / losses)
    p = float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
    return Improvement(found.value, low, high, found.count, p)


def profile(scores: ByTask, thresholds: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the share of runs with a score above each threshold, and the lower and upper end of its interval."""
    w = resample(tuple(map(len, scores)))
    shares = w @ (np.concatenate(scores)[:, None] > thresholds).astype(np.float64)
    low, high = np.quantile(shares[1:], (LEVEL / 2, 1 - LEVEL / 2), axis=0)
    return shares[0], low, high
