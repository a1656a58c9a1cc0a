"""Histories written by hand, for the tests of warnings."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer

from popbandits.history import Config, History, Mode, Observation

Score = Callable[[int, int, np.random.Generator], float]
"""Gives the score of a member in a round."""


def space(name: str = "lr") -> ConfigurationSpace:
    """A learning rate, other numbers of each kind, and one that is not always active."""
    made = ConfigurationSpace(
        {
            name: Float(name, (1e-5, 1e-1), log=True),
            "clip": Float("clip", (0.0, 1.0)),
            "epochs": Integer("epochs", (1, 8)),
            "batch": Integer("batch", (16, 4096), log=True),
            "optimizer": Categorical("optimizer", ["adam", "sgd"]),
            "momentum": Float("momentum", (0.0, 1.0)),
        }
    )
    made.add(EqualsCondition(made["momentum"], made["optimizer"], "sgd"))
    return made


def middle(name: str = "lr") -> Config:
    """A configuration that is far from all bounds."""
    return {name: 1e-3, "clip": 0.5, "epochs": 4, "batch": 256, "optimizer": "adam"}


def rising(member: int, round_: int, rng: np.random.Generator) -> float:
    """Gain the same in each round; members differ."""
    return 10.0 * round_ + 5.0 * member


def played(
    score: Score = rising,
    chosen: Callable[[int], Config] | None = None,
    rounds: int = 30,
    size: int = 4,
    mode: Mode = "max",
    error: float | None = None,
    name: str = "lr",
    seed: int = 0,
    **start: Any,
) -> History:
    """A run whose last member goes on from the first one's weights each round, with a configuration that is chosen.

    Args:
        chosen: gives that configuration by the round; without it everybody trains with one all the time.
        error: the standard error that is told with each score.
        start: what differs from `middle` in the configuration of all others.
    """
    rng = np.random.default_rng(seed)
    history = History(space(name), mode=mode, size=size, rounds=rounds)
    for round_ in range(rounds):
        for member in range(size):
            copies = chosen is not None and member == size - 1
            parent = (0 if copies else member, round_ - 1) if round_ else None
            before = None if parent is None else history.find(parent)
            history.append(
                Observation(
                    member,
                    round_,
                    chosen(round_) if chosen is not None and copies else middle(name) | start,
                    parent,
                    math.nan if before is None else before.score,
                    score(member, round_, rng),
                    metrics={} if error is None else {"standard_error": error},
                )
            )
    return history


def stuck_then_rising(name: str) -> History:
    """A run that learns nothing for 60 observations, with a low learning rate of this name, and then goes well."""
    return played(lambda m, t, rng: 5.0 + m + max(0, t - 15) * 10.0, rounds=50, name=name, **{name: 2e-5})
