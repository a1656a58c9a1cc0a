"""Problems whose score is a level: how good the weights are now, plus the noise of evaluating them.

They model what real training showed (docs/real_training.md). Where the score is a running total, every interval adds
its own gain to it. Here an interval can undo what others learnt, most of a change in score is noise, and most
configurations learn nothing. A configuration has a ceiling C in [0, 1], to which skill rises as a logistic curve and
falls slowly from above:

    s' = s + v RATE (s + EPSILON) (C - s)    where s < C
    s' = s - v FALL (s - C)                  where s >= C

The learning rate sets the speed v. Below the best rate u* the speed is u / u*, in both directions, so the lowest rate
changes nothing. Above it C falls. The best rate is TOP - DROP s: it falls as skill rises.

| symbol | meaning | shape |
|---|---|---|
| s | skill, from 0 to 1 | |
| u | numbers on [0, 1] in their own (log) scale; the learning rate is the first | (n, numbers) |
| h | indices of labels | (n, categories) |
| penalty | weighted squared distance of u from its best values, plus a cost for each label | (n,) |
| C | max(0, 1 - penalty / tolerance) ** 0.5 | (n,) |
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition

from popbandits_experiments.simulated.landscapes import Config, FloatArray, Generator, Problem, Range, State, draw_scale

LEARNING_RATE = Range("lr", 1e-6, 1e-1, log=True)
TOP, DROP = 0.65, 0.3
SAMPLES = 2000

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Level(Problem):
    """Noise of a tenth of the range, over 6 numbers and 2 categories, 4 configurations in 10 learn something.

    >>> problem = Level.draw(np.random.default_rng(0), rounds=50)
    >>> state = problem.start(np.random.default_rng(0))
    >>> state, score, gain = problem.step(state, problem.best_config(state, 0), 0, np.random.default_rng(0))
    >>> round(gain, 3)  # RATE * EPSILON: the first step of a logistic curve
    0.015
    """

    name: ClassVar[str] = "level"
    level: ClassVar[bool] = True
    episodic: ClassVar[bool] = True
    numbers: ClassVar[int] = 6
    categories: ClassVar[tuple[int, ...]] = (3, 4)  # labels of each category
    child: ClassVar[bool] = False  # the last number is active only with the first label of the last category
    share: ClassVar[float] = 0.4  # share of configurations with which an untrained member learns
    rate: ClassVar[float] = 0.3
    epsilon: ClassVar[float] = 0.05
    fall: ClassVar[float] = 0.1
    noise: ClassVar[float] = 0.1

    rounds: int
    centres: FloatArray  # (numbers,) best u; that of the learning rate is not used
    weights: FloatArray  # (numbers,) of the squared distances from them
    costs: tuple[FloatArray, ...]  # of each category's labels; 0 for the best one
    tolerance: float  # the penalty at which nothing is learnt any more

    @classmethod
    def draw(cls, rng: Generator, rounds: int) -> Self:
        """Draw what is good, and set the tolerance so that `share` of the space learns."""
        weights = np.append(1.0, rng.dirichlet(np.full(cls.numbers - 1, 0.5)))
        costs = [rng.uniform(0.0, 0.15, count) for count in cls.categories]
        for cost in costs:
            cost[rng.integers(len(cost))] = 0.0
        centres = rng.uniform(0.2, 0.8, cls.numbers)  # inside: people choose ranges around good values
        drawn = cls(draw_scale(rng), rounds, centres, weights, tuple(costs), tolerance=1.0)
        u = rng.random((SAMPLES, cls.numbers))
        h = np.stack([rng.integers(count, size=SAMPLES) for count in cls.categories], axis=1)
        tolerance = float(np.quantile(drawn.penalty(u, h, 0.0), cls.share))
        return cls(drawn.scale, rounds, centres, weights, tuple(costs), tolerance)

    def ranges(self) -> list[Range]:
        """List the numbers: the learning rate, then others on linear and log scales in turn."""
        others = [
            Range(f"x{i}", 1e-4, 1.0, log=True) if i % 2 else Range(f"x{i}", 0.0, 1.0) for i in range(1, self.numbers)
        ]
        return [LEARNING_RATE, *others]

    def space(self) -> ConfigurationSpace:
        space = ConfigurationSpace()
        numbers = [r.parameter() for r in self.ranges()]
        labels = [Categorical(f"h{i}", [f"v{j}" for j in range(count)]) for i, count in enumerate(self.categories)]
        space.add(numbers + labels)
        if self.child:
            space.add(EqualsCondition(numbers[-1], labels[-1], "v0"))
        return space

    def penalty(self, u: FloatArray, h: IntArray, skill: float) -> FloatArray:
        """Return how far each configuration is from the best one for this skill."""
        away = u - self.centres
        away[:, 0] = np.maximum(0.0, u[:, 0] - self.best_rate(skill))
        if self.child:
            away[h[:, -1] != 0, -1] = 0.0
        costs = sum(cost[h[:, i]] for i, cost in enumerate(self.costs))
        total: FloatArray = away**2 @ self.weights + costs
        return total

    def best_rate(self, skill: float) -> float:
        return TOP - DROP * skill

    def ceiling(self, config: Config, skill: float) -> float:
        u = [r.unit(config[r.name]) if r.name in config else 0.0 for r in self.ranges()]
        h = [int(config[f"h{i}"][1:]) for i in range(len(self.categories))]
        penalty = self.penalty(np.array([u]), np.array([h]), skill)[0]
        return float(max(0.0, 1 - penalty / self.tolerance) ** 0.5)

    def train(self, skill: float, config: Config) -> float:
        """Return the skill after an interval."""
        speed = min(1.0, LEARNING_RATE.unit(config["lr"]) / self.best_rate(skill))
        ceiling = self.ceiling(config, skill)
        if skill >= ceiling:
            return skill - speed * self.fall * (skill - ceiling)
        return skill + speed * self.rise(skill, ceiling)

    def rise(self, skill: float, ceiling: float = 1.0) -> float:
        return self.rate * (skill + self.epsilon) * (ceiling - skill)

    def reported(self, skill: float) -> float:
        """Return the true level that a skill shows in a score."""
        return skill

    def step(self, state: State, config: Config, round: int, rng: Generator) -> tuple[State, float, float]:
        skill = self.train(state[0], config)
        level = self.reported(skill)
        return (skill,), self.scale * (level + self.noise * rng.standard_normal()), level - self.reported(state[0])

    def best_gain(self, state: State, round: int) -> float:
        return self.rise(state[0])

    def best_config(self, state: State, round: int) -> dict[str, Any]:
        best: dict[str, Any] = {f"h{i}": f"v{cost.argmin()}" for i, cost in enumerate(self.costs)}
        numbers = self.ranges()
        if self.child and best[f"h{len(self.costs) - 1}"] != "v0":
            numbers = numbers[:-1]
        best |= {r.name: r.value(float(u)) for r, u in zip(numbers, self.centres, strict=False)}
        return best | {"lr": LEARNING_RATE.value(self.best_rate(state[0]))}

    def climb(self, skill: float, rounds: int) -> float:
        """Return the skill after rounds of the best configuration."""
        for _ in range(rounds):
            skill += self.rise(skill)
        return skill

    def best_total(self) -> float:
        """Return the gain of the best schedule.

        Best each round is best overall, since the best skill after an interval increases with the skill before it.
        """
        return self.climb(0.0, self.rounds)


class Corners(Level):
    """A learning rate that is too high destroys: nine tenths of the skill are lost in one interval.

    The edge is MARGIN above the best rate, so it falls as skill rises: a rate that is kept from the start reaches it.
    """

    name = "corners"
    noise, margin, left = 0.05, 0.2, 0.1

    def train(self, skill: float, config: Config) -> float:
        if LEARNING_RATE.unit(config["lr"]) > self.best_rate(skill) + self.margin:
            return self.left * skill
        return super().train(skill, config)


class Plateau(Level):
    """A valley before the hill, as in MountainCarContinuous: trying costs score until it succeeds.

    The score shows s - DEPTH sin(pi s / VALLEY) while s is below VALLEY. Doing nothing keeps it at 0, learning takes it
    below at first.
    """

    name = "plateau"
    rate, epsilon, share, noise = 0.35, 0.1, 0.5, 0.05
    depth, valley = 0.2, 0.4

    def reported(self, skill: float) -> float:
        return skill - (self.depth * float(np.sin(np.pi * skill / self.valley)) if skill < self.valley else 0.0)

    def best_gain(self, state: State, round: int) -> float:
        """Return the larger gain of learning and forgetting most: the score falls with skill, and then rises."""
        (skill,) = state
        ends = skill + self.rise(skill), skill * (1 - self.fall)
        return max(self.reported(end) for end in ends) - self.reported(skill)

    def best_config(self, state: State, round: int) -> dict[str, Any]:
        """Return what learns fastest; the lowest rate if too few rounds are left to cross the valley."""
        best = super().best_config(state, round)
        pays = self.reported(self.climb(state[0], self.rounds - round)) > self.reported(state[0])
        return best if pays else best | {"lr": LEARNING_RATE.low}

    def best_total(self) -> float:
        return max(0.0, self.reported(super().best_total()))


class MostlyBad(Level):
    """A wide space, of which 1 configuration in 12 learns: 11 numbers, one of them conditional, and 3 categories."""

    name = "mostly-bad"
    numbers, categories, child = 11, (3, 4, 5), True
    rate, epsilon, share, noise = 0.5, 0.1, 0.08, 0.05


class Lucky(Level):
    """Noise of a quarter of the range where most configurations learn, slowly: the best score is mostly luck."""

    name = "lucky"
    rate, share, noise = 0.15, 0.9, 0.25
