"""Batches for the engine tests: any agent of tests/engines/agents.py in a batch, and one that is really vectorised."""

import copy
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import PCG64, Generator

from popbandits import PBT, History, tune
from popbandits.agent import Outcome
from popbandits.history import Event, Observation
from popbandits.run import Result
from popbandits.storage.store import Store
from popbandits.views.view import View
from tests.engines.agents import Walker, space


class Together:
    """Single agents as a batch. One that raises is that member's failure, as in any batch of good manners."""

    def __init__(self, seeds: list[int], make: Callable[[int], Any]):
        self.make = make
        self.members = [make(seed) for seed in seeds]

    def train(self, configs: Sequence[dict[str, Any]]) -> list[Any]:
        return [member.train(config) for member, config in zip(self.members, configs, strict=True)]

    def copy(self, sources: list[int]) -> None:
        self.members = [copy.deepcopy(self.members[source]) for source in sources]

    def reset(self, member: int, seed: int) -> None:
        self.members[member] = self.make(seed)

    def save(self, member: int, directory: Path) -> None:
        self.members[member].save(directory)

    def load(self, member: int, directory: Path) -> None:
        self.members[member].load(directory)

    def applied(self) -> list[dict[str, Any]]:
        return [getattr(member, "applied", dict)() for member in self.members]

    def assigned(self, keys: list[tuple[int, int]]) -> None:
        for member, key in zip(self.members, keys, strict=True):
            if hasattr(member, "assigned"):
                member.assigned(*key)


def together(make: Callable[[int], Any]) -> Callable[[list[int]], Together]:
    """What builds a batch of such agents, and can be imported again."""
    return partial(Together, make=make)


class Walkers:
    """What `Walker` does, for all members in one array each; bit for bit the same."""

    def __init__(self, seeds: list[int]):
        self.rngs = [np.random.default_rng(seed) for seed in seeds]
        self.weights = np.stack([rng.normal(size=4) for rng in self.rngs])
        self.velocity = np.zeros((len(seeds), 4))
        self.configs: list[dict[str, Any]] = [{}] * len(seeds)

    def train(self, configs: list[dict[str, Any]]) -> Sequence[float | Outcome]:
        self.configs = configs
        epochs, rate = (np.array([config[name] for config in configs]) for name in ("epochs", "lr"))
        momentum = np.array([config.get("momentum", 0.3) for config in configs])
        for epoch in range(epochs.max()):
            going = (epoch < epochs)[:, None]
            noise = np.stack(
                [rng.normal(size=4) if go else np.zeros(4) for rng, go in zip(self.rngs, going[:, 0], strict=True)]
            )
            slope = self.weights + 0.1 * noise
            velocity = momentum[:, None] * self.velocity - 0.5 * rate[:, None] * slope
            self.velocity = np.where(going, velocity, self.velocity)
            self.weights = np.where(going, self.weights + velocity, self.weights)
        scores, norms = -(self.weights**2).sum(axis=1), np.abs(self.weights).max(axis=1)
        return [
            Outcome(s, steps=100, metrics={"norm": n}) for s, n in zip(scores.tolist(), norms.tolist(), strict=True)
        ]

    def copy(self, sources: list[int]) -> None:
        self.weights, self.velocity = self.weights[sources], self.velocity[sources]
        self.rngs = [copy.deepcopy(self.rngs[source]) for source in sources]

    def reset(self, member: int, seed: int) -> None:
        self.rngs[member] = np.random.default_rng(seed)
        self.weights[member], self.velocity[member] = self.rngs[member].normal(size=4), 0.0

    def save(self, member: int, directory: Path) -> None:
        np.savez(directory / "arrays.npz", weights=self.weights[member], velocity=self.velocity[member])
        (directory / "rng.json").write_text(json.dumps(self.rngs[member].bit_generator.state))

    def load(self, member: int, directory: Path) -> None:
        arrays = np.load(directory / "arrays.npz")
        self.weights[member], self.velocity[member] = arrays["weights"], arrays["velocity"]
        self.rngs[member] = Generator(PCG64())
        self.rngs[member].bit_generator.state = json.loads((directory / "rng.json").read_text())

    def applied(self) -> list[dict[str, Any]]:
        return self.configs


# Runs of them


def tuned(agent: Any, directory: Path, **settings: Any) -> Result:
    settings = {"method": PBT(), "rounds": 4, "progress": False, "engine": "batched"} | settings
    return tune(agent, space(), directory=directory, **settings)


def one_by_one(directory: Path, agent: Any = Walker, **settings: Any) -> History:
    """The history that a batch must make too."""
    return tuned(agent, directory / "one by one", engine="in-process", **settings).history


def events(directory: Path, *kinds: str) -> list[Event]:
    with Store.open(directory, readonly=True) as store:
        return [event for event in store.events() if event.kind in kinds]


class Counting(Walkers):
    """Notes what is done to it."""

    def __init__(self, seeds: list[int], done: list[Any]):
        super().__init__(seeds)
        self.done = done
        done.append(("built", len(seeds)))

    def train(self, configs: list[dict[str, Any]]) -> Any:
        self.done.append(("train", len(configs)))
        return super().train(configs)

    def copy(self, sources: list[int]) -> None:
        self.done.append(("copy", tuple(sources)))
        super().copy(sources)

    def load(self, member: int, directory: Path) -> None:
        self.done.append(("load", member, directory.name))
        super().load(member, directory)

    def close(self) -> None:
        self.done.append(("close",))


class StopAfter(View):
    """Stops at once after some observations, in the middle of a round or not."""

    def __init__(self, after: int):
        self.after = after

    def told(self, observation: Observation) -> None:
        self.after -= 1
        if self.after == 0:
            raise KeyboardInterrupt


def stopped(agent: Any, directory: Path, after: int, **settings: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        tuned(agent, directory, progress=StopAfter(after), **settings)
    assert len(History.load(directory)) == after
