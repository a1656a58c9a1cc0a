"""A sound batch of agents in numpy arrays, others that are sound in unusual ways, and one for every fault."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from popbandits.agent import Outcome

Array = np.ndarray[Any, np.dtype[np.float64]]

SPACE = {"lr": (0.01, 0.2), "momentum": (0.0, 0.9)}


class Sound:
    """Stochastic gradient descent with momentum on noisy quadratics, a row for each member."""

    def __init__(self, seeds: list[int]) -> None:
        self.rngs = [np.random.default_rng(seed) for seed in seeds]
        self.x: Array = np.stack([rng.normal(size=3) for rng in self.rngs])
        self.v: Array = np.zeros_like(self.x)

    def train(self, configs: list[dict[str, Any]]) -> Any:
        lr, momentum = self.rates(configs)
        for _ in range(5):
            self.v = momentum * self.v - lr * self.gradient()
            self.x = self.x + self.v
        return self.score()

    def rates(self, configs: list[dict[str, Any]]) -> tuple[Array, Array]:
        lr, momentum = (np.array([[config[name]] for config in configs]) for name in ("lr", "momentum"))
        return lr, momentum

    def gradient(self) -> Array:
        return self.x + 0.1 * self.noise()

    def noise(self) -> Array:
        return np.stack([rng.normal(size=3) for rng in self.rngs])

    def score(self) -> Any:
        return -(self.x**2).sum(axis=1)

    def copy(self, sources: list[int]) -> None:
        self.x, self.v = self.x[sources], self.v[sources]
        self.rngs = [copy.deepcopy(self.rngs[source]) for source in sources]

    def reset(self, member: int, seed: int) -> None:
        self.rngs[member] = np.random.default_rng(seed)
        self.x[member], self.v[member] = self.rngs[member].normal(size=3), 0.0

    def save(self, member: int, directory: Path) -> None:
        (directory / "state.json").write_text(json.dumps(self.state(member)))

    def load(self, member: int, directory: Path) -> None:
        self.restore(member, json.loads((directory / "state.json").read_text()))

    def state(self, member: int) -> dict[str, Any]:
        rng = self.rngs[member].bit_generator.state
        return {"x": self.x[member].tolist(), "v": self.v[member].tolist(), "rng": rng}

    def restore(self, member: int, state: dict[str, Any]) -> None:
        self.x[member], self.v[member] = state["x"], state["v"]
        self.rngs[member] = np.random.default_rng()
        self.rngs[member].bit_generator.state = state["rng"]


class TellsWhatItApplied(Sound):
    def train(self, configs: list[dict[str, Any]]) -> Any:
        self.used = [{name: float(np.float32(value)) for name, value in config.items()} for config in configs]
        return super().train(configs)

    def applied(self) -> list[dict[str, Any]]:
        return self.used


class ReturnsOutcomes(Sound):
    def train(self, configs: list[dict[str, Any]]) -> Any:
        return tuple(Outcome(score, steps=5) for score in super().train(configs))


class CountsOnBeingTold(Sound):
    """Draws by the interval that it is told of, and closes."""

    told: list[tuple[int, int]]
    closed = False

    def assigned(self, keys: list[tuple[int, int]]) -> None:
        self.told = keys

    def noise(self) -> Array:
        return super().noise() + np.stack([np.random.default_rng(key).normal(size=3) for key in self.told])

    def close(self) -> None:
        assert not self.closed
        self.closed = True


# Company


class SharesAGenerator(Sound):
    """One generator for all; every checkpoint has it."""

    def noise(self) -> Array:
        return self.rngs[0].normal(size=self.x.shape)


class NormalisesOverMembers(Sound):
    def gradient(self) -> Array:
        gradient = super().gradient()
        return gradient / np.abs(gradient).mean()


class NumbersItsMembers(Sound):
    """The noise of a member depends on its place."""

    def noise(self) -> Array:
        return super().noise() * (1 + np.arange(len(self.x)))[:, None]


class DrawsAsOftenAsTheLongest(Sound):
    """Goes on drawing until the member with the most to draw has done so, as a loop over epochs may."""

    which: Callable[..., float] = max

    def train(self, configs: list[dict[str, Any]]) -> Any:
        scores = super().train(configs)
        for _ in range(round(100 * type(self).which(config["momentum"] for config in configs))):
            self.noise()
        return scores


class DrawsAsOftenAsTheShortest(DrawsAsOftenAsTheLongest):
    which = min


# Copies


class CopiesOneByOne(Sound):
    def copy(self, sources: list[int]) -> None:
        for member, source in enumerate(sources):
            self.x[member], self.v[member] = self.x[source], self.v[source]
            self.rngs[member] = copy.deepcopy(self.rngs[source])


class CopiesWeightsOnly(Sound):
    def copy(self, sources: list[int]) -> None:
        velocity = self.v
        super().copy(sources)
        self.v = velocity


class CopiesTheSameGenerator(Sound):
    """Two members draw from one object in turns."""

    def copy(self, sources: list[int]) -> None:
        self.x, self.v = self.x[sources], self.v[sources]
        self.rngs = [self.rngs[source] for source in sources]


# One member at a time


class LoadClearsEverybody(Sound):
    def restore(self, member: int, state: dict[str, Any]) -> None:
        self.v = np.zeros_like(self.v)
        super().restore(member, state)


class ResetSeedsEverybody(Sound):
    def reset(self, member: int, seed: int) -> None:
        super().reset(member, seed)
        self.rngs = [np.random.default_rng([seed, place]) for place in range(member)] + self.rngs[member:]


class ResetKeepsTheVelocity(Sound):
    def reset(self, member: int, seed: int) -> None:
        velocity = self.v[member].copy()
        super().reset(member, seed)
        self.v[member] = velocity


class ResetHasNoSeed(Sound):
    def reset(self, member: int, seed: int) -> None:
        super().reset(member, 0 * seed + 12345)


# Divergence


class GivesUpTogether(Sound):
    def score(self) -> Any:
        return super().score() if np.isfinite(self.x).all() else np.full(len(self.x), np.nan)


class SumsTheLosses(Sound):
    """Zero times NaN is NaN: a penalty of what all members sum up to, with no weight."""

    def gradient(self) -> Array:
        return super().gradient() + 0.0 * self.x.sum()


class BlendsCopies(Sound):
    """A matrix of zeros and ones, times the weights: what was NaN makes everything NaN."""

    def copy(self, sources: list[int]) -> None:
        super_x = np.eye(len(self.x))[sources] @ self.x
        super().copy(sources)
        self.x = super_x


class ResetsByAFactor(Sound):
    def reset(self, member: int, seed: int) -> None:
        self.v[member] *= 0.0
        velocity = self.v[member].copy()
        super().reset(member, seed)
        self.v[member] = velocity


# Hyperparameters and checkpoints


class KeepsRatesInMemory(Sound):
    """Sets the rate of a member when it has none: when it is new, or was loaded."""

    def __init__(self, seeds: list[int]) -> None:
        super().__init__(seeds)
        self.known: list[float | None] = [None] * len(seeds)

    def rates(self, configs: list[dict[str, Any]]) -> tuple[Array, Array]:
        self.known = [old or config["lr"] for old, config in zip(self.known, configs, strict=True)]
        return super().rates([config | {"lr": lr} for config, lr in zip(configs, self.known, strict=True)])

    def copy(self, sources: list[int]) -> None:
        super().copy(sources)
        self.known = [self.known[source] for source in sources]

    def reset(self, member: int, seed: int) -> None:
        super().reset(member, seed)
        self.known[member] = None

    def restore(self, member: int, state: dict[str, Any]) -> None:
        super().restore(member, state)
        self.known[member] = None


class SavesNoVelocity(Sound):
    def restore(self, member: int, state: dict[str, Any]) -> None:
        super().restore(member, state)
        self.v[member] = 0.0


class IgnoresThem(Sound):
    def rates(self, configs: list[dict[str, Any]]) -> tuple[Array, Array]:
        return super().rates([{"lr": 0.1, "momentum": 0.5}] * len(configs))


class LiesAboutThem(Sound):
    def applied(self) -> list[dict[str, Any]]:
        return [{"lr": 1.0}] * len(self.x)


class AveragesTheLoss(Sound):
    def gradient(self) -> Array:
        return super().gradient() / len(self.x)


class WritesWhenItLoads(Sound):
    def load(self, member: int, directory: Path) -> None:
        super().load(member, directory)
        (directory / "loaded.txt").touch()


class HasNoSeed(Sound):
    def noise(self) -> Array:
        return np.random.default_rng().normal(size=self.x.shape)
