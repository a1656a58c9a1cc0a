"""Agents for the engine tests: small, honest, and faulty on purpose."""

import json
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from popbandits.agent import Outcome

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace


def space() -> "ConfigurationSpace":
    """Every kind of hyperparameter."""
    from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer  # not in every worker

    made = ConfigurationSpace(
        {
            "lr": Float("lr", (1e-3, 1.0), log=True),
            "epochs": Integer("epochs", (1, 4)),
            "optimizer": Categorical("optimizer", ["sgd", "adam"]),
            "momentum": Float("momentum", (0.0, 0.9)),
        }
    )
    made.add(EqualsCondition(made["momentum"], made["optimizer"], "sgd"))
    return made


class Walker:
    """Descends a noisy bowl; weights, velocity and random state are all in its checkpoint."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.weights = self.rng.normal(size=4)
        self.velocity = np.zeros(4)
        self.config: dict[str, Any] = {}

    def train(self, config: dict[str, Any]) -> float | Outcome:
        self.config = config
        for _ in range(config["epochs"]):
            slope = self.weights + 0.1 * self.rng.normal(size=4)
            self.velocity = config.get("momentum", 0.3) * self.velocity - 0.5 * config["lr"] * slope
            self.weights = self.weights + self.velocity
        return Outcome(-float(np.sum(self.weights**2)), steps=100, metrics={"norm": float(np.abs(self.weights).max())})

    def save(self, directory: Path) -> None:
        np.savez(directory / "arrays.npz", weights=self.weights, velocity=self.velocity)
        (directory / "rng.json").write_text(json.dumps(self.rng.bit_generator.state))

    def load(self, directory: Path) -> None:
        arrays = np.load(directory / "arrays.npz")
        self.weights, self.velocity = arrays["weights"], arrays["velocity"]
        self.rng.bit_generator.state = json.loads((directory / "rng.json").read_text())

    def applied(self) -> dict[str, Any]:
        return self.config


class Releasing(Walker):
    """Leaves a file when it is closed."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed)
        self.file = folder / str(seed)

    def close(self) -> None:
        self.file.touch()


class Faulty(Walker):
    """Fails in the way that its random numbers say, one interval in five: raises, returns NaN, hangs or dies."""

    ways: tuple[str, ...] = ("raise", "nan", "hang", "die")

    def train(self, config: dict[str, Any]) -> float | Outcome:
        outcome = super().train(config)
        if self.rng.random() < 0.2:
            misbehave(self.rng.choice(self.ways))
            return float("nan")
        return outcome


def misbehave(way: str) -> None:
    match way:
        case "raise":
            raise ValueError("the loss exploded")
        case "hang":
            threading.Event().wait()
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            raise SystemExit(3)


class Deaf(Walker):
    """Goes on with the hyperparameters of its checkpoint."""

    def save(self, directory: Path) -> None:
        super().save(directory)
        (directory / "config.json").write_text(json.dumps(self.config))

    def load(self, directory: Path) -> None:
        super().load(directory)
        self.old = json.loads((directory / "config.json").read_text())

    def train(self, config: dict[str, Any]) -> float | Outcome:
        return super().train(getattr(self, "old", config))


class Stubborn(Walker):
    """Goes on with the hyperparameters that it was first given."""

    def train(self, config: dict[str, Any]) -> float | Outcome:
        return super().train(self.config or config)


class Once:
    """Misbehaves in the interval of one member and round that it is told of, and nowhere else."""

    def __init__(self, seed: int, way: str):
        self.inner, self.way = Walker(seed), way

    # Which interval it is, an agent can only know by counting: the state that it carries along.
    rounds = 0

    def train(self, config: dict[str, Any]) -> float | Outcome:
        self.rounds += 1
        if self.rounds == 2 and config["optimizer"] == "sgd":
            self.misbehave()
            return float("nan")
        return self.inner.train(config)

    def misbehave(self) -> None:
        misbehave(self.way)

    def save(self, directory: Path) -> None:
        self.inner.save(directory)
        (directory / "rounds").write_text(str(self.rounds))

    def load(self, directory: Path) -> None:
        self.inner.load(directory)
        self.rounds = int((directory / "rounds").read_text())
