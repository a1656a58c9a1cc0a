"""The paper's task on Procgen: the tuned space, the published values, and an agent that is tested regularly."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from popbandits.agent import Outcome
from popbandits.errors import AgentError, ArgumentError, SpaceError
from popbandits.space import Space, log
from popbandits_experiments.paper.procgen.agent import (
    PPO,
    DrAC,
    LevelChoice,
    Precision,
    ScoreOn,
    Settings,
    UCBDrAC,
    threads_a_member,
)
from popbandits_experiments.paper.procgen.augmentations import AUGMENTATIONS
from popbandits_experiments.paper.procgen.environments import Difficulty
from popbandits_experiments.paper.procgen.learner import Sizes
from popbandits_experiments.paper.procgen.methods import PUBLISHED, REPLAY_PUBLISHED

Algorithm = Literal["ppo", "drac", "ucb-drac"]
LRScale = Literal["linear", "log"]
ALGORITHMS: Mapping[Algorithm, type[PPO]] = {"ppo": PPO, "drac": DrAC, "ucb-drac": UCBDrAC}

SPACE: Mapping[str, Any] = {
    "lr": (1e-5, 1e-3),  # On a linear scale, as in the published code (procgen_autorl: search_space.py, utils.py).
    "clip": (0.01, 0.5),
    "entropy": (0.0, 0.2),
    "alpha": (0.01, 0.5),
    "augmentation": list(AUGMENTATIONS),
}
"""Space that a population tunes: DrAC's hyperparameters, with the ranges of the paper's appendix."""

REPLAY_SPACE: Mapping[str, Any] = {"temperature": log(0.05, 2.0), "staleness": (0.0, 1.0)}
"""What level replay adds to the space: a little more than the values that its paper tries (Jiang et al. 2021)."""

TESTED_ON = ("train", "test")


def tuned_space(lr_scale: LRScale = "linear", levels: LevelChoice = "uniform") -> dict[str, Any]:
    """Return the space that a population tunes; the paper's has its learning rate on a linear scale."""
    scaled = {"lr": log(*SPACE["lr"])} if lr_scale == "log" else {}
    return dict(SPACE) | scaled | ({} if levels == "uniform" else dict(REPLAY_SPACE))


def published_values(algorithm: Algorithm, levels: LevelChoice = "uniform") -> dict[str, Any]:
    """Return the published values of an algorithm's hyperparameters.

    >>> published_values("ppo")
    {'lr': 0.0005, 'clip': 0.2, 'entropy': 0.01}
    """
    own = {name: PUBLISHED[name] for name in ALGORITHMS[algorithm].HYPERPARAMETERS}
    return own | ({} if levels == "uniform" else dict(REPLAY_PUBLISHED))


def values_alone(algorithm: Algorithm, levels: LevelChoice, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters of an agent that trains alone: the published ones, but for its own.

    >>> values_alone("ppo", "uniform", {"clip": 0.45})
    {'lr': 0.0005, 'clip': 0.45, 'entropy': 0.01}
    """
    values = published_values(algorithm, levels)
    if unknown := own.keys() - values:
        raise ArgumentError(f"{algorithm} has the hyperparameters {', '.join(values)}, got {min(unknown)!r}")
    tuned, given = tuned_space(levels=levels), {**values, **own}
    try:
        Space({name: tuned[name] for name in values}).check(given)
    except SpaceError as error:
        raise ArgumentError(f"an agent's own values must be in the ranges that populations tune: {error}") from error
    return given


@dataclass(frozen=True)
class Task:
    """Make agents from seeds. All fields are plain values, so a run's record can recreate the task."""

    game: str
    algorithm: Algorithm
    rounds: int
    """Intervals of a run; an agent is tested after the last one."""
    interval: int = 500_000
    environments: int = 64
    steps: int = 256
    """Steps of a rollout."""
    epochs: int = 3
    minibatches: int = 8
    test_every: int = 10
    """Intervals between two tests."""
    episodes: int = 100
    """Episodes of a test, on each set of levels."""
    difficulty: Difficulty = "easy"
    score_on: ScoreOn = "training"
    """Episodes that give the score: the last training episodes, or episodes on validation levels."""
    precision: Precision = "float32"
    device: str = "cpu"
    at_a_time: int = 1
    """Number of agents that share the cores of this machine."""
    levels: LevelChoice = "uniform"
    """How training levels are drawn; see `Settings`."""

    def __call__(self, seed: int) -> "Examined":
        """Make a new agent."""
        return Examined(ALGORITHMS[self.algorithm](seed, self.settings()), seed, self)

    def settings(self) -> Settings:
        """Return the settings of the agents; raise ArgumentError if one of them is wrong."""
        return Settings(
            self.game,
            self.difficulty,
            interval=self.interval,
            sizes=Sizes(self.environments, self.steps, self.epochs, self.minibatches),
            device=self.device,
            precision=self.precision,
            threads=threads_a_member(self.at_a_time, self.device),
            score_on=self.score_on,
            episodes=self.episodes,
            levels=self.levels,
        )


class Examined:
    """An agent that is tested every few intervals and after the last: 100 episodes each on training and test levels.

    The mean returns are `train_return` and `test_return` of the interval's metrics. A test takes time, unlike an
    interval's own score, so not every interval has one. The levels depend on a seed in the checkpoint and the interval.
    """

    def __init__(self, agent: PPO, seed: int, task: Task) -> None:
        self._agent, self._seed, self._task = agent, seed, task
        self._intervals = 0

    def assigned(self, member: int, round_: int) -> None:
        """Set the number of the next interval; a checkpoint does not count failed intervals."""
        self._agent.assigned(member, round_)
        self._intervals = round_

    def train(self, config: dict[str, Any], /) -> Outcome:
        """Train for an interval, and test if a test is due."""
        outcome = self._agent.train(config)
        if outcome.metrics.get("episodes") == 0:
            raise AgentError(
                f"an interval must be long enough for an episode of {self._task.game} to end, "
                f"got {self._task.interval} steps in {self._task.environments} environments"
            )
        self._intervals += 1
        due = self._intervals % self._task.test_every == 0 or self._intervals == self._task.rounds
        if not due or math.isnan(outcome.score):  # A failed agent is not worth a test.
            return outcome
        seed = int(np.random.SeedSequence([self._seed, self._intervals]).generate_state(1)[0])
        returns = self._agent.evaluate(TESTED_ON, seed=seed)
        measured = {f"{levels}_return": float(np.mean(returns[levels])) for levels in TESTED_ON}
        return replace(outcome, metrics={**outcome.metrics, **measured})

    def close(self) -> None:
        """Close the agent."""
        self._agent.close()

    def applied(self) -> dict[str, Any]:
        """Return the hyperparameters in use."""
        return self._agent.applied()

    def save(self, directory: Path, /) -> None:
        """Write the agent, and the seed and number of its tests."""
        self._agent.save(directory)
        (directory / "tests.json").write_text(json.dumps({"seed": self._seed, "intervals": self._intervals}))

    def load(self, directory: Path, /) -> None:
        """Restore a saved agent, except for the hyperparameters."""
        self._agent.load(directory)
        state = json.loads((directory / "tests.json").read_text())
        self._seed, self._intervals = state["seed"], state["intervals"]
