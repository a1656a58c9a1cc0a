"""The suite of mixed problems: each seed draws its own optimum, best label and scale of score.

>>> problem = make("drift", seed=0, rounds=50)
>>> state = problem.start(np.random.default_rng(0))
>>> state, score, gain = problem.step(state, problem.best_config(state, 0), 0, np.random.default_rng(0))
>>> round(problem.best_gain(state, 0) - gain, 9)
0.0
"""

import itertools
import math
import zlib
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Integer, OrdinalHyperparameter

from popbandits_experiments.simulated.landscapes import (
    Config,
    Continuous,
    Drift,
    FloatArray,
    Generator,
    Interaction,
    Irrelevant,
    Many,
    Noise,
    Outliers,
    Pair,
    Problem,
    Range,
    State,
    bump,
    draw_scale,
    wander,
)
from popbandits_experiments.simulated.levels import Corners, Level, Lucky, MostlyBad, Plateau


@dataclass(frozen=True)
class SinCos(Problem):
    """The paper's task: the gain is h(x), h in {sin, cos}, x in [0, pi/2]."""

    name: ClassVar[str] = "sincos"

    @classmethod
    def draw(cls, rng: Generator, rounds: int) -> Self:
        return cls(scale=1.0)

    def space(self) -> ConfigurationSpace:
        return ConfigurationSpace({"h": ["sin", "cos"], "x": (0.0, math.pi / 2)})

    def step(self, state: State, config: Config, round: int, rng: Generator) -> tuple[State, float, float]:
        gain = getattr(math, config["h"])(config["x"])
        return (state[0] + gain,), state[0] + gain, gain

    def best_gain(self, state: State, round: int) -> float:
        return 1.0

    def best_config(self, state: State, round: int) -> dict[str, Any]:
        return {"h": "cos", "x": 0.0}


OPTIMISERS: dict[str, tuple[Range, ...]] = {  # the children of each label
    "sgd": (Range("sgd_lr", 1e-4, 1.0, log=True), Range("momentum", 0.0, 0.99)),
    "adam": (Range("adam_lr", 1e-6, 1e-2, log=True), Range("beta", 0.8, 0.999)),
    "rmsprop": (Range("smoothing", 0.5, 1.0),),
    "signs": (),
}
DROPOUT = Range("dropout", 0.0, 0.5)
WARMUP = 20  # the longest warm-up, a child of adam's own categorical child


@dataclass(frozen=True)
class Conditional(Problem):
    """Labels with their own children, one of them a category with an integer child; and a drifting float."""

    name: ClassVar[str] = "conditional"
    values: dict[str, float]  # gain of each optimiser with the best children
    centres: dict[str, FloatArray]  # best u of its children
    schedule: str  # the better schedule of adam
    warmup: int
    dropout: FloatArray  # (rounds,) best u

    @classmethod
    def draw(cls, rng: Generator, rounds: int) -> Self:
        return cls(
            scale=draw_scale(rng),
            values=dict(zip(OPTIMISERS, rng.permutation([1.0, 0.75, 0.5, 0.4]).tolist(), strict=True)),
            centres={label: rng.uniform(0, 1, len(children)) for label, children in OPTIMISERS.items()},
            schedule=("constant", "cosine")[rng.integers(2)],
            warmup=int(rng.integers(WARMUP + 1)),
            dropout=wander(rng, rounds, 1)[:, 0],
        )

    def space(self) -> ConfigurationSpace:
        space = ConfigurationSpace()
        optimiser = Categorical("optimiser", list(OPTIMISERS))
        schedule, warmup = Categorical("schedule", ["constant", "cosine"]), Integer("warmup", (0, WARMUP))
        children = {label: [r.parameter() for r in ranges] for label, ranges in OPTIMISERS.items()}
        children["adam"].append(schedule)
        space.add([optimiser, DROPOUT.parameter(), warmup, *itertools.chain(*children.values())])
        space.add([EqualsCondition(p, optimiser, label) for label, parts in children.items() for p in parts])
        space.add(EqualsCondition(warmup, schedule, "cosine"))
        return space

    def step(self, state: State, config: Config, round: int, rng: Generator) -> tuple[State, float, float]:
        label = config["optimiser"]
        gain = self.values[label] * bump(DROPOUT.unit(config["dropout"]) - self.dropout[round], 0.3)
        u = [r.unit(config[r.name]) for r in OPTIMISERS[label]]
        gain *= bump(math.dist(u, self.centres[label]), 0.25)
        if label == "adam":
            gain *= 1.0 if config["schedule"] == self.schedule else 0.7
            if config["schedule"] == "cosine":
                gain *= bump((config["warmup"] - self.warmup) / WARMUP, 0.3)
        total = state[0] + gain + 0.05 * rng.standard_normal()
        return (total,), self.scale * total, gain

    def best_gain(self, state: State, round: int) -> float:
        return 1.0

    def best_config(self, state: State, round: int) -> dict[str, Any]:
        label = max(self.values, key=self.values.__getitem__)
        config: dict[str, Any] = {"optimiser": label, "dropout": DROPOUT.value(self.dropout[round])}
        config |= {r.name: r.value(u) for r, u in zip(OPTIMISERS[label], self.centres[label], strict=True)}
        if label == "adam":
            config["schedule"] = self.schedule
            if self.schedule == "cosine":
                config["warmup"] = self.warmup
        return config


PATIENT, HEAL, HARM = 0.5, 0.05, 0.3


@dataclass(frozen=True)
class Trap(Problem):
    """Greed pays at once and harms later: it leads for about 12 rounds, and is far behind after 50.

    State: (total, health q). With greed e in [0, 1] (half from the label, half from a float) and a factor
    w <= 1 of label and x that is worth learning, the gain is q w (PATIENT + e), and then
    q' = q + HEAL (1 - q) - HARM e q.
    """

    name: ClassVar[str] = "trap"
    episodic: ClassVar[bool] = True
    labels: tuple[tuple[float, float], ...]  # (factor, greed) of each label
    centre: float
    rounds: int

    @classmethod
    def draw(cls, rng: Generator, rounds: int) -> Self:
        kinds = ((1.0, 0.0), (1.0, 1.0), (0.6, 0.0), (0.6, 1.0))
        order = rng.permutation(len(kinds))
        return cls(draw_scale(rng), tuple(kinds[i] for i in order), float(rng.uniform(0, 1)), rounds)

    def space(self) -> ConfigurationSpace:
        labels = [f"h{i}" for i in range(len(self.labels))]
        return ConfigurationSpace({"h": labels, "greed": (0.0, 1.0), "x": (0.0, 1.0)})

    def start(self, rng: Generator) -> State:
        return (0.0, 1.0)

    def step(self, state: State, config: Config, round: int, rng: Generator) -> tuple[State, float, float]:
        total, health = state
        factor, greed = self.labels[int(config["h"][1:])]
        greed = (greed + config["greed"]) / 2
        gain = health * factor * bump(config["x"] - self.centre, 0.25) * (PATIENT + greed)
        total, health = total + gain, health + HEAL * (1 - health) - HARM * greed * health
        return (total, health), self.scale * (total + 0.05 * rng.standard_normal()), gain

    def best_gain(self, state: State, round: int) -> float:
        return state[1] * (PATIENT + 1.0)

    def slopes(self) -> FloatArray:
        """Return slopes: the best remaining total at round t is slopes[t] q + constant, linear in q and e."""
        slopes = np.zeros(self.rounds + 1)
        for t in reversed(range(self.rounds)):
            after = slopes[t + 1]
            slopes[t] = PATIENT + after * (1 - HEAL) + max(0.0, 1 - HARM * after)
        return slopes

    def best_config(self, state: State, round: int) -> dict[str, Any]:
        greed = float(HARM * self.slopes()[round + 1] < 1)  # patience pays until the end is near
        return {"h": f"h{self.labels.index((1.0, greed))}", "greed": greed, "x": self.centre}

    def best_total(self) -> float:
        slopes = self.slopes()
        return float(slopes[0] + HEAL * slopes[1:].sum())


LEARNING_RATE = Range("lr", 1e-5, 1e-2, log=True)
ENTROPY = Range("entropy", 1e-4, 1e-1, log=True)
BATCHES = (32, 64, 128, 256, 512)
EPOCHS = 10
SPEED, COARSE = 0.5, 0.5


@dataclass(frozen=True)
class Training(Problem):
    """A learning curve as in reinforcement learning: skill s rises to a ceiling that hyperparameters set.

    State: (s,). With u the learning rate, s' = s + SPEED v u (0.15 + s) (C (1 - COARSE u) - s): large steps
    learn fast but level off low, so u should fall as s rises; above `edge` they destroy the policy. The
    epochs set v; batch size, augmentation and a drifting entropy bonus set C; v, C <= 1. The score is noisy.
    """

    name: ClassVar[str] = "training"
    episodic: ClassVar[bool] = True
    level: ClassVar[bool] = True
    rounds: int
    edge: float
    augmentations: FloatArray  # ceiling of each
    entropy: FloatArray  # (rounds,) best u
    batch: int  # index of the best
    epochs: int

    @classmethod
    def draw(cls, rng: Generator, rounds: int) -> Self:
        return cls(
            scale=draw_scale(rng),
            rounds=rounds,
            edge=float(rng.uniform(0.6, 0.8)),
            augmentations=rng.permutation(np.array([1.0, 0.85, 0.7, 0.6, 0.5, 0.3])),
            entropy=wander(rng, rounds, 1)[:, 0],
            batch=int(rng.integers(len(BATCHES))),
            epochs=int(rng.integers(1, EPOCHS + 1)),
        )

    def space(self) -> ConfigurationSpace:
        space = ConfigurationSpace()
        augmentations = [f"h{i}" for i in range(len(self.augmentations))]
        space.add(
            LEARNING_RATE.parameter(),
            ENTROPY.parameter(),
            Integer("epochs", (1, EPOCHS)),
            OrdinalHyperparameter("batch", BATCHES),
            Categorical("augmentation", augmentations),
        )
        return space

    def start(self, rng: Generator) -> State:
        return (0.02,)

    def step(self, state: State, config: Config, round: int, rng: Generator) -> tuple[State, float, float]:
        (skill,) = state
        u = LEARNING_RATE.unit(config["lr"])
        ceiling = float(self.augmentations[int(config["augmentation"][1:])])
        ceiling *= 1 - 0.08 * abs(BATCHES.index(config["batch"]) - self.batch)
        ceiling *= 0.5 + 0.5 * bump(ENTROPY.unit(config["entropy"]) - self.entropy[round], 0.25)
        speed = 1 - 0.07 * abs(config["epochs"] - self.epochs)
        if u > self.edge:
            gain = -0.8 * skill * (u - self.edge) / (1 - self.edge)
        else:
            gain = self._gain(skill, u, speed, ceiling)
        skill += gain
        return (skill,), self.scale * (skill + 0.02 * rng.standard_normal()), gain

    def _gain(self, skill: float, u: float, speed: float = 1.0, ceiling: float = 1.0) -> float:
        return SPEED * speed * u * (0.15 + skill) * (ceiling * (1 - COARSE * u) - skill)

    def _best_u(self, skill: float) -> float:
        return min((1 - skill) / (2 * COARSE), self.edge)  # the gain is quadratic in u

    def best_gain(self, state: State, round: int) -> float:
        return self._gain(state[0], self._best_u(state[0]))

    def best_config(self, state: State, round: int) -> dict[str, Any]:
        return {
            "lr": LEARNING_RATE.value(self._best_u(state[0]) * (1 - 1e-12)),  # not over the edge by rounding
            "entropy": ENTROPY.value(self.entropy[round]),
            "epochs": self.epochs,
            "batch": BATCHES[self.batch],
            "augmentation": f"h{self.augmentations.argmax()}",
        }

    def best_total(self) -> float:
        """Return the best total: best in each round, since s' increases with s for every configuration."""
        (start,) = self.start(np.random.default_rng(0))
        skill = start
        for t in range(self.rounds):
            skill += self.best_gain((skill,), t)
        return skill - start


PROBLEMS: dict[str, type[Problem]] = {
    p.name: p
    for p in (
        Level,
        Corners,
        Plateau,
        MostlyBad,
        Lucky,
        Training,
        SinCos,
        Drift,
        Conditional,
        Many,
        Pair,
        Interaction,
        Irrelevant,
        Continuous,
        Outliers,
        Trap,
        Noise,
    )
}


def make(name: str, seed: int, rounds: int = 50) -> Problem:
    """Draw a problem with this seed."""
    return PROBLEMS[name].draw(np.random.default_rng([seed, zlib.crc32(name.encode())]), rounds)
