"""A ground that costs nothing, for tests of the benchmark; run as a program it is the benchmark on that ground.

    python -m experiments.tests.ground.climbers LAST run --tasks Pendulum ...

waits for a line of input when it is about to build batch number LAST, after it has said which processes are its own.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import active_children
from typing import Any

import torch
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer
from torch import Tensor

from popbandits.agent import Outcome
from popbandits_experiments.batched.members import MemberRows
from popbandits_experiments.ground.__main__ import main
from popbandits_experiments.ground.grounds import GROUNDS, Ground

STEPS = 7  # of one update


def space() -> ConfigurationSpace:
    """Make a space with every kind of parameter."""
    made = ConfigurationSpace()
    kind, momentum = Categorical("kind", ["plain", "heavy"], default="plain"), Float("momentum", (0.0, 0.9))
    made.add(Float("lr", (1e-4, 1.0), log=True, default=0.01), Float("decay", (0.0, 0.1)), Integer("epochs", (1, 5)))
    made.add(kind, momentum)
    made.add(EqualsCondition(momentum, kind, "heavy"))
    return made


class Climbers(MemberRows):
    """Members climb to 0 with noise of their own; the higher their learning rate, the more often they diverge."""

    doomed = False

    def __init__(self, seeds: Sequence[int], updates: int):
        super().__init__(len(seeds), "cpu")
        self.height, self.updates = torch.zeros(len(seeds)), updates
        self.done: list[tuple[str, Any]] = []
        self._start(range(len(seeds)), seeds)

    def _rows(self) -> dict[str, Tensor]:
        return {"height": self.height}

    def _fresh(self, keys: Tensor) -> Mapping[str, Tensor]:
        return {"height": -100 - keys.float() % 97}

    def train(self, configs: Sequence[dict[str, Any]]) -> list[Outcome]:
        self.done.append(("train", [dict(config) for config in configs]))
        noise = self._streams().uniform(1)[:, 0]
        for i, config in enumerate(configs):
            if self.doomed or noise[i] < config["lr"] ** 0.2:
                self.height[i] = math.nan
            self.height[i] *= 1 - (config["lr"] * config["epochs"]) ** 0.5 * (0.5 + noise[i]) / 2
        self._trained += 1
        self._labels = ()
        return [Outcome(height, self.updates * STEPS) for height in self.height.tolist()]

    def copy(self, sources: Sequence[int]) -> None:
        self.done.append(("copy", list(sources)))
        super().copy(sources)

    def reset_all(self, members: Sequence[int], seeds: Sequence[int]) -> None:
        self.done += [("reset", member) for member in members]
        super().reset_all(members, seeds)

    def evaluate(self, members: Sequence[int], episodes: int, seeds: Sequence[int]) -> Tensor:
        self.done.append(("evaluate", (list(members), list(seeds))))
        return self.height[list(members), None] + torch.linspace(-1, 1, episodes)


class Track:
    """Builds climbers, and remembers them."""

    def __init__(self) -> None:
        self.built: list[Climbers] = []

    def __call__(self, seeds: Sequence[int], updates: int, device: str) -> Climbers:
        self.built.append(Climbers(seeds, updates))
        return self.built[-1]


class Halting(Track):
    """Stops before the batch of a given number, and waits."""

    def __init__(self, last: int):
        super().__init__()
        self.last = last

    def __call__(self, seeds: Sequence[int], updates: int, device: str) -> Climbers:
        if len(self.built) == self.last:
            print("waiting", *(child.pid for child in active_children()), flush=True)
            sys.stdin.readline()
        return super().__call__(seeds, updates, device)


def ground(make: Track, updates: int = 30) -> Ground:
    """Make a ground under the name of a task that has a scale."""
    return Ground("Pendulum", "device", updates, STEPS, make, {"wide": space, "narrow": space})


if __name__ == "__main__":
    GROUNDS["Pendulum"] = ground(Halting(int(sys.argv[1])))
    raise SystemExit(main(sys.argv[2:]))
