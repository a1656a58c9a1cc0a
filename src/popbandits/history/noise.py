r"""The noise of scores, estimated from the scores along lineages.

A score is the skill of a checkpoint plus the luck of its evaluation. Members are copied because their score is high, so
copied members were lucky, and their next score is lower. Along a lineage, skill changes little in an interval while
luck is independent, so earlier scores help to estimate the present skill. The model is a local linear trend whose slope
depends on the configuration, with a Kalman filter from each observation's parent to itself:

| symbol | meaning |
|---|---|
| y | score of an interval, turned so that more is better |
| theta | skill at its end: the mean score of these weights over all evaluations |
| b | gain of its configuration in an interval; drawn again when the configuration changes |
| d, v | mean and variance of b over configurations |
| q | variance of the rest of an interval's gain |
| r | variance of the score's noise: the squared standard error if reported |
| m, p, c, s | mean and variance of theta; covariance of theta and b; variance of b, whose mean is also called b |

    theta = theta_parent + b + N(0, q),    b = b_parent, or N(d, v) for a new configuration,    y = theta + N(0, r)

    m = y, p = r, b = d, c = 0, s = v                                   (1) without a known parent
    b = d, c = 0, s = v                                                 (2) a new configuration
    m += b,  p += 2 c + s + q,  c += s                                  (3) predict
    e = y - m,  t = p + r,  k = p / t
    m += k e,  b += c e / t,  s -= c^2 / t,  p *= 1 - k,  c *= 1 - k    (4) correct

Without noise (r = 0) k is 1 and m = y. A score further than JUMP sqrt(t) from its prediction is not luck but a leap or
a collapse, which a normal step does not model: then m = y, p = r, c = 0. Either way m increases with y.

The variances have the greatest likelihood over the recent intervals, dead branches included:

    log L = -1/2 sum (min(e^2 / t, JUMP^2) + log t)                     (5)

Copying depends only on scores, which are all in the product, so selection does not bias it; cutting at JUMP keeps
collapses from counting as noise. A gain y - y_parent has the variance v + q + 2 r, which is estimated by the median
absolute deviation, a robust scale. How it is shared among the three is searched on a GRID. A model with noise is used
only if its log L is higher by MIN_EVIDENCE. In the first rounds, with fewer than MIN_GAINS, noise that was not reported
counts as 0.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from popbandits.basics.arithmetic import without_rounding
from popbandits.basics.records import Key, Observation

JUMP = 3.0
"""Number of standard deviations from its prediction beyond which a score counts as a leap or a collapse."""

MIN_GAINS = 12
"""Minimum number of gains for an estimate."""

MIN_EVIDENCE = 2.0
"""Increase of the log-likelihood for which a model with noise is used."""

GRID = [(noise, slope) for noise in (0.0, 0.3, 0.6, 0.8, 0.9, 0.96, 0.99) for slope in (0.02, 0.2, 0.8)]
"""Candidate shares: of 2 r in the variance of gains, and of v in the rest."""

MAX_OBSERVATIONS = 512
"""Maximum number of observations for an estimate: a large population looks back over fewer rounds."""


@dataclass(frozen=True)
class Trend:
    """The model of a run's lineages."""

    sign: float
    """+1 to maximise, -1 to minimise."""
    d: float
    v: float
    q: float
    r: float
    """Used if no standard error was reported."""

    def noise(self, observation: Observation) -> float:
        """Return the variance of a score's noise."""
        error = observation.standard_error
        return self.r if error is None else error**2

    def follow(self, observations: Iterable[Observation]) -> tuple[dict[Key, float], float]:
        """Return the skill at the end of each completed interval, by key, and log L; parents must come first."""
        states: dict[Key, tuple[Observation, float, float, float, float, float]] = {}
        log = 0.0
        for observation in observations:
            if observation.failed:
                continue
            y, r = self.sign * observation.score, self.noise(observation)
            state = None if observation.parent is None else states.get(observation.parent)
            m, b, p, c, s = y, self.d, r, 0.0, self.v  # (1)
            if state is not None:
                parent, m, b, p, c, s = state
                if parent.config != observation.config:
                    b, c, s = self.d, 0.0, self.v  # (2)
                m, p, c = m + b, p + 2 * c + s + self.q, c + s  # (3)
                e, t = y - m, p + r
                far = e * e / t if t > 0 else math.inf if e else 0.0
                log -= (min(far, JUMP**2) + math.log(max(t, 1e-300))) / 2  # (5)
                if far > JUMP**2 or t <= 0:
                    m, p, c = y, r, 0.0
                else:
                    k = p / t
                    m, b, s = m + k * e, b + c * e / t, max(0.0, s - c * c / t)  # (4)
                    p, c = (1 - k) * p, (1 - k) * c
                m = y if r == 0 else m  # exactly
            states[observation.key] = observation, m, b, p, c, s
        return {key: state[1] for key, state in states.items()}, log


def estimate(recent: Sequence[Observation], sign: float, noise: float | None) -> Trend | None:
    """Return the model of greatest likelihood; None if there are too few gains, or there is no noise.

    Args:
        recent: Last observations, in the order they were told.
        sign: +1 to maximise, -1 to minimise.
        noise: Standard deviation of a score's noise, if it is known.
    """
    gains = np.array([sign * o.change for o in recent if o.parent is not None and math.isfinite(o.change)])
    reported = any(o.standard_error for o in recent)
    if len(gains) < MIN_GAINS or (noise == 0 and not reported):
        return None
    d = float(np.median(gains))
    largest = max(abs(o.score) for o in recent if not o.failed)
    scale = without_rounding(1.4826 * float(np.median(np.abs(gains - d))), largest)
    total = scale * scale  # inf, where scale**2 would be an error
    if not 0 < total < math.inf:
        return None

    def model(share: float, slope: float) -> Trend:
        rest = (1 - share) * total
        return Trend(sign, d, slope * rest, (1 - slope) * rest, share * total / 2 if noise is None else noise**2)

    models = [model(*shares) for shares in GRID]
    worth = [m.follow(recent)[1] + (MIN_EVIDENCE if m.r == 0 else 0.0) for m in models]
    best = models[int(np.argmax(worth))]
    return best if best.r > 0 or reported else None
