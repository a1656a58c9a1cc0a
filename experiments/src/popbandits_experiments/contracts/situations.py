"""Questions for an explorer: histories of every kind, with parents and pending configurations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from popbandits.history import Config, History, Mode, Observation
from popbandits.space import Space

Score = Callable[[float, int], float]
"""(score of the toy task, index in the history) -> score; NaN for a failure."""


@dataclass(frozen=True)
class Question:
    """The arguments of `explore_round`, except for the generator."""

    name: str
    space: Space
    history: History
    pending: Sequence[Config]
    parents: Sequence[Observation | None]


def toy_score(space: Space, config: Config) -> float:
    """Return the score of a configuration in a toy task: numbers near 0.3 and second labels are best.

    >>> toy_score(Space({"x": (0.0, 1.0), "aug": ["crop", "flip"]}), {"x": 0.3, "aug": "flip"})
    1.5
    """
    points = space.encode([config])
    known = points.x[np.isfinite(points.x)]
    return float(1.0 - np.square(known - 0.3).sum() + 0.5 * (points.h == 1).sum())


def toy_history(
    space: Any,
    rounds: int = 3,
    size: int = 3,
    score: Score = lambda value, index: value,
    mode: Mode = "max",
    measured: bool = True,
) -> History:
    """Build a history in which members draw configurations and add up their toy scores; the last copies member 0.

    If `measured` is False, the score before each interval is unknown.

    >>> toy_history({"x": (0.0, 1.0)}, rounds=2, size=2)[3].parent
    (0, 0)
    """
    space = Space(space)
    history = History(space, mode=mode, size=size, rounds=max(rounds, 1) * 4)
    drawn = space.decode(space.sample(size * rounds, np.random.default_rng(0)))
    for index, config in enumerate(drawn):
        round_, member = divmod(index, size)
        before = history.find((0 if member == size - 1 else member, round_ - 1))
        start = None if before is None or before.failed else before
        value = score((0.0 if start is None else history.sign * start.score) + toy_score(space, config), index)
        history.append(
            Observation(
                member=member,
                round=round_,
                config=config,
                parent=None if start is None else start.key,
                score_before=np.nan if start is None or not measured else start.score,
                score=history.sign * value,
                status="completed" if np.isfinite(value) else "failed",
            )
        )
    return history


A_FEW_ROUNDS = "a few rounds"

SITUATIONS: dict[str, Callable[..., History]] = {
    A_FEW_ROUNDS: toy_history,
    "an empty history": partial(toy_history, rounds=0),
    "one observation": partial(toy_history, rounds=1, size=1),
    "equal scores": partial(toy_history, score=lambda value, index: 1.0),
    "failures only": partial(toy_history, score=lambda value, index: np.nan),
    "some failures": partial(toy_history, score=lambda value, index: np.nan if index % 4 == 1 else value),
    "unknown scores before": partial(toy_history, measured=False),
    "a huge score": partial(toy_history, score=lambda value, index: 1e30 if index == 4 else value),
    "tiny scores": partial(toy_history, score=lambda value, index: 1e-30 * value),
}
"""Histories in every state, by name."""


def question(space: Any, situation: str = A_FEW_ROUNDS, mode: Mode = "max") -> Question:
    """Build a question: two members continue from the latest completed observations, one starts afresh, one is pending.

    >>> question({"x": (0.0, 1.0)}, "one observation").parents[0].key
    (0, 0)
    """
    space = Space(space)
    history = SITUATIONS[situation](space, mode=mode)
    done = [o for o in reversed(history) if not o.failed][:2]
    others = space.decode(space.sample(1, np.random.default_rng(1)))
    if len(history) > 1:
        return Question(situation, space, history, others, [*done, None])
    return Question(situation, space, history, [], done or (None,))
