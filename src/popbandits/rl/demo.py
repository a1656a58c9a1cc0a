"""The task of `popbandits demo`: PPO on the lunar lander, which has to land softly between two flags.

Three runs share a seed and the number of steps per member: a tuned population, random search with as many members, and
a single agent with the usual settings. The first member of each population begins with the usual settings too. The best
checkpoint of each run is evaluated on fresh episodes (`evaluate`), since the best of many noisy scores is partly luck.
Equal seeds give equal starts.

A return of 200 counts as solved. Crashing at once returns about -150, hovering until the time limit about 150.
"""

from pathlib import Path
from typing import Any

from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer

from popbandits.rl.ppo import PPO

POPULATION = 4
ROUNDS = 20
EVALUATIONS = 4
"""Evaluations of each candidate at the end of a run, of 32 episodes each."""

DEFAULTS: dict[str, Any] = {
    "lr": 3e-4,
    "clip": 0.2,
    "entropy": 0.0,
    "gae_lambda": 0.95,
    "epochs": 10,
    "optimizer": "adam",
    "beta1": 0.9,
    "beta2": 0.999,
}
"""The usual settings: the defaults of PPO in Stable-Baselines3."""


def space() -> ConfigurationSpace:
    """Build a space of wide ranges, as for an unknown task; lr covers what each optimizer needs."""
    optimizer = Categorical("optimizer", ["adam", "rmsprop", "sgd"])
    conditional = {
        "adam": [Float("beta1", (0.5, 0.99)), Float("beta2", (0.9, 0.9999))],
        "rmsprop": [Float("smoothing", (0.9, 0.999))],
        "sgd": [Float("momentum", (0.0, 0.99))],
    }
    whole = ConfigurationSpace(
        space=[
            Float("lr", (1e-5, 1e-1), log=True),
            Float("clip", (0.05, 0.5)),
            Float("entropy", (0.0, 0.05)),
            Float("gae_lambda", (0.8, 1.0)),
            Integer("epochs", (1, 10)),
            optimizer,
        ]
    )
    for name, parameters in conditional.items():
        whole.add(*parameters, *(EqualsCondition(parameter, optimizer, name) for parameter in parameters))
    return whole


def make_agent(seed: int) -> PPO:
    """Make an agent of the demo."""
    return PPO(seed)


def evaluate(checkpoint: Path, episodes: int = 256, seed: int = 0) -> float:
    """Return the mean return of a checkpoint's policy in fresh episodes."""
    agent = make_agent(seed)
    agent.load(checkpoint)
    return agent.evaluate(episodes, seed=seed)
