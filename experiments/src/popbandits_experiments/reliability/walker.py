"""An agent that descends a noisy bowl, and its space, with every kind of hyperparameter."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from popbandits.agent import Outcome

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace


def space() -> "ConfigurationSpace":
    """Return a space with every kind of hyperparameter."""
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
