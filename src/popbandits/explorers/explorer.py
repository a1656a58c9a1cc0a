"""The contract of an explorer: it chooses the next configuration of a member from the history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.special import betaincinv

from popbandits.errors import ArgumentError
from popbandits.history import Config, History, Observation
from popbandits.selection import Selection
from popbandits.space import Points, Space
from popbandits.typing import FloatArray


@dataclass(frozen=True)
class Proposal:
    """A configuration, and a record of how it was chosen.

    Args:
        config: Configuration: a value for every active hyperparameter.
        decision: How it was chosen, in plain JSON values: what reports should show, and what the next decision needs
            from the history. Default {}.
    """

    config: Config
    decision: Mapping[str, Any] = field(default_factory=dict)


class Explorer:
    """Base class of explorers. Subclasses define `explore`, or `explore_round` if one model serves several members.

    Both are pure functions of their arguments: no memory, no randomness except `rng`.

    >>> class Middle(Explorer):
    ...     def explore(self, space, history, pending, parent, rng):
    ...         return {"lr": 0.5}
    >>> Middle().explore_round(None, [], [], [None], None)[0].config
    {'lr': 0.5}
    """

    exploits: bool = True
    """True if weak members load the weights of strong ones."""
    restarts: bool = False
    """True if every interval trains from scratch with a new configuration."""
    selection: Selection | None = None
    """The method's own selection, used by a run that names none; None for truncation."""
    concentration: float = 1.0
    """Concentration of first configurations at the middle of ranges: numbers come from Beta(c, c); 1 is uniform."""
    around_start: bool = False
    """True if draws that are concentrated lean to the configurations given as `start`, where there are any."""
    earlier: ClassVar[Mapping[str, Any]] = {}
    """Former values of settings that older records lack, so that a run on record goes on as it began."""

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
            history: Observations before this decision.
            pending: Configurations that other members train with, or are about to.
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
            history: Observations before this decision.
            pending: Configurations that other members train with, or are about to.
            parents: For each member the observation whose weights it will start from; None for a fresh start.
            rng: Generator to draw from.
        """
        chosen: list[Config] = []
        for parent in parents:
            # Passed on as it is if possible: in a large population, reading all of it costs more than deciding.
            others = [*pending, *chosen] if chosen else pending
            chosen.append(self.explore(space, history, others, parent, rng))
        return [Proposal(config) for config in chosen]


class _Plain(Explorer):
    """Adapts any object with an `explore` method."""

    def __init__(self, plain: Any):
        self.plain = plain
        self.exploits = getattr(plain, "exploits", Explorer.exploits)
        self.restarts = getattr(plain, "restarts", Explorer.restarts)
        self.selection = getattr(plain, "selection", Explorer.selection)
        self.concentration = getattr(plain, "concentration", Explorer.concentration)
        self.around_start = getattr(plain, "around_start", Explorer.around_start)

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
        """Call the object's `explore`."""
        config: Config = self.plain.explore(space, history, pending, parent, rng)
        return config


def as_explorer(method: Any) -> Explorer:
    """Return an explorer: `method` itself, or an adapter of any object with an `explore` method.

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


def concentrate(space: Space, u: FloatArray, concentration: float, around: Points | None = None) -> FloatArray:
    """Convert uniform quantiles (n, d + m) of numbers to those of Beta(c, c); labels stay uniform.

    With `around`, n points, numbers come from the beta distribution of the same weight whose mode is the point's value,
    and one half of the labels are the point's. A parameter with a distribution of its own keeps it, with and without
    `around`: its quantiles stay uniform.
    """
    if concentration == 1:
        return u
    d, weight = len(space.numerical), 2 * (concentration - 1)
    mode = 0.5 if around is None else np.where(np.isnan(around.x), 0.5, around.x)
    own = np.array([number.prior is not None for number in space.numerical], dtype=np.bool_)
    made = u.copy()
    made[:, :d] = np.where(own, u[:, :d], betaincinv(1 + weight * mode, 1 + weight * (1 - mode), u[:, :d]))
    if around is not None:
        for j, choice in enumerate(space.categorical):
            if not choice.weighted:
                made[:, d + j] = choice.prefer(around.h[:, j], u[:, d + j])
    return made


def sample_config(space: Space, rng: np.random.Generator, concentration: float = 1.0) -> Config:
    """Draw a configuration, uniform in each parameter's own scale, or concentrated at the middle or what is known."""
    if concentration != 1:
        nothing = Points(np.full((1, len(space.numerical)), np.nan), np.full((1, len(space.categorical)), -1))
        point = complete_point(space, nothing, rng, concentration=concentration)
        if point is not None:
            return space.decode(point)[0]
    return space.decode(space.sample(1, rng))[0]


def complete_point(
    space: Space, points: Points, rng: np.random.Generator, tries: int = 100, concentration: float = 1.0
) -> Points | None:
    """Complete one point by drawing its open values (NaN, -1); None if no draw is legal."""
    u = rng.random((tries, len(space.numerical) + len(space.categorical)))
    known = space.around if concentration != 1 else None
    around = None if known is None else known[rng.integers(len(known), size=tries)]
    drawn = space.from_quantiles_full(concentrate(space, u, concentration, around))
    whole = space.activate(
        Points(np.where(np.isnan(points.x), drawn.x, points.x), np.where(points.h < 0, drawn.h, points.h))
    )
    legal = np.flatnonzero(space.legal(whole))
    return whole[legal[:1]] if len(legal) else None
