"""TV.EXP3.M: a bandit with several plays a round and rewards that change over time. Derived in docs/bandit.md.

| symbol | meaning | shape |
|---|---|---|
| C | arms | |
| k | plays in a round (the paper's B) | |
| T | rounds | |
| V | segments, within each of which the reward distributions do not change | |
| w | weights, kept as logarithms and scaled to sum to 1 | (C,) |
| α | sharing: the part of the total weight given to all arms each round, so that none is ever lost | |
| γ | exploration: the share of the plays that is spread evenly | |
| η, ν | the largest share of the weight that an arm may have, and the weight at that share | |
| S0 | the arms whose weight is cut to ν | |
| n | expected plays of each arm (the paper's p, for probabilities) | (C,) |
| g, ĝ | gains in [0, 1], and their estimates g / n | (C,) |

Step numbers are those of the paper's full algorithm box.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import e, exp, floor, inf, isfinite, isnan, log, remainder, sqrt
from typing import Literal

import numpy as np

from popbandits.basics.rules import Rule, real
from popbandits.basics.typing import FloatArray, IntArray
from popbandits.errors import ArgumentError

# Lowest log weight relative to the largest: such an arm is not played, and exp does not underflow.
_MIN_LOG_WEIGHT = -700.0
_TOLERANCE = 1e-9  # A number this close to an integer counts as that integer.

_COUNT = real("at least 1", lambda count: count >= 1).or_none()
_NAMED = Rule(lambda name: name in ("corrected", "paper"), "one of 'corrected' and 'paper', or a number")
_GAMMA = real("above 0 and at most 1", lambda gamma: 0 < gamma <= 1, "at 0 no arm would ever gain weight")
_SHARING = real("in [0, 1]", lambda alpha: 0 <= alpha <= 1, "leave it out for 1/horizon").or_none()


@dataclass(frozen=True)
class TVEXP3M:
    """EXP3 for several plays a round and changing rewards: w <- w exp(k γ ĝ / C) + (e α / C) sum w.

    It has no state: methods take and return log weights.

    >>> bandit = TVEXP3M(arms=3, horizon=100)
    >>> log_weights = bandit.initial()
    >>> played = bandit.draw(log_weights, plays=2, rng=np.random.default_rng(0))
    >>> log_weights = bandit.update(log_weights, played, gains=np.array([1.0, 0.0]))
    >>> bool(np.argmax(log_weights) == played[0])
    True
    """

    arms: int  # C
    horizon: int | None = None  # T. None: unknown; gamma and alpha are set for epochs of 1, 2, 4, 8, … rounds
    changes: int = 1  # V: number of segments, one more than the change points
    exploration: Literal["corrected", "paper"] | float = "corrected"  # gamma*, the paper's gamma, or a gamma
    sharing: float | None = None  # alpha. None: 1/T; 0: EXP3.M, which with one play is EXP3

    def __post_init__(self) -> None:
        for name in ("arms", "horizon", "changes"):
            _COUNT.check(f"'{name}':", getattr(self, name))
        (_NAMED if isinstance(self.exploration, str) else _GAMMA).check("'exploration':", self.exploration)
        _SHARING.check("'sharing':", self.sharing)

    def gamma(self, plays: int, round: int = 0) -> float:
        """Return γ* = min(1, sqrt(C (e + V ln(C T / k)) / ((e - 1) k T))), or the γ that `exploration` sets.

        `round` matters only if the horizon is unknown.

        >>> f"{TVEXP3M(arms=8, horizon=50, changes=2).gamma(plays=4):.3f}"
        '0.527'
        """
        if plays < 1:
            raise ArgumentError(f"'plays': must be at least 1, got {plays}; without plays there is no gamma")
        if not isinstance(self.exploration, str):
            return self.exploration
        rounds = self._rounds(round)
        if self.exploration == "paper" and plays < self.arms:
            price = log(self.arms / plays)
        else:
            # Paper: ln(C / k), nothing for k >= C. Here: the minimiser of the last sound line of its proof, for
            # every k, because with the paper's gamma that line is above the bound. The max is for k > C T.
            price = e + self.changes * max(0.0, log(self.arms * rounds / plays))
        return min(1.0, sqrt(self.arms * price / ((e - 1.0) * plays * rounds)))

    def initial(self) -> FloatArray:
        """Return the log weights before the first round (step 1): all equal."""
        return np.full(self.arms, -log(self.arms))

    def expected_plays(
        self, log_weights: FloatArray, plays: int, round: int = 0, feedback: int | None = None
    ) -> FloatArray:
        """Return n = k ((1 - γ) w / sum w + γ / C), which sums to k; at most 1 each for k < C (steps 3 to 9).

        Args:
            plays: k, the number of arms to draw.
            feedback: the number of plays that a round learns from, if not k; it sets γ. One replaced member of four is
                `plays=1, feedback=4`: the γ of a single play would use little of what all four learnt.

        >>> bandit = TVEXP3M(arms=3, exploration=0.3)
        >>> bandit.expected_plays(np.log([0.8, 0.15, 0.05]), plays=1).round(3)
        array([0.66 , 0.205, 0.135])
        >>> bandit.expected_plays(np.log([0.8, 0.15, 0.05]), plays=2).round(3)
        array([1.  , 0.65, 0.35])
        """
        if plays < 0:
            raise ArgumentError(f"'plays': must be at least 0, got {plays}")
        gamma = self.gamma(feedback or plays, round) if plays else 1.0
        weights, total, _ = self._cap(log_weights.tolist(), plays, gamma, distinct=True)
        expected = plays * ((1.0 - gamma) / total * np.array(weights) + gamma / self.arms)
        return np.minimum(expected, 1.0) if plays < self.arms else expected  # 1 + 1e-16 is no probability.

    def draw(
        self, log_weights: FloatArray, plays: int, rng: np.random.Generator, round: int = 0, feedback: int | None = None
    ) -> IntArray:
        """Draw k arms in random order, distinct for k < C, each `expected_plays` times on average (step 10)."""
        counts = dependent_rounding(self.expected_plays(log_weights, plays, round, feedback), rng)
        return rng.permutation(np.repeat(np.arange(self.arms), counts))

    def update(self, log_weights: FloatArray, arms: IntArray, gains: FloatArray, round: int = 0) -> FloatArray:
        """Return the log weights after a round in which `arms[i]` gained `gains[i]` (steps 3 to 9 and 12 to 14).

        Arms may repeat. A NaN gain is a play without feedback: it is ignored, and not counted in k.
        """
        return np.array(self._learn(log_weights.tolist(), arms.tolist(), gains.tolist(), round))

    def replay(self, rounds: Sequence[tuple[IntArray, FloatArray]]) -> FloatArray:
        """Return the log weights after all rounds from the first, each given as (arms, gains)."""
        log_weights = self.initial().tolist()
        for round, (arms, gains) in enumerate(rounds):
            log_weights = self._learn(log_weights, arms.tolist(), gains.tolist(), round)
        return np.array(log_weights)

    def _rounds(self, round: int) -> int:
        """Return T, or if it is unknown the length of the epoch that `round` is in."""
        return self.horizon or 1 << ((round + 1).bit_length() - 1)

    # The two methods below work on lists, which are several times faster than arrays for so few numbers.

    def _cap(
        self, log_weights: list[float], plays: int, gamma: float, distinct: bool
    ) -> tuple[list[float], float, float]:
        """Return the weights after the cap, their sum, and ν (infinite without a cap): steps 3 to 8."""
        assert len(log_weights) == self.arms
        heaviest = max(log_weights)
        lowest = heaviest + _MIN_LOG_WEIGHT
        weights = [exp((value if value > lowest else lowest) - heaviest) for value in log_weights]
        total = sum(weights)
        cap = inf
        # Paper: k distinct arms. Here: for k >= C repeated ones, because there are not enough to choose from.
        if distinct and plays < self.arms and gamma < 1.0:
            eta = (1.0 / plays - gamma / self.arms) / (1.0 - gamma)
            if eta * total <= 1.0:  # The heaviest weighs 1.
                ordered = sorted(weights, reverse=True)
                cap = 1.0
                for cut, weight in enumerate(ordered, start=1):
                    if weight < cap or cut * eta >= 1.0:
                        break
                    cap = eta * sum(ordered[cut:]) / (1.0 - cut * eta)  # ν = η (cut ν + the rest)
                weights = [min(weight, cap) for weight in weights]
                total = sum(weights)
        return weights, total, cap

    def _learn(self, log_weights: list[float], arms: list[int], gains: list[float], round: int) -> list[float]:
        """Do steps 3 to 9 and 12 to 14."""
        times, sums = [0] * self.arms, [0.0] * self.arms
        for arm, gain in zip(arms, gains, strict=True):
            if not 0 <= arm < self.arms:
                raise ArgumentError(f"'arms': must be from 0 to {self.arms - 1}, got {arm}; count from 0")
            if isnan(gain):
                continue
            if not 0.0 <= gain <= 1.0:
                raise ArgumentError(f"'gains': must be in [0, 1], got {gain} for arm {arm}; scale them first")
            times[arm] += 1
            sums[arm] += gain
        plays = sum(times)
        gamma = self.gamma(plays, round) if plays else 1.0
        # Paper: always the cap. Here: not if arms repeat, because the cap is there for drawing distinct arms,
        # which members that share arms are not; under it they could never make one arm outweigh the others.
        weights, total, cap = self._cap(log_weights, plays, gamma, distinct=max(times) <= 1)
        alpha = 1.0 / self._rounds(round) if self.sharing is None else self.sharing
        shared = e * alpha / self.arms * total
        even = gamma / self.arms
        for arm, count in enumerate(times):
            if count and weights[arm] < cap:  # not in S0
                # Paper: the exponent is k γ ĝ / C, at most 1 for the arms of a draw, which the proof needs.
                # Here: the mean gain times count k γ / (C n), and that factor at most 1, because any number of
                # members may be on an arm. Below 1 it equals the paper's; at 1 better arms still gain more.
                importance = count * even / ((1.0 - gamma) * weights[arm] / total + even)
                weights[arm] *= exp(min(importance, 1.0) * sums[arm] / count)
        total = sum(weights) + self.arms * shared
        return [log((weight + shared) / total) for weight in weights]


def dependent_rounding(expected: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw integer counts with mean `expected`, each its floor or its ceiling, and with the same sum.

    This is the dependent rounding of Gandhi and others, J. ACM 53, 2006.

    >>> counts = dependent_rounding(np.array([0.25, 1.0, 0.75, 2.5, 0.5]), np.random.default_rng(0))
    >>> int(counts[1]), int(counts.sum())
    (1, 5)
    """
    values = expected.tolist()
    total = sum(values)
    if not (isfinite(total) and min(values, default=0.0) >= 0.0 and abs(remainder(total, 1.0)) <= _TOLERANCE):
        raise ArgumentError(
            f"'expected': must be at least 0 each and add up to an integer, got {values}, "
            f"which add up to {total}; rescale them"
        )
    counts = [floor(value + _TOLERANCE) for value in values]
    # Draw a number for every entry, used or not: the generator's state must not depend on the values.
    uniforms = rng.random(len(values)).tolist()
    # Take two fractions at a time: one becomes 0 or 1, the other the remainder, so that neither their sum nor
    # either mean changes. `undecided` is the entry with the remainder, `fraction` its amount above its floor.
    undecided, fraction = 0, 0.0
    for entry, value in enumerate(values):
        other = value - counts[entry]
        if other <= _TOLERANCE:
            continue
        both = fraction + other
        if both < 1.0:  # One becomes 0.
            if uniforms[entry] * both >= fraction:
                undecided = entry
            fraction = both
        else:  # One becomes 1.
            if uniforms[entry] * (2.0 - both) < 1.0 - other:
                counts[undecided] += 1
                undecided = entry
            else:
                counts[entry] += 1
            fraction = both - 1.0
    if fraction > 0.5:  # It is 0 or 1 but for rounding errors, so that the sum of the integers is exact.
        counts[undecided] += 1
    return np.array(counts, dtype=np.int64)
