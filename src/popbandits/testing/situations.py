"""What an explorer may be asked: histories of every kind, with who explores and who is still training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from popbandits.history import Config, History, Mode, Observation
from popbandits.space import Space

Score = Callable[[float, int], float]
"""(what the toy task gives, place in the history) -> score; NaN for a failure."""


@dataclass(frozen=True)
class Question:
    """The arguments of `explore_round`, but for the generator."""

    name: str
    space: Space
    history: History
    pending: Sequence[Config]
    parents: Sequence[Observation | None]


def toy_score(space: Space, config: Config) -> float:
    """How good a configuration is at nothing in particular: numbers near 0.3 and second labels are best.

    >>> toy_score(Space({"x": (0.0, 1.0), "aug": ["crop", "flip"]}), {"x": 0.3, "aug": "flip"})
    1.5
    """
    points = space.encode([config])
    known = points.x[np.isfinite(points.x)]
    return float(1.0 - np.square(known - 0.3).sum() + 0.5 * (points.h == 1).sum())


def toy_history(
    space: Any, rounds: int = 3, size: int = 3, score: Score = lambda value, place: value, mode: Mode = "max"
) -> History:
    """Members that draw their configurations and add up what these are worth; member 0 is copied by the last one.

    >>> toy_history({"x": (0.0, 1.0)}, rounds=2, size=2)[3].parent
    (0, 0)
    """
    space = Space(space)
    history = History(space, mode=mode, size=size, rounds=max(rounds, 1) * 4)
    drawn = space.decode(space.sample(size * rounds, np.random.default_rng(0)))
    for place, config in enumerate(drawn):
        round_, member = divmod(place, size)
        before = history.latest(0 if member == size - 1 else member)
        start = None if before is None or before.failed else before
        told = score((0.0 if start is None else history.sign * start.score) + toy_score(space, config), place)
        history.append(
            Observation(
                member=member,
                round=round_,
                config=config,
                parent=None if start is None else start.key,
                score_before=np.nan if start is None else start.score,
                score=history.sign * told,
                status="completed" if np.isfinite(told) else "failed",
            )
        )
    return history


def questions(space: Any, mode: Mode = "max") -> dict[str, Question]:
    """Every situation that a run can be in, by name; "a few rounds" is the usual one.

    >>> questions({"x": (0.0, 1.0)})["one observation"].parents[0].key
    (0, 0)
    """
    space = Space(space)
    made = {
        "a few rounds": toy_history(space, mode=mode),
        "an empty history": toy_history(space, 0, mode=mode),
        "one observation": toy_history(space, 1, 1, mode=mode),
        "equal scores": toy_history(space, score=lambda value, place: 1.0, mode=mode),
        "failures only": toy_history(space, score=lambda value, place: np.nan, mode=mode),
        "some failures": toy_history(space, score=lambda value, place: np.nan if place % 4 == 1 else value, mode=mode),
        "a huge score": toy_history(space, score=lambda value, place: 1e30 if place == 4 else value, mode=mode),
        "tiny scores": toy_history(space, score=lambda value, place: 1e-30 * value, mode=mode),
    }
    return {name: _question(name, space, history) for name, history in made.items()}


def _question(name: str, space: Space, history: History) -> Question:
    """Two members that start from the latest completed observations, and one that starts afresh; one is training."""
    done = [o for o in history.backwards() if not o.failed][:2]
    others = space.decode(space.sample(1, np.random.default_rng(1)))
    return Question(name, space, history, others if len(history) else [], [*done, None] if len(history) > 1 else done or [None])
