"""The agent contract: whatever trains, one member at a time or a whole population at once. No base class."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Outcome:
    """What came of an interval of training, where there is more to say than a score.

    >>> Outcome(score=21.5, steps=2048, metrics={"loss": 0.1}).score
    21.5

    Args:
        score: Score at the end of the interval; NaN if it failed.
        steps: Budget that was spent, such as environment steps. None (default) if every interval spends the same.
        metrics: Whatever else should be on record: numbers, strings, and lists and dicts of them. Default {}.
        standard_error: Standard error of the score: of a mean over n episodes, their standard deviation by the root of
            n. None (default) if unknown. Give it for selections that know noise; it is kept as a metric of this name.
    """

    score: float
    steps: float | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    standard_error: float | None = None


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
        """Train for one interval, and return the score at its end; NaN if it failed.

        Args:
            config: Hyperparameters to train with.
        """
        ...

    def save(self, directory: Path, /) -> None:
        """Write everything to a folder.

        Args:
            directory: An empty folder.
        """
        ...

    def load(self, directory: Path, /) -> None:
        """Become what was saved, but for the hyperparameters.

        Args:
            directory: The folder that `save` wrote, not to be changed.
        """
        ...


class BatchedAgents(Protocol):
    """A whole population in one program, for `tune(make_agents, ..., engine="batched")`.

    `make_agents(seeds)` builds it, a member for each seed. What a member does must depend on its own state and its own
    hyperparameters only, random numbers included: keep a generator (or a key, or a seed and a counter) for each member,
    and let it be copied, saved and loaded with the weights. Then a member trains alike in any company, and a resumed
    run goes on as if it had never stopped.

    Members go on from memory: `load` is called for what is not in memory, after a resume or a failure. All that matters
    between intervals must be in the checkpoint, as for an `Agent`; `popbandits check` tries whether it is.

    Three more methods are used where there are such. `applied() -> [config, ...]` says with which hyperparameters each
    member really trained. `assigned([(member, round), ...])` tells, before every `train`, which interval of the run
    each member does next. `close()` gives back what is held.
    """

    def train(self, configs: list[dict[str, Any]], /) -> "Sequence[float | Outcome]":
        """Train every member for one interval, and return their scores, in order.

        NaN or an infinity says that this member diverged; the others are not concerned. A member whose turn it is not
        trains as a copy of another, since the number of members never changes.

        Args:
            configs: Hyperparameters of each member.
        """
        ...

    def copy(self, sources: list[int], /) -> None:
        """Let members become copies of others, all at once.

        Args:
            sources: For each member i the member whose copy it becomes, as that is now; i itself to go on.
        """
        ...

    def reset(self, member: int, seed: int, /) -> None:
        """Let a member start afresh.

        Args:
            member: Number of the member.
            seed: Seed from which `make_agents` would build what it becomes.
        """
        ...

    def save(self, member: int, directory: Path, /) -> None:
        """Write everything of a member to a folder.

        Args:
            member: Number of the member.
            directory: An empty folder.
        """
        ...

    def load(self, member: int, directory: Path, /) -> None:
        """Let a member become what was saved, whichever member that was.

        Args:
            member: Number of the member.
            directory: The folder that `save` wrote, not to be changed.
        """
        ...


MakeAgent = Callable[..., Agent]
"""Builds an agent from a seed (or from nothing, if it takes no argument)."""

MakeAgents = Callable[[list[int]], BatchedAgents]
"""Builds a population, a member for each seed."""
