"""What `popbandits demo` tunes: PPO on the lunar lander, which has to come down softly between two flags.

Three runs share a seed and the steps of a member: one is tuned, one is random search with as many members, and in one a
single agent has the usual settings. What is compared is what each hands over, its best checkpoint, on fresh episodes
(`evaluate`), since the best of many noisy scores flatters whoever was lucky. Equal seeds give equal starts.

A return of 200 counts as solved; who crashes at once gets about -150, and who hovers until the time is up some 50.
"""

from pathlib import Path
from typing import Any

from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer

from popbandits.rl.ppo import PPO

POPULATION = 4
ROUNDS = 14

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
"""The usual settings: those of PPO in Stable-Baselines3 when nothing is given."""


def space() -> ConfigurationSpace:
    """Wide ranges, as of somebody who has not met the task: lr has to suit each of the optimizers."""
    optimizer = Categorical("optimizer", ["adam", "rmsprop", "sgd"])
    belonging = {
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
    for name, parameters in belonging.items():
        whole.add(*parameters, *(EqualsCondition(parameter, optimizer, name) for parameter in parameters))
    return whole


def make_agent(seed: int) -> PPO:
    """An agent of the demo."""
    return PPO(seed)


def evaluate(checkpoint: Path, episodes: int = 256, seed: int = 0) -> float:
    """The mean return of a checkpoint's policy in fresh episodes."""
    agent = make_agent(seed)
    agent.load(checkpoint)
    return agent.evaluate(episodes, seed)
