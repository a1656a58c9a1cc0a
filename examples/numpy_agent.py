"""Tune a network written in numpy while it learns to tell two spirals apart: `python examples/numpy_agent.py`.

The whole contract is here: `train` for an interval and score, `save` all that matters, `load` it.
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from popbandits import log, tune

SPACE = {
    "lr": log(1e-4, 10.0),
    "momentum": (0.0, 0.99),
    "batch": (8, 256),
    "update": ["plain", "sign"],  # along the gradient, or along its signs
}


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of two spirals that are wound into one another, and to which they belong."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=count)
    way = np.sqrt(rng.random(count)) * 3 * np.pi
    angles = way + np.pi * labels
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1) * way[:, None] / 5
    return points + rng.normal(0, 0.05, points.shape), labels


TRAINING, TESTING = spirals(2000, seed=1), spirals(1000, seed=2)


class SpiralAgent:
    """Two hidden layers of 32."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        widths = [2, 32, 32, 1]
        self.weights = [self.rng.normal(0, rows**-0.5, (rows, columns)) for rows, columns in pairwise(widths)]
        self.biases = [np.zeros(columns) for columns in widths[1:]]
        self.velocity = [np.zeros_like(each) for each in self.weights + self.biases]

    def train(self, config: dict[str, Any]) -> float:
        """100 steps; the accuracy on points it has not seen."""
        points, labels = TRAINING
        for _ in range(100):
            chosen = self.rng.integers(len(points), size=config["batch"])
            gradients = self.gradients(points[chosen], labels[chosen])
            for value, speed, gradient in zip(self.weights + self.biases, self.velocity, gradients, strict=True):
                direction = np.sign(gradient) * 0.01 if config["update"] == "sign" else gradient
                speed *= config["momentum"]
                speed -= config["lr"] * direction
                value += speed
        if not all(np.isfinite(each).all() for each in self.weights):
            return np.nan  # It failed: the member goes on from another one's weights.
        return float(np.mean((self.layers(TESTING[0])[-1][:, 0] > 0) == TESTING[1]))

    def layers(self, points: np.ndarray) -> list[np.ndarray]:
        """What goes into each layer; the last one is the answer."""
        values = [points]
        for weights, biases in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values.append(np.tanh(values[-1] @ weights + biases))
        return [*values, values[-1] @ self.weights[-1] + self.biases[-1]]

    def gradients(self, points: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
        """Of the mean logistic loss, for the weights and then the biases."""
        *values, answer = self.layers(points)
        error = (0.5 + 0.5 * np.tanh(answer / 2) - labels[:, None]) / len(points)
        of_weights, of_biases = [], []
        for value, weights in zip(reversed(values), reversed(self.weights), strict=True):
            of_weights.insert(0, value.T @ error)
            of_biases.insert(0, error.sum(axis=0))
            error = error @ weights.T * (1 - value**2)
        return of_weights + of_biases

    def save(self, directory: Path) -> None:
        """Weights, velocities and the random state; the hyperparameters are not part of it."""
        arrays = self.weights + self.biases + self.velocity
        np.savez(directory / "arrays.npz", *arrays)
        (directory / "rng.json").write_text(json.dumps(self.rng.bit_generator.state))

    def load(self, directory: Path) -> None:
        """The inverse."""
        with np.load(directory / "arrays.npz") as stored:
            arrays = [stored[name] for name in stored.files]
        self.weights, self.biases, self.velocity = arrays[:3], arrays[3:6], arrays[6:]
        self.rng.bit_generator.state = json.loads((directory / "rng.json").read_text())


if __name__ == "__main__":
    result = tune(SpiralAgent, SPACE, population=4, rounds=20, seed=0)
    print(f"The best agent gets {result.best.score:.1%} right. Its learning rates:")
    print(*(f"{config['lr']:.2g}" for config in result.schedule))
    print(f"Everything is in {result.directory}, the best agent in {result.checkpoint}.")
