"""A method and a selection of a user's own, which the record of the run "own" names. They never change."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from popbandits import Explorer, History, Observation, Picks, Selection, Space
from popbandits.history import Config


@dataclass(frozen=True)
class Jitter(Explorer):
    """Multiplies the parent's learning rate by a random factor."""

    width: float = 0.5

    def explore(
        self,
        space: Space,
        history: History,
        pending: Sequence[Config],
        parent: Observation | None,
        rng: np.random.Generator,
    ) -> Config:
        config = {"lr": 0.1, "epochs": 2, "optimizer": "adam"} if parent is None else dict(parent.config)
        return config | {"lr": float(np.clip(config["lr"] * np.exp(self.width * rng.normal()), 1e-3, 1.0))}


@dataclass(frozen=True)
class FromBest(Selection):
    """Lets every `nth` member load the best checkpoint and explore; the others keep their own, or begin again."""

    nth: int = 2

    def select(self, history: History, members: np.ndarray, rng: np.random.Generator) -> Picks:
        own = np.full(len(members), -1)
        for index, observation in enumerate(history):
            if not observation.failed:
                own[members == observation.member] = index
        best = max(range(len(history)), key=lambda i: (not history[i].failed, history[i].score))
        weights = np.where(members % self.nth == 0, best, own)
        return Picks(weights, weights, (weights == -1) | (members % self.nth == 0))
