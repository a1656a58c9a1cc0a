"""The contract of an explorer: who picks the next configuration of a member, from what happened so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import betaincinv

from popbandits.errors import ArgumentError
from popbandits.history import Config, History, Observation
from popbandits.selection import Selection
from popbandits.space import Points, Space
from popbandits.typing import FloatArray


@dataclass(frozen=True)
class Proposal:
    """A configuration, and what should be remembered of how it was chosen.

    Args:
        config: Give the configuration: a value for every active hyperparameter.
        decision: Record how it was chosen, in plain JSON values. Default {}. Give what reports should show, and what
            the next decision should find in the history.
    """

    config: Config
    decision: Mapping[str, Any] = field(default_factory=dict)


class Explorer:
    """A method of exploring. Subclasses define `explore`, or `explore_round` where one model serves several members.

    Both are pure functions of their arguments: no memory, no randomness but `rng`.

    >>> class Middle(Explorer):
    ...     def explore(self, space, history, pending, parent, rng):
    ...         return {"lr": 0.5}
    >>> Middle().explore_round(None, [], [], [None], None)[0].config
    {'lr': 0.5}
    """

    exploits: bool = True
    """Whether weak members load the weights of strong ones."""
    restarts: bool = False
    """Whether every interval trains from scratch with a new configuration."""
    selection: Selection | None = None
    """The selection that the method was made with; a run that names none has this one, or truncation."""
    concentration: float = 1.0
    """Lean of the first configurations to the middle of ranges: numbers come from Beta(c, c), where 1 is uniform."""

    def explore(
        self,
        space: Space,
        history: History,
        pending: Sequence[Config],
        parent: Observation | None,
        rng: np.random.Generator,
    ) -> Config:
        """Choose the next configuration of one member.

        Args:
            space: The search space.
            history: What happened before this decision.
            pending: Configurations that other members are training with, or are about to.
            parent: Observation whose weights the member will start from; None for a fresh start.
            rng: Generator to draw from.
        """
        if type(self).explore_round is Explorer.explore_round:
            raise NotImplementedError(f"{type(self).__name__} must define explore or explore_round")
        return self.explore_round(space, history, pending, [parent], rng)[0].config

    def explore_round(
        self,
        space: Space,
        history: History,
        pending: Sequence[Config],
        parents: Sequence[Observation | None],
        rng: np.random.Generator,
    ) -> list[Proposal]:
        """Choose the next configurations of several members of one round; each is pending for those after it.

        Args:
            space: The search space.
            history: What happened before this decision.
            pending: Configurations that other members are training with, or are about to.
            parents: For each member the observation whose weights it will start from; None for a fresh start.
            rng: Generator to draw from.
        """
        chosen: list[Config] = []
        for parent in parents:
            # As it is while it is all there is: in a large population, looking everybody's up costs more than deciding.
            training = [*pending, *chosen] if chosen else pending
            chosen.append(self.explore(space, history, training, parent, rng))
        return [Proposal(config) for config in chosen]


class _Plain(Explorer):
    """Somebody's object with an `explore` of the right form, in the clothes of an explorer."""

    def __init__(self, plain: Any):
        self.plain = plain
        self.exploits = getattr(plain, "exploits", Explorer.exploits)
        self.restarts = getattr(plain, "restarts", Explorer.restarts)
        self.selection = getattr(plain, "selection", Explorer.selection)
        self.concentration = getattr(plain, "concentration", Explorer.concentration)

    def __repr__(self) -> str:
        return repr(self.plain)

    def explore(
        self,
        space: Space,
        history: History,
        pending: Sequence[Config],
        parent: Observation | None,
        rng: np.random.Generator,
    ) -> Config:
        """What the plain object says."""
        config: Config = self.plain.explore(space, history, pending, parent, rng)
        return config


def as_explorer(method: Any) -> Explorer:
    """An explorer, or any object with its one method `explore`.

    >>> class Middle:
    ...     def explore(self, space, history, pending, parent, rng):
    ...         return {"lr": 0.5}
    >>> as_explorer(Middle()).explore_round(None, [], [], [None], None)[0].config
    {'lr': 0.5}
    """
    if isinstance(method, Explorer):
        return method
    if isinstance(method, type) or not callable(getattr(method, "explore", None)):
        raise ArgumentError(
            f"method must be an explorer, an object with a method explore, got {method!r}; make one, such as PBT()"
        )
    return _Plain(method)


def lean(u: FloatArray, numbers: int, concentration: float) -> FloatArray:
    """Turn uniform quantiles of the first `numbers` columns into those of Beta(c, c); labels stay uniform."""
    if concentration == 1:
        return u
    return np.concatenate([betaincinv(concentration, concentration, u[:, :numbers]), u[:, numbers:]], axis=1)


def sampled(space: Space, rng: np.random.Generator, concentration: float = 1.0) -> Config:
    """A configuration drawn from the space, uniform in each parameter's own scale, or leaning to the middle."""
    if concentration != 1:
        nothing = Points(np.full((1, len(space.numerical)), np.nan), np.full((1, len(space.categorical)), -1))
        point = completed(space, nothing, rng, concentration=concentration)
        if point is not None:
            return space.decode(point)[0]
    return space.decode(space.sample(1, rng))[0]


def completed(
    space: Space, points: Points, rng: np.random.Generator, tries: int = 100, concentration: float = 1.0
) -> Points | None:
    """One point made whole and legal, by drawing what is open (NaN, -1) in it; None if no draw is legal."""
    u = rng.random((tries, len(space.numerical) + len(space.categorical)))
    drawn = space.from_quantiles_full(lean(u, len(space.numerical), concentration))
    whole = space.activate(
        Points(np.where(np.isnan(points.x), drawn.x, points.x), np.where(points.h < 0, drawn.h, points.h))
    )
    legal = np.flatnonzero(space.legal(whole))
    return whole[legal[:1]] if len(legal) else None
