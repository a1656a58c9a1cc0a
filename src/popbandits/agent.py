"""The agent contract: what a class needs to be trained, for one member or for a whole population. No base class."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Outcome:
    """The result of a training interval, for agents that report more than a score.

    >>> Outcome(score=21.5, steps=2048, metrics={"loss": 0.1}).score
    21.5

    Args:
        score: Score at the end of the interval; NaN if it failed.
        steps: Budget spent, such as environment steps. None (default) if every interval spends the same.
        metrics: Other values to record: numbers, strings, and lists and dicts of them. Default {}. One named `cost`, of
            the interval in any unit, is what `max_cost` limits and reports add up.
        standard_error: Standard error of the score. For a mean over n episodes: their standard deviation divided by
            sqrt(n). None (default) if unknown. For selections that allow for noise; recorded as a metric of this name.
    """

    score: float
    steps: float | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    standard_error: float | None = None


class Agent(Protocol):
    """A member of a population: it trains for an interval, saves a checkpoint and loads one.

    Every interval begins with `load` (its own last checkpoint, or a stronger member's), unless the agent is new, and
    ends with `save`. So the checkpoint must hold everything that lasts between intervals: weights, optimizer, counters,
    random states. It must not restore hyperparameters: those passed to `train` apply. Let `train` create again what
    cannot be saved, such as environments.

    Four optional methods are called if the agent has them. `applied() -> config` returns the hyperparameters it really
    trained with (all, or those it knows); the run stops if one differs from what was requested. `assigned(member,
    round)` is called before every `train` and names the next interval: for work that is due in certain rounds, and so
    that two members that resume from one checkpoint with the same hyperparameters can draw different random numbers.
    `evaluate(seed) -> float | Outcome` scores a loaded checkpoint on fresh episodes or held-out data: it does not
    train, changes nothing that is saved, and returns the same for the same seed. At the end of a run it is called
    several times, with seeds that took no part in training, to choose what the run hands over. The seed is passed by
    name: a method of this name that needs other arguments is left alone. `close()` releases the agent's resources when
    it is no longer needed.
    """

    def train(self, config: dict[str, Any], /) -> "float | Outcome":
        """Train for one interval and return the score at its end; NaN if it failed.

        Args:
            config: Hyperparameters to train with.
        """

    def save(self, directory: Path, /) -> None:
        """Write a checkpoint to a folder.

        Args:
            directory: An empty folder.
        """

    def load(self, directory: Path, /) -> None:
        """Restore a checkpoint, except for the hyperparameters.

        Args:
            directory: The folder that `save` wrote; read it only.
        """


class BatchedAgents(Protocol):
    """A whole population in one program, for `tune(make_agents, ..., engine="batched")`.

    `make_agents(seeds)` builds it, one member for each seed. A member must depend only on its own state and its own
    hyperparameters, random numbers included: keep a generator (or a key, or a seed and a counter) for each member, and
    copy, save and load it with the weights. Then a member trains the same whatever the others do, and a resumed run
    continues as if it had never stopped.

    Members stay in memory: `load` is called only for a member that is not, after a resume or a failure. As for an
    `Agent`, the checkpoint must hold everything that lasts between intervals; `popbandits check` tests that.

    Three optional methods are called if they exist. `applied() -> [config, ...]` returns the hyperparameters each
    member really trained with. `assigned([(member, round), ...])` is called before every `train` and names each
    member's next interval. `close()` releases all resources. A batch is not evaluated at the end of a run: what it
    hands over is chosen by its scores.
    """

    def train(self, configs: list[dict[str, Any]], /) -> "Sequence[float | Outcome]":
        """Train every member for one interval and return their scores, in order.

        NaN or an infinity means that this member diverged; the others are not affected. The number of members never
        changes: a member that is not due trains as a copy of another.

        Args:
            configs: Hyperparameters of each member.
        """

    def copy(self, sources: list[int], /) -> None:
        """Replace members by copies of others, all at once.

        Args:
            sources: For each member i, the member to copy, as it is before the call; i itself to leave it unchanged.
        """

    def reset(self, member: int, seed: int, /) -> None:
        """Replace a member by a new one.

        Args:
            member: Number of the member.
            seed: Seed of the new member, as passed to `make_agents`.
        """

    def save(self, member: int, directory: Path, /) -> None:
        """Write a member's checkpoint to a folder.

        Args:
            member: Number of the member.
            directory: An empty folder.
        """

    def load(self, member: int, directory: Path, /) -> None:
        """Restore a checkpoint, of any member, into a member.

        Args:
            member: Number of the member.
            directory: The folder that `save` wrote; read it only.
        """


MakeAgent = Callable[..., Agent]
"""Builds an agent from a seed, or without one if it takes no argument."""

MakeAgents = Callable[[list[int]], BatchedAgents]
"""Builds a population, one member for each seed."""
