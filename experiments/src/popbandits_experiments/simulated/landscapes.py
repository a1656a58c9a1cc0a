"""Base class of problems, and the family of moving hills whose score is a running total.

A member's state is the content of a checkpoint. An interval turns it into the next and reports a score.
The regret of an interval is `best_gain - gain`. For the `episodic` problems, where a good round may harm the
run, regret is `best_total()` less the sum of a lineage's gains: the distance of the final score from the best
schedule's.

| symbol | meaning | shape |
|---|---|---|
| t | round, from 0 | |
| u | a numerical parameter on [0, 1] in its own (log) scale | (d,) |
| values | gain of each label at its best u | (rounds, labels) |
| centres | the best u of each label | (rounds, labels, d) |
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from ConfigSpace import Categorical, ConfigurationSpace, Float

FloatArray = npt.NDArray[np.float64]
Config = Mapping[str, Any]
State = tuple[float, ...]
Generator = np.random.Generator


@dataclass(frozen=True)
class Range:
    """A float parameter and its map to and from [0, 1]."""

    name: str
    low: float
    high: float
    log: bool = False

    def parameter(self) -> Any:
        return Float(self.name, (self.low, self.high), log=self.log)

    def unit(self, value: float) -> float:
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def value(self, unit: float) -> float:
        if self.log:
            value: float = self.low * (self.high / self.low) ** unit
            return min(max(value, self.low), self.high)
        return self.low + unit * (self.high - self.low)


def bump(distance: float, width: float) -> float:
    """Return exp(-distance^2 / (2 width^2))."""
    return math.exp(-0.5 * (distance / width) ** 2)


def wander(rng: Generator, rounds: int, *shape: int) -> FloatArray:
    """Draw smooth paths inside [0.1, 0.9], with a period of 40 to 100 rounds: (rounds, *shape)."""
    period, phase = rng.uniform(40, 100, shape), rng.uniform(0, 1, shape)
    t = np.arange(rounds).reshape(-1, *(1 for _ in shape))
    return 0.5 + 0.4 * np.sin(2 * np.pi * (t / period + phase))


@dataclass(frozen=True)
class Problem(ABC):
    """A training run in miniature; `Problem.draw(rng, rounds)` makes one at random."""

    name: ClassVar[str]
    learnable: ClassVar[bool] = True
    episodic: ClassVar[bool] = False
    level: ClassVar[bool] = False  # the score is the quality of the current weights, not the sum of gains
    scale: float  # of the reported score only: no method may count on scores being about one

    @classmethod
    @abstractmethod
    def draw(cls, rng: Generator, rounds: int) -> Self: ...

    @abstractmethod
    def space(self) -> ConfigurationSpace: ...

    def start(self, rng: Generator) -> State:
        """Return the state of untrained weights: a running total unless the problem overrides it."""
        return (0.0,)

    @abstractmethod
    def step(self, state: State, config: Config, round: int, rng: Generator) -> tuple[State, float, float]:
        """Train one interval; return the next state, the reported score and the true gain (not scaled, no noise)."""

    @abstractmethod
    def best_gain(self, state: State, round: int) -> float:
        """Return the largest true gain of any configuration in this interval."""

    @abstractmethod
    def best_config(self, state: State, round: int) -> dict[str, Any]:
        """Return the configuration of a perfect explorer: of the best schedule if episodic, else of the best gain."""

    def best_total(self) -> float:
        """Return the sum of gains of the best schedule of a whole run."""
        raise NotImplementedError(f"{self.name} is not episodic: its regret is a sum over intervals")


def draw_scale(rng: Generator) -> float:
    return float(10 ** rng.uniform(-2, 3))


RANGES = (Range("x0", 1e-5, 1e-2, log=True), Range("x1", 0.0, 1.0), Range("x2", -10.0, 10.0))


@dataclass(frozen=True)
class Bumps(Problem):
    """One hill per label, gain values[t, h] * hill(u - centres[t, h]); the score sums gains and noise."""

    values: FloatArray
    centres: FloatArray
    width: ClassVar[float] = 0.2
    noise: ClassVar[float] = 0.1
    labels: ClassVar[int]
    dimensions: ClassVar[int] = 2

    @classmethod
    def draw(cls, rng: Generator, rounds: int) -> Self:
        return cls(draw_scale(rng), cls.draw_values(rng, rounds), cls.draw_centres(rng, rounds))

    @classmethod
    @abstractmethod
    def draw_values(cls, rng: Generator, rounds: int) -> FloatArray: ...

    @classmethod
    def draw_centres(cls, rng: Generator, rounds: int) -> FloatArray:
        """Draw one drifting optimum, the same for every label."""
        return np.repeat(wander(rng, rounds, 1, cls.dimensions), cls.labels, axis=1)

    def space(self) -> ConfigurationSpace:
        space = ConfigurationSpace()
        space.add([r.parameter() for r in RANGES[: self.dimensions]] + self.categories())
        return space

    def categories(self) -> list[Any]:
        return [Categorical("h", [f"h{i}" for i in range(self.labels)])]

    def label(self, config: Config) -> int:
        return int(config["h"][1:])

    def chosen(self, label: int) -> dict[str, Any]:
        return {"h": f"h{label}"}

    def hill(self, offset: FloatArray) -> float:
        """Return 1 at the centre and less elsewhere; some problems use other shapes than this Gaussian."""
        return bump(math.hypot(*offset), self.width)

    def error(self, rng: Generator) -> float:
        return rng.standard_normal()

    def step(self, state: State, config: Config, round: int, rng: Generator) -> tuple[State, float, float]:
        label = self.label(config)
        u = [r.unit(config[r.name]) for r in RANGES[: self.dimensions]]
        gain = float(self.values[round, label]) * self.hill(u - self.centres[round, label])
        total = state[0] + gain + self.noise * self.error(rng)
        return (total,), self.scale * total, gain

    def best_gain(self, state: State, round: int) -> float:
        return float(self.values[round].max())

    def best_config(self, state: State, round: int) -> dict[str, Any]:
        label = int(self.values[round].argmax())
        u = self.centres[round, label]
        return {r.name: r.value(float(v)) for r, v in zip(RANGES, u, strict=False)} | self.chosen(label)


def _one_best(rng: Generator, labels: int, low: float, high: float) -> FloatArray:
    """Draw values in [low, high], except for one random label, whose value is 1."""
    values = rng.uniform(low, high, labels)
    values[rng.integers(labels)] = 1.0
    return values


class Drift(Bumps):
    """The optimum drifts and the best of 6 labels changes twice."""

    name = "drift"
    labels, width, noise = 6, 0.25, 0.05

    @classmethod
    def draw_values(cls, rng: Generator, rounds: int) -> FloatArray:
        values = np.tile(rng.uniform(0.2, 0.6, cls.labels), (rounds, 1))
        best = rng.permutation(cls.labels)[:3]
        switches = [0, int(rounds * rng.uniform(0.2, 0.45)), int(rounds * rng.uniform(0.55, 0.8)), rounds]
        for label, start, stop in zip(best, switches[:-1], switches[1:], strict=True):
            values[start:stop, label] = 1.0
        return values


class Many(Bumps):
    """20 labels, one good and four fair, with one drifting parameter."""

    name = "many"
    labels, dimensions = 20, 1

    @classmethod
    def draw_values(cls, rng: Generator, rounds: int) -> FloatArray:
        fair = [1.0] + [0.7] * 4 + list(rng.uniform(0.1, 0.4, cls.labels - 5))
        return np.tile(rng.permutation(fair), (rounds, 1))

    def hill(self, offset: FloatArray) -> float:
        return max(0.0, 1 - abs(float(offset[0])) / 0.5)  # a tent


class Interaction(Bumps):
    """5 labels nearly as good as each other, each with its own optimum."""

    name = "interaction"
    labels, noise = 5, 0.05

    @classmethod
    def draw_values(cls, rng: Generator, rounds: int) -> FloatArray:
        return np.tile(_one_best(rng, cls.labels, 0.8, 1.0), (rounds, 1))

    @classmethod
    def draw_centres(cls, rng: Generator, rounds: int) -> FloatArray:
        return np.tile(rng.uniform(0, 1, (cls.labels, cls.dimensions)), (rounds, 1, 1))


class Irrelevant(Bumps):
    """8 labels that make no difference; only the two drifting parameters do, on a hill with ripples."""

    name = "irrelevant"
    labels = 8

    @classmethod
    def draw_values(cls, rng: Generator, rounds: int) -> FloatArray:
        return np.ones((rounds, cls.labels))

    def hill(self, offset: FloatArray) -> float:
        distance = math.hypot(*offset)
        return bump(distance, self.width) * (0.8 + 0.2 * math.cos(distance / self.width * math.pi))


class Continuous(Irrelevant):
    """No categories: three drifting parameters, which matter much, less and hardly."""

    name = "continuous"
    labels, dimensions, widths = 1, 3, (0.2, 0.4, 1.0)

    def categories(self) -> list[Any]:
        return []

    def label(self, config: Config) -> int:
        return 0

    def chosen(self, label: int) -> dict[str, Any]:
        return {}

    def hill(self, offset: FloatArray) -> float:
        return bump(math.hypot(*(offset / self.widths)), 1.0)


class Pair(Bumps):
    """Two categorical variables (4 x 3) whose values are half additive, half specific to the pair."""

    name = "pair"
    labels = 12

    @classmethod
    def draw_values(cls, rng: Generator, rounds: int) -> FloatArray:
        rows, columns = rng.uniform(0, 0.25, (4, 1)), rng.uniform(0, 0.25, (1, 3))
        table = rows + columns + rng.uniform(0, 0.5, (4, 3))
        return np.tile(table.ravel() / table.max(), (rounds, 1))

    def categories(self) -> list[Any]:
        return [Categorical("a", ["a0", "a1", "a2", "a3"]), Categorical("b", [None, True, False])]

    def label(self, config: Config) -> int:
        return 3 * int(config["a"][1:]) + (None, True, False).index(config["b"])

    def chosen(self, label: int) -> dict[str, Any]:
        return {"a": f"a{label // 3}", "b": (None, True, False)[label % 3]}

    def hill(self, offset: FloatArray) -> float:
        return 1 / (1 + (math.hypot(*offset) / self.width) ** 2)  # with wide flanks


class Outliers(Bumps):
    """Heavy-tailed noise (Student's t, 2 degrees of freedom) over 4 labels and one fixed optimum."""

    name = "outliers"
    labels, dimensions = 4, 1

    @classmethod
    def draw_values(cls, rng: Generator, rounds: int) -> FloatArray:
        return np.tile(_one_best(rng, cls.labels, 0.2, 0.6), (rounds, 1))

    @classmethod
    def draw_centres(cls, rng: Generator, rounds: int) -> FloatArray:
        return np.tile(rng.uniform(0, 1, (1, cls.dimensions)), (rounds, cls.labels, 1))

    def error(self, rng: Generator) -> float:
        return rng.standard_t(2)


class Noise(Irrelevant):
    """Nothing can be learnt: the gain is noise for every configuration, so all methods have the same regret."""

    name, learnable = "noise", False
    labels = 4

    def step(self, state: State, config: Config, round: int, rng: Generator) -> tuple[State, float, float]:
        gain = rng.uniform()
        return (state[0] + gain,), self.scale * (state[0] + gain), gain
