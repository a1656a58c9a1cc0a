"""Histories whose best configuration is known, for explorers to find."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from popbandits.history import Config, History, Observation
from popbandits.space import Space

Gain = Callable[[Config, int], float]
"""(config, round) -> what an interval with it adds to the score; NaN for a failure."""


def trained(
    space: Any,
    gain: Gain,
    rounds: int = 8,
    size: int = 4,
    configs: Callable[[int], Sequence[Config]] | None = None,
    decision: Any = None,
) -> History:
    """Members that never exploit, start from a known score of 0, and change their configuration every round.

    `configs` gives the configurations of a round; without it they are drawn from the space.
    """
    space = Space(space)
    history = History(space, size=size, rounds=50)
    rng = np.random.default_rng(0)
    for round_ in range(rounds):
        given = space.decode(space.sample(size, rng)) if configs is None else configs(round_)
        for member, config in enumerate(given):
            last = history.last_completed(member)
            before = 0.0 if last is None else last.score
            score = before + gain(config, round_)
            history.append(
                Observation(
                    member,
                    round_,
                    config,
                    None if last is None else last.key,
                    before,
                    score,
                    status="completed" if np.isfinite(score) else "failed",
                    decision=decision or {},
                )
            )
    return history


def peak(x: float, at: float) -> float:
    """A gain that is largest, 1, at `at`."""
    return 1.0 - 4.0 * (x - at) ** 2


def ask(explorer: Any, history: History, members: int = 1, seed: int = 0, pending: Sequence[Config] = ()) -> list[Any]:
    """Proposals for members that all start from member 0's last observation."""
    parents = [history.latest(0)] * members
    return explorer.explore_round(history.space, history, pending, parents, np.random.default_rng(seed))
