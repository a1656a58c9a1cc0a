"""The contract of an explorer: it chooses the next configuration of a member from the history."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from popbandits.errors import ArgumentError
from popbandits.history import Config, History, Observation
from popbandits.selection import Selection
from popbandits.space import Prior, Space

Configs = Sequence[Config]
Parents = Sequence[Observation | None]
"""For each member the observation whose weights it will start from; None for a fresh start."""


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
    keeps_start: bool = False
    """True if a run that has a start, and does not say otherwise, keeps a member on it: the control."""
    earlier: ClassVar[Mapping[str, Any]] = {}
    """Former values of settings that older records lack, so that a run on record goes on as it began."""

    def make_prior(self, space: Space, start: Sequence[Config]) -> Prior | None:
        """Return the prior that a population puts on its space: first configurations and resampling draw from it.

        Args:
            space: The search space.
            start: First configurations that were given, if any.

        Returns:
            None for the distributions of the space itself, as the published methods draw.
        """
        return _former_prior(self, space, start)

    def explore(
        self, space: Space, history: History, pending: Configs, parent: Observation | None, rng: np.random.Generator
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
        self, space: Space, history: History, pending: Configs, parents: Parents, rng: np.random.Generator
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
    """Adapts any object with an `explore` method: what it offers stands in for what an explorer inherits."""

    OFFERS = (
        "explore",
        "make_prior",
        "exploits",
        "restarts",
        "keeps_start",
        "selection",
        "concentration",
        "around_start",
    )

    def __init__(self, plain: Any):
        self.plain = plain
        vars(self).update({name: getattr(plain, name) for name in self.OFFERS if hasattr(plain, name)})

    def __repr__(self) -> str:
        return repr(self.plain)


def _former_prior(method: Any, space: Space, start: Sequence[Config]) -> Prior | None:
    """Return the prior that attributes of an explorer set in earlier versions, with a warning; None without them."""
    if not hasattr(method, "concentration"):
        return None
    name = type(getattr(method, "plain", method)).__name__
    warnings.warn(
        f"{name}: concentration and around_start of an explorer have no effect from version 0.3 on; "
        "define make_prior(space, start), and return popbandits.space.Prior(concentration, space.encode(start))",
        DeprecationWarning,
        stacklevel=4,
    )
    around = bool(start) and getattr(method, "around_start", False)
    return Prior(method.concentration, space.encode(start) if around else None)


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
