r"""Noise-aware truncation: rank by the level of a lineage, not by its last score.

A score is the skill of a checkpoint plus the luck of its evaluation. Members are chosen because their score is high, so
the chosen are lucky, and the next score of the same weights is lower. Along a lineage, the line of checkpoints from
which a member descends, skill moves little from one interval to the next while luck is drawn anew. So earlier scores
say something about the present skill: a local level model, whose posterior mean is Kalman's filter.

| symbol | meaning |
|---|---|
| y_t | score after the t-th interval of a lineage, turned so that more is better |
| theta_t | skill then: the mean score of these weights, over all evaluations |
| d | gain of a usual interval (drift) |
| q | variance of an interval's gain around d, whatever the configuration |
| r_t | variance of the score's noise |
| m_t, p_t | posterior mean and variance of theta_t |

    theta_t = theta_{t-1} + d + w_t,  w_t ~ N(0, q)         y_t = theta_t + e_t,  e_t ~ N(0, r_t)

    m_1 = y_1, p_1 = r_1                                                              (1) nothing is known before
    m' = m_{t-1} + d,  p' = p_{t-1} + q,  k = p' / (p' + r_t)                         (2) predict
    m_t = m' + k (y_t - m'),  p_t = (1 - k) p'                                        (3) correct

Members are ranked by m_t. Without noise (r = 0) k is 1 and m_t = y_t: plain truncation, to the last bit. A score
further than JUMP standard deviations from its prediction is no luck but a leap or a collapse, which a normal w_t does
not know: then m_t = y_t, p_t = r_t. m_t is increasing in y_t either way.

r_t is the square of the score's standard error where it was told. Otherwise it is estimated from gains g_t = y_t -
y_{t-1} of recent intervals, dead branches included. What luck gives to one gain it takes from the next:

    cov(g_t, g_{t-1}) = -r,        var(g_t) = q + 2 r                                  (4)

    r = max(0, (s(g_t - g_{t-1})^2 - s(g_t + g_{t-1})^2) / 4),    q = max(0, s(g_t)^2 - 2 r)        (5)

with the covariance as Gnanadesikan and Kettenring (1972) make a robust one, s being the scale by the median absolute
deviation: a few collapses do not count as noise. d is the median gain. Where learning slows down, or a configuration
goes on being good, gains are alike from one interval to the next, and (5) finds too little noise rather than too much:
the error is on the side of plain truncation. While there are fewer than ENOUGH pairs of gains, noise that was not told
is taken for 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from popbandits.errors import ArgumentError
from popbandits.history import History, Observation
from popbandits.selection.lineage import last_intervals
from popbandits.selection.selection import Picks, Selection, check_quantile
from popbandits.selection.truncation import truncate
from popbandits.typing import FloatArray, IntArray, is_real, is_whole

JUMP = 3.0
"""How many standard deviations a score may be from its prediction before it counts as a leap or a collapse."""

ENOUGH = 8
"""How many gains, or pairs of gains, an estimate takes."""

LOOKED_AT = 2048
"""How many observations a decision looks at, about: a large population looks back over fewer intervals."""


@dataclass(frozen=True)
class Smoothed(Selection):
    """Truncation by scores that are smoothed along each lineage, as far as they are noise.

    >>> from popbandits import Population
    >>> Population({"lr": (0.0, 1.0)}, selection=Smoothed(quantile=0.5)).quantile
    0.5
    """

    quantile: float = 0.25
    noise: float | None = None
    """Standard deviation of a score's noise, for scores told without a standard error; None to estimate it."""
    window: int = 16
    """How many intervals of a lineage count, and from how many rounds the noise is estimated."""

    def __post_init__(self) -> None:
        check_quantile(self.quantile)
        if self.noise is not None and not (is_real(self.noise) and 0 <= self.noise < math.inf):
            raise ArgumentError(f"noise must be at least 0, or None to estimate it, got {self.noise!r}; leave it out")
        if not is_whole(self.window, 1):
            raise ArgumentError(f"window must be a whole number of at least 1, got {self.window!r}; 16 is usual")

    def select(self, history: History, members: IntArray, rng: np.random.Generator) -> Picks:
        """Pick by the levels of the lineages."""
        size = len(history.standing().latest)
        window = min(self.window, max(3, LOOKED_AT // size))
        level = local_level(history, history[-window * size :], self.noise)

        def judge(places: IntArray) -> FloatArray:
            scores = history.scores(places)
            if level is None:
                return scores
            known = np.flatnonzero(~np.isnan(scores))
            for row in known.tolist():
                scores[row] = level.at(last_intervals(history, int(places[row]), window))
            return scores

        return truncate(history, members, self.quantile, rng, judge)


@dataclass(frozen=True)
class LocalLevel:
    """The local level model of a run."""

    sign: float
    """+1 where more is better, -1 where less is."""
    drift: float
    step: float
    """q."""
    noise: float
    """r, where no standard error was told."""

    def noise_of(self, observation: Observation) -> float:
        """r_t."""
        error = observation.standard_error
        return self.noise if error is None else error**2

    def at(self, line: Sequence[Observation]) -> float:
        """m_t at the end of a line of completed observations."""
        mean = variance = math.nan
        for t, observation in enumerate(line):
            score, noise = self.sign * observation.score, self.noise_of(observation)
            guess, spread = mean + self.drift, variance + self.step  # (2)
            total = spread + noise
            if t == 0 or noise == 0 or abs(score - guess) > JUMP * math.sqrt(total):
                mean, variance = score, noise  # (1), or a leap
            else:
                gain = spread / total
                mean, variance = guess + gain * (score - guess), (1 - gain) * spread  # (3)
        return mean


def local_level(history: History, recent: Sequence[Observation], noise: float | None) -> LocalLevel | None:
    """Estimate the model from recent observations; None while there are too few, and where nothing varies."""
    gains = {o.key: history.sign * o.change for o in recent if o.parent is not None and math.isfinite(o.change)}
    if len(gains) < ENOUGH:
        return None
    pairs = np.array([(gains[o.key], gains[o.parent]) for o in recent if o.key in gains and o.parent in gains])
    guess = 0.0
    if noise is not None:
        guess = noise**2
    elif len(pairs) >= ENOUGH:
        after, before = pairs.T
        guess = max(0.0, (_scale(after - before) ** 2 - _scale(after + before) ** 2) / 4)  # (5)
    values = np.array(list(gains.values()))
    model = LocalLevel(history.sign, float(np.median(values)), 0.0, guess)
    noises = [model.noise_of(o) for o in recent if o.key in gains]
    step = max(0.0, _scale(values) ** 2 - 2 * float(np.median(noises)))  # (5)
    if not math.isfinite(step + guess) or not any(noises):  # Scores of 1e200 have no variance; exact ones no noise.
        return None
    return LocalLevel(history.sign, model.drift, step, guess)


def _scale(values: FloatArray) -> float:
    """The standard deviation by the median absolute deviation, right for a normal distribution."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))
