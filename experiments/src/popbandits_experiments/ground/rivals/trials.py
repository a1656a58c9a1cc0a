"""Trials on slots: a scheduler decides for every round which trials train, and what the user gets in the end.

| word | meaning |
|---|---|
| trial | a configuration, and the weights that are trained with it |
| interval | what one slot trains in one round: the unit of the budget |
| slot | a place that trains one trial at a time; a population of as many members has the same number |
| R | `rounds`: intervals of a whole training, as many as a member of a population has |
| budget | slots x R intervals: the environment steps of a population, never more |

A slot may stay idle, which costs nothing; a run may last more than R rounds, then. A trial that fails is out, and what
halving had planned for it is not trained.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from ConfigSpace import ConfigurationSpace

from popbandits.explorers import NearPBT
from popbandits.space import Space
from popbandits.space.drawing import draw_config, draw_points
from popbandits.space.points import Points

Belief = Literal["uniform", "start"]
"""Distribution of new configurations: the space's own, or the default's prior around the usual settings."""


@dataclass(eq=False)
class Trial:
    """A configuration that is trained, paused and resumed."""

    number: int
    config: dict[str, Any]
    scores: list[float] = field(default_factory=list)
    """Score after each interval."""

    @property
    def age(self) -> int:
        """Intervals trained."""
        return len(self.scores)

    @property
    def failed(self) -> bool:
        """True if its last interval failed; it never goes on."""
        return bool(self.scores) and not math.isfinite(self.scores[-1])

    @property
    def last(self) -> float:
        """Last score."""
        return self.scores[-1]


class Draws:
    """New configurations, in the order of the trials; with a start the first is the start itself."""

    def __init__(self, space: ConfigurationSpace, belief: Belief, seed: int):
        plain, self.rng = Space(space), np.random.default_rng(seed)
        self._first = [dict(space.get_default_configuration())] if belief == "start" else []
        self.space = plain.with_prior(NearPBT().make_prior(plain, self._first))

    def draw(self) -> dict[str, Any]:
        """Draw a configuration."""
        return self._first.pop() if self._first else draw_config(self.space, self.rng)

    def points(self, count: int) -> Points:
        """Draw encoded configurations, never the start."""
        return draw_points(self.space, count, self.rng)


class Scheduler(ABC):
    """Base of rivals: counts the budget, numbers the trials, and asks its subclass for one trial after another."""

    def __init__(self, draws: Draws, slots: int, rounds: int):
        self.draws, self.slots, self.rounds = draws, slots, rounds
        self.trials: list[Trial] = []
        self.spent = 0
        self.training: list[Trial] = []
        """Trials of the round in progress."""

    @property
    def budget(self) -> int:
        """Intervals that may be trained."""
        return self.slots * self.rounds

    def next_round(self) -> list[Trial]:
        """Choose the trials that train next, at most one for each slot; none if the run is over."""
        self.training = []
        while len(self.training) < min(self.slots, self.budget - self.spent):
            if (trial := self.choose(self.training)) is None:
                break
            assert trial not in self.training
            assert trial.age < self.rounds
            assert not trial.failed
            self.training.append(trial)
        self.spent += len(self.training)
        return list(self.training)

    def tell(self, scores: Sequence[float]) -> None:
        """Take the scores of the trials of a round, NaN for failures, in their order."""
        for trial, score in zip(self.training, scores, strict=True):
            trial.scores.append(score)
        done, self.training = self.training, []
        self.learn(done)

    @abstractmethod
    def choose(self, chosen: Collection[Trial]) -> Trial | None:
        """Choose a trial to train for an interval besides the ones already chosen; None if there is none now."""

    def learn(self, trained: Sequence[Trial]) -> None:  # noqa: B027
        """Note that a round is over; the trials have their scores."""

    @abstractmethod
    def may_go_on(self, trial: Trial) -> bool:
        """Tell whether a trial may train again; the states of the others are forgotten."""

    def config_of(self, trial: Trial) -> dict[str, Any]:
        """Return the configuration of a trial's next interval."""
        return trial.config

    def start(self) -> Trial:
        """Start a trial with a new configuration."""
        self.trials.append(Trial(len(self.trials), self.draws.draw()))
        return self.trials[-1]

    @property
    def incumbent(self) -> Trial | None:
        """The trial with the best last score among those that trained longest; None if all failed."""
        sound = [trial for trial in self.trials if trial.scores and not trial.failed]
        return max(sound, key=lambda trial: (trial.age, trial.last), default=None)
