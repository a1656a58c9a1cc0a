"""Agents of the stored runs in this folder.

Checkpoints of an earlier version are loaded into these classes, and a resumed run has to end as the recorded one
did. So they never change, and import nothing of other tests. A new fixture that needs another agent brings its own.
"""

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer

from popbandits import Outcome

RAISES = {(1, 1), (2, 4)}
DIVERGES = {(0, 2), (3, 3)}
"""The (member, round) of intervals that fail, in one way or the other: some before a run was killed, some after."""


def space() -> ConfigurationSpace:
    """Every kind of hyperparameter, one of them conditional."""
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
    """Descends a noisy bowl. An interval's steps depend on its epochs; some intervals raise, some return NaN."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.weights = self.rng.normal(size=4)
        self.velocity = np.zeros(4)
        self.config: dict[str, Any] = {}
        self.key = (0, 0)

    def assigned(self, member: int, round_: int) -> None:
        self.key = (member, round_)

    def train(self, config: dict[str, Any]) -> float | Outcome:
        self.config = config
        if self.key in RAISES:
            raise ValueError("the loss exploded")
        if self.key in DIVERGES:
            return math.nan
        for _ in range(config["epochs"]):
            slope = self.weights + 0.1 * self.rng.normal(size=4)
            self.velocity = config.get("momentum", 0.3) * self.velocity - 0.5 * config["lr"] * slope
            self.weights = self.weights + self.velocity
        norm = float(np.abs(self.weights).max())
        return Outcome(-float(np.sum(self.weights**2)), steps=100 * config["epochs"], metrics={"norm": norm})

    def save(self, directory: Path) -> None:
        state = {"weights": self.weights.tolist(), "velocity": self.velocity.tolist()}
        (directory / "state.json").write_text(json.dumps(state | {"rng": self.rng.bit_generator.state}))

    def load(self, directory: Path) -> None:
        state = json.loads((directory / "state.json").read_text())
        self.weights, self.velocity = np.array(state["weights"]), np.array(state["velocity"])
        self.rng.bit_generator.state = state["rng"]

    def applied(self) -> dict[str, Any]:
        return self.config


class Descender(Walker):
    """Reports the loss itself, to be minimised."""

    def train(self, config: dict[str, Any]) -> float | Outcome:
        outcome = super().train(config)
        if not isinstance(outcome, Outcome):
            return outcome
        return Outcome(-outcome.score, steps=outcome.steps, metrics=outcome.metrics)


class Walkers:
    """Several walkers as one batch; a member that raises on its own diverges here."""

    def __init__(self, seeds: list[int]):
        self.members = [Walker(seed) for seed in seeds]

    def assigned(self, keys: list[tuple[int, int]]) -> None:
        for member, key in zip(self.members, keys, strict=True):
            member.assigned(*key)

    def train(self, configs: list[dict[str, Any]]) -> Sequence[float | Outcome]:
        outcomes: list[float | Outcome] = []
        for member, config in zip(self.members, configs, strict=True):
            try:
                outcomes.append(member.train(config))
            except ValueError:
                outcomes.append(math.nan)
        return outcomes

    def copy(self, sources: list[int]) -> None:
        self.members = [copy.deepcopy(self.members[source]) for source in sources]

    def reset(self, member: int, seed: int) -> None:
        self.members[member] = Walker(seed)

    def save(self, member: int, directory: Path) -> None:
        self.members[member].save(directory)

    def load(self, member: int, directory: Path) -> None:
        self.members[member].load(directory)

    def applied(self) -> list[dict[str, Any]]:
        return [member.applied() for member in self.members]
