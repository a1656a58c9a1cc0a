"""Tasks of the benchmark, with their agents, budgets and spaces."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from ConfigSpace import ConfigurationSpace
from torch import Tensor

from popbandits.agent import Outcome
from popbandits.errors import ArgumentError
from popbandits_experiments.batched import spaces
from popbandits_experiments.batched.device import DeviceWorld
from popbandits_experiments.batched.pools import PoolWorld
from popbandits_experiments.batched.ppo import BatchedPPO, Settings
from popbandits_experiments.batched.tasks import TASKS
from popbandits_experiments.ground import digits, modular, recall, sequences
from popbandits_experiments.ground.digits import BatchedDigits
from popbandits_experiments.ground.modular import BatchedModular
from popbandits_experiments.ground.recall import BatchedRecall
from popbandits_experiments.ground.records import Group, Space


class Agents(Protocol):
    """Members of many populations, trained by one program."""

    @property
    def state(self) -> Mapping[str, Tensor]: ...
    def train(self, configs: Sequence[dict[str, object]]) -> Sequence[Outcome]: ...
    def copy(self, sources: Sequence[int]) -> None: ...
    def reset(self, member: int, seed: int) -> None: ...
    def reset_all(self, members: Sequence[int], seeds: Sequence[int]) -> None: ...
    def assigned(self, keys: Sequence[tuple[int, int]]) -> None: ...
    def evaluate(self, members: Sequence[int], episodes: int, seeds: Sequence[int]) -> Tensor: ...


@runtime_checkable
class Behaving(Protocol):
    """Agents whose behaviours can be compared."""

    def behaviours(self, size: int) -> list[list[float]]: ...


Spaces = dict[Space, Callable[[], ConfigurationSpace]]
"""Functions that build the spaces of a task, by name."""


@dataclass(frozen=True)
class Ground:
    """A task with its budget."""

    name: str
    group: Group
    updates: int
    """Rollouts (or epochs) of a member over the whole run, divided among the rounds."""
    steps: int
    """Environment steps per rollout, or images or sequences per epoch."""
    make: Callable[[Sequence[int], int, str], Agents]
    """Function that makes agents from their seeds, the rollouts per round, and a device."""
    spaces: Spaces
    still: int | None = None
    """Discrete action that does nothing, if there is one; a continuous action does nothing at 0."""

    def updates_in(self, rounds: int) -> int:
        """Return the rollouts of a round; rounds must divide the budget, so that all runs spend the same."""
        if rounds < 1 or self.updates % rounds:
            raise ArgumentError(f"rounds must divide the {self.updates} updates of {self.name}, got {rounds}")
        return self.updates // rounds


PPO_SPACES: Spaces = {
    "wide": spaces.wide,
    "shifted": spaces.shifted,
    "narrow": spaces.narrow,
}
SEQUENCE_SPACES: Spaces = {
    "wide": sequences.wide,
    "shifted": sequences.shifted,
    "narrow": sequences.narrow,
}


def _on_device(
    name: str, task: str, updates: int, tf32: bool = False, still: int | None = None, raw: bool = False
) -> Ground:
    def make(seeds: Sequence[int], updates: int, device: str) -> BatchedPPO:
        settings = Settings(updates=updates, tf32=tf32, raw=raw)
        return BatchedPPO(seeds, DeviceWorld(TASKS[task]), settings, device)

    return Ground(name, "device", updates, Settings().copies * Settings().rollout, make, PPO_SPACES, still)


def _minatar(game: str, updates: int, suffix: str = "") -> Ground:
    return _on_device(f"{game}{suffix}", f"{game}-MinAtar", updates, tf32=True, still=0)


def _in_pool(
    name: str, task: str, limit: int, updates: int, episodes: int, still: int | None = None, raw: bool = False
) -> Ground:
    def make(seeds: Sequence[int], updates: int, device: str) -> BatchedPPO:
        settings = Settings(updates=updates, hidden=64, episodes=episodes, raw=raw)
        return BatchedPPO(seeds, PoolWorld(task, limit, threads=THREADS), settings, device)

    return Ground(name, "envpool", updates, Settings().copies * Settings().rollout, make, PPO_SPACES, still)


def _digits() -> Ground:
    def make(seeds: Sequence[int], updates: int, device: str) -> BatchedDigits:
        return BatchedDigits(seeds, digits.Settings(epochs=updates), DIGITS, device)

    spaces: Spaces = {"wide": digits.wide, "shifted": digits.shifted, "narrow": digits.narrow}
    return Ground("Digits", "device", 300, digits.STANDARD.task.training, make, spaces)


def _recall() -> Ground:
    def make(seeds: Sequence[int], updates: int, device: str) -> BatchedRecall:
        return BatchedRecall(seeds, recall.Settings(epochs=updates), device)

    return Ground("Recall", "device", 300, recall.STANDARD.training, make, SEQUENCE_SPACES)


def _modular() -> Ground:
    def make(seeds: Sequence[int], updates: int, device: str) -> BatchedModular:
        return BatchedModular(seeds, modular.Settings(epochs=updates), device)

    return Ground("Modular", "device", 300, modular.STANDARD.training, make, SEQUENCE_SPACES)


DIGITS: Path | None = None
"""File with the digits, written by `Digits.save`; None if scikit-learn is installed."""

THREADS = 0
"""Threads of EnvPool; 0 for one per core."""

MINATAR = ("Breakout", "Asterix", "SpaceInvaders", "Freeway")
MILLION = 900
"""Rollouts of about a million steps: 921,600, which 10, 30 and 100 rounds divide."""

GROUNDS = {
    ground.name: ground
    for ground in (
        # Budgets at whose end random search still lags and PBT still rises: with more, every tuned run reaches the top.
        _on_device("Pendulum", "Pendulum-v1", updates=300),
        _on_device("Acrobot", "Acrobot-v1", updates=90, still=1),
        _on_device("CartPole", "CartPole-v1", updates=30),
        _on_device("MountainCarContinuous", "MountainCarContinuous-v0", updates=30),
        # Tasks whose usual settings explore too little or learn too slowly.
        _on_device("MountainCar", "MountainCar-v0", updates=90, still=1),
        _on_device("SwingUp", "SwingUp", updates=150),
        _on_device("FrozenLake", "FrozenLake8x8-v1", updates=90),
        _on_device("Taxi", "Taxi-v4", updates=90, still=0),
        _on_device("CliffWalking", "CliffWalking-v1", updates=90, still=3),
        _on_device("KeyDoor", "KeyDoor", updates=150, still=4),
        _on_device("Reach", "Reach", updates=90),
        # A deceptive task: the way that pays at once leads to a wall.
        _on_device("Detour", "Detour", updates=90),
        # Without normalisation, which Stable-Baselines3 leaves to the user: its settings meet other scales.
        _on_device("Pendulum-raw", "Pendulum-v1", updates=150, raw=True),
        _on_device("Acrobot-raw", "Acrobot-v1", updates=90, still=1, raw=True),
        _on_device("MountainCar-raw", "MountainCar-v0", updates=90, still=1, raw=True),
        _on_device("MountainCarContinuous-raw", "MountainCarContinuous-v0", updates=90, raw=True),
        _on_device("CartPole-raw", "CartPole-v1", updates=30, raw=True),
        _on_device("SwingUp-raw", "SwingUp", updates=150, raw=True),
        _on_device("Taxi-raw", "Taxi-v4", updates=90, still=0, raw=True),
        # A third of these: what good settings are for when time is short.
        _on_device("Pendulum-short", "Pendulum-v1", updates=90),
        _on_device("Acrobot-short", "Acrobot-v1", updates=30, still=1),
        *(_minatar(game, updates=90) for game in (*MINATAR, "Seaquest")),
        *(_minatar(game, MILLION, "-1M") for game in (*MINATAR, "Seaquest")),
        _digits(),
        _recall(),
        _modular(),
        # Time limits are shorter than usual, so that an interval's score does not cost more than its training.
        _in_pool("LunarLander", "LunarLander-v3", limit=500, updates=210, episodes=16, still=0),
        _in_pool("BipedalWalker", "BipedalWalker-v3", limit=800, updates=120, episodes=8),
        _in_pool("LunarLander-full", "LunarLander-v3", limit=1000, updates=300, episodes=8, still=0),
        _in_pool("BipedalWalker-full", "BipedalWalker-v3", limit=1600, updates=300, episodes=8),
        _in_pool("Hopper", "Hopper-v5", limit=1000, updates=150, episodes=8),
        _in_pool("Walker2d", "Walker2d-v5", limit=1000, updates=150, episodes=8),
        _in_pool("Reacher", "Reacher-v5", limit=50, updates=150, episodes=16),
        _in_pool("LunarLander-short", "LunarLander-v3", limit=500, updates=90, episodes=8, still=0),
        # Tasks that also run on the device, in EnvPool's implementation and with wider networks.
        _in_pool("MountainCar-pool", "MountainCar-v0", limit=200, updates=90, episodes=16, still=1),
        _in_pool("Pendulum-raw-pool", "Pendulum-v1", limit=200, updates=150, episodes=16, raw=True),
        _in_pool("CartPole-raw-pool", "CartPole-v1", limit=500, updates=30, episodes=16, raw=True),
    )
}
