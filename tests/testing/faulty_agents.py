"""A sound agent, others that are sound in unusual ways, and one for every fault."""

import json
import pickle
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from popbandits.agent import Outcome

Array = np.ndarray[Any, np.dtype[np.float64]]

SPACE = {"lr": (0.01, 0.2), "momentum": (0.0, 0.9)}


class Sound:
    """Stochastic gradient descent with momentum on a noisy quadratic."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.x: Array = self.rng.normal(size=3)
        self.v: Array = np.zeros(3)

    def train(self, config: dict[str, Any]) -> Any:
        for _ in range(5):
            gradient = self.x + 0.1 * self.noise()
            self.v = config["momentum"] * self.v - config["lr"] * gradient
            self.x = self.x + self.v
        return self.score()

    def noise(self) -> Array:
        return self.rng.normal(size=3)

    def score(self) -> float:
        return -float(self.x @ self.x)

    def save(self, directory: Path) -> None:
        (directory / "state.json").write_text(json.dumps(self.state()))

    def load(self, directory: Path) -> None:
        self.restore(json.loads((directory / "state.json").read_text()))

    def state(self) -> dict[str, Any]:
        return {"x": self.x.tolist(), "v": self.v.tolist(), "rng": self.rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        self.x, self.v = np.array(state["x"]), np.array(state["v"])
        self.rng.bit_generator.state = state["rng"]


class DrawsByMemberAndRound(Sound):
    """Counts on being told which interval comes next."""

    def assigned(self, member: int, round_: int) -> None:
        self.others = np.random.default_rng([member, round_])

    def noise(self) -> Array:
        return super().noise() + self.others.normal(size=3)


class Links(Sound):
    """Links to the folder of its last step, as libraries do that keep several."""

    def save(self, directory: Path) -> None:
        (directory / "step-1").mkdir()
        super().save(directory / "step-1")
        (directory / "latest").symlink_to("step-1")

    def load(self, directory: Path) -> None:
        super().load(directory / "latest")


def tied(agent: type[Sound]) -> Callable[[int], Any]:
    """The same agent, but for a score that never changes, as before a first success."""
    return type(f"Tied{agent.__name__}", (agent,), {"score": lambda self: 0.0})


# Sound in other ways


class TellsWhatItApplied(Sound):
    def train(self, config: dict[str, Any]) -> Any:
        self.used = {name: float(np.float32(value)) for name, value in config.items()}
        return super().train(config)

    def applied(self) -> dict[str, Any]:
        return self.used


class ReturnsOutcomes(Sound):
    def train(self, config: dict[str, Any]) -> Any:
        return Outcome(super().train(config), steps=5, metrics={"x": self.x})


class TakesNoSeed(Sound):
    def __init__(self) -> None:
        super().__init__(3)


class SavesItsConfig(Sound):
    def train(self, config: dict[str, Any]) -> Any:
        self.config = config
        return super().train(config)

    def state(self) -> dict[str, Any]:
        return super().state() | {"config": self.config}

    def restore(self, state: dict[str, Any]) -> None:
        self.config = state["config"]
        super().restore(state)


class Pickles(Sound):
    """Its files depend on which objects are one and the same, and those differ after a load."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.labels = ["label"] * 2

    def save(self, directory: Path) -> None:
        (directory / "state.pickle").write_bytes(pickle.dumps((self.state(), self.labels)))

    def load(self, directory: Path) -> None:
        state, labels = pickle.loads((directory / "state.pickle").read_bytes())
        self.labels = ["".join(list(label)) for label in labels]
        self.restore(state)


class SavesAfterTrainingOnly(Pickles):
    def train(self, config: dict[str, Any]) -> Any:
        self.trained = True
        return super().train(config)

    def load(self, directory: Path) -> None:
        self.trained = False
        super().load(directory)

    def save(self, directory: Path) -> None:
        if not self.trained:
            raise RuntimeError("nothing to save")
        super().save(directory)


class SavesTheTime(Sound):
    def state(self) -> dict[str, Any]:
        return super().state() | {"time": time.perf_counter_ns()}


# Hyperparameters


class LoadRestoresThem(Sound):
    config: dict[str, Any] | None = None

    def train(self, config: dict[str, Any]) -> Any:
        self.config = self.config or dict(config)
        return super().train(self.config)

    def state(self) -> dict[str, Any]:
        return super().state() | {"config": self.config}

    def restore(self, state: dict[str, Any]) -> None:
        self.config = state["config"]
        super().restore(state)


class OptimizerRestoresTheRate(Sound):
    """As `optimizer = SGD(lr=config["lr"]); optimizer.load_state_dict(state)` does."""

    optimizer: dict[str, Any] | None = None

    def train(self, config: dict[str, Any]) -> Any:
        self.given = config
        self.optimizer = {"lr": config["lr"]} | (self.optimizer or {})
        return super().train(config | self.optimizer)

    def state(self) -> dict[str, Any]:
        return super().state() | {"optimizer": self.optimizer, "given": self.given}

    def restore(self, state: dict[str, Any]) -> None:
        self.optimizer = state["optimizer"]
        super().restore(state)


class KeepsTheFirstRate(Sound):
    rate: float | None = None

    def train(self, config: dict[str, Any]) -> Any:
        self.rate = self.rate or config["lr"]
        return super().train(config | {"lr": self.rate})


class IgnoresThem(Sound):
    def train(self, config: dict[str, Any]) -> Any:
        return super().train({"lr": 0.1, "momentum": 0.5})


class IgnoresThemButSavesThem(SavesItsConfig):
    def train(self, config: dict[str, Any]) -> Any:
        super().train({"lr": 0.1, "momentum": 0.5})
        self.config = config
        return self.score()


class IgnoresMomentum(Sound):
    def train(self, config: dict[str, Any]) -> Any:
        return super().train(config | {"momentum": 0.5})


class LiesAboutThem(LoadRestoresThem):
    def applied(self) -> dict[str, Any]:
        return self.config or {}


# Checkpoints


class ResetsTheOptimizer(Sound):
    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.v = np.zeros(3)


class ForgetsTheOptimizer(Sound):
    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state | {"v": self.v})


class AddsToItsBuffer(Sound):
    """The buffer is saved; load adds the saved one to its own."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.buffer: list[float] = []

    def noise(self) -> Array:
        self.buffer.append(float(self.rng.normal()))
        return np.full(3, np.mean(self.buffer))

    def state(self) -> dict[str, Any]:
        return super().state() | {"buffer": self.buffer}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.buffer = self.buffer + state["buffer"]


class SavesItsPath(Sound):
    def save(self, directory: Path) -> None:
        super().save(directory)
        (directory / "where.txt").write_text(str(directory))

    def load(self, directory: Path) -> None:
        super().load(Path((directory / "where.txt").read_text()))


class WritesWhenItLoads(Sound):
    def load(self, directory: Path) -> None:
        super().load(directory)
        (directory / "loaded.txt").touch()


# Randomness


class KeepsItsGenerator(Sound):
    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state | {"rng": self.rng.bit_generator.state})


class SeedsItsGeneratorAnew(Sound):
    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.rng = np.random.default_rng(self.seed)


class UsesAGlobalGenerator(Sound):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        random.seed(seed)

    def noise(self) -> Array:
        return np.full(3, random.gauss())


class LoadsWithoutASeed(Sound):
    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.rng = np.random.default_rng()


class HasNoSeed(Sound):
    def noise(self) -> Array:
        return np.random.default_rng().normal(size=3)


class RandomAndTells(TellsWhatItApplied, HasNoSeed):
    pass


class RandomAndLies(LiesAboutThem, HasNoSeed):
    pass


class RandomButSteep(HasNoSeed):
    """Its score follows the learning rate, give or take a little."""

    def train(self, config: dict[str, Any]) -> Any:
        super().train({"lr": 0.1, "momentum": 0.5})
        return 100 * config["lr"] + 0.001 * random.SystemRandom().random()


class RandomAndForgetful(HasNoSeed):
    """Its score counts the intervals, give or take a little; the counter is not saved."""

    count = 0

    def train(self, config: dict[str, Any]) -> Any:
        super().train({"lr": 0.1, "momentum": 0.5})
        self.count += 1
        return self.count + 0.001 * random.SystemRandom().random()


class RandomWithAPast(RandomAndForgetful):
    """The counter is saved, but load adds it to its own."""

    def state(self) -> dict[str, Any]:
        return super().state() | {"count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.count += state["count"]
