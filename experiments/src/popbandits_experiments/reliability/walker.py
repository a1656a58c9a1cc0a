"""An agent that descends a noisy bowl, in a module that a worker imports quickly."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from popbandits.agent import Outcome

SPACE = {"lr": (1e-3, 1.0), "epochs": (1, 4), "momentum": (0.0, 0.9), "noise": ["normal", "uniform"]}


class Walker:
    """Descends a noisy bowl; weights, velocity and random state are all in its checkpoint."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.weights = self.rng.normal(size=4)
        self.velocity = np.zeros(4)

    def train(self, config: dict[str, Any]) -> Any:
        for _ in range(config["epochs"]):
            slope = self.weights + 0.1 * getattr(self.rng, config["noise"])(size=4)
            self.velocity = config["momentum"] * self.velocity - 0.5 * config["lr"] * slope
            self.weights = self.weights + self.velocity
        return Outcome(-float(np.sum(self.weights**2)), steps=100, metrics={"norm": float(np.abs(self.weights).max())})

    def save(self, directory: Path) -> None:
        np.savez(directory / "arrays.npz", weights=self.weights, velocity=self.velocity)
        (directory / "rng.json").write_text(json.dumps(self.rng.bit_generator.state))

    def load(self, directory: Path) -> None:
        arrays = np.load(directory / "arrays.npz")
        self.weights, self.velocity = arrays["weights"], arrays["velocity"]
        self.rng.bit_generator.state = json.loads((directory / "rng.json").read_text())
