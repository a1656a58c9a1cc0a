"""The agent contract: whatever trains. A class of yours with three methods keeps it; there is nothing to inherit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Outcome:
    """What came of an interval of training, where there is more to say than a score.

    >>> Outcome(score=21.5, steps=2048, metrics={"loss": 0.1}).score
    21.5
    """

    score: float
    steps: float | None = None
    """Budget that was spent, such as environment steps; None if every interval spends the same."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else should be on record: numbers, strings, and lists and dicts of them."""


class Agent(Protocol):
    """What a population trains: it can train for an interval, be saved and be loaded.

    Every interval begins with `load` (of its own last checkpoint, or of a stronger member's) unless the agent was just
    built, and ends with `save`. So all that matters between intervals must be in the checkpoint: weights, optimizer,
    counters, random states. Hyperparameters must not come out of it: those of `train` hold.

    Three more methods are used where an agent has them. `applied() -> config` says with which hyperparameters it really
    trained (all, or those it can tell); a run stops if one differs from what was asked for. `assigned(member, round)`
    tells it, before every `train`, which interval of the run comes next: for what is due in certain rounds, and so that
    two members that go on from one checkpoint with the same hyperparameters can draw other random numbers. `close()`
    gives back what an agent holds when it is no longer needed.
    """

    def train(self, config: dict[str, Any], /) -> "float | Outcome":
        """Train for one interval with these hyperparameters; the score at its end, NaN if it failed."""
        ...

    def save(self, directory: Path, /) -> None:
        """Write everything to an empty folder."""
        ...

    def load(self, directory: Path, /) -> None:
        """Become what was saved there, but for the hyperparameters; the folder is not to be changed."""
        ...


MakeAgent = Callable[..., Agent]
"""Builds an agent from a seed (or from nothing, if it takes no argument)."""
