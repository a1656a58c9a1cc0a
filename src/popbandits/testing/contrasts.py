"""Configurations to check an agent with: a first, one that differs everywhere, and one for each hyperparameter."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from popbandits.basics.typing import FloatArray
from popbandits.errors import SpaceError
from popbandits.history import Config
from popbandits.space import Points, Space

_DRAWS_PER_ATTEMPT = 512
_MAX_ATTEMPTS = 20
_FULL_GAP = 0.25  # share of a number's range beyond which a gap counts as 1


@dataclass(frozen=True)
class Contrast:
    """Configurations that differ enough to have an effect on an agent."""

    first: Config
    """The configuration with the most active hyperparameters, of many drawn."""
    second: Config
    """A configuration that differs in as many hyperparameters as the space allows."""
    single: dict[str, Config]
    """By hyperparameter: the first configuration with that one changed, and the children that depend on it."""


def contrasts(space: Space, seed: int) -> Iterator[Contrast]:
    """Yield contrasts without end, each from another first configuration.

    Numbers avoid the ends of their ranges, where training breaks more easily, if the forbidden clauses allow it.

    >>> contrast = next(contrasts(Space({"lr": (0.0, 1.0), "act": ["relu", "tanh"], "seed": 7}), seed=0))
    >>> contrast.first
    {'act': 'relu', 'lr': 0.58..., 'seed': 7}
    >>> contrast.second
    {'act': 'tanh', 'lr': 0.28..., 'seed': 7}
    >>> contrast.single["act"]
    {'act': 'tanh', 'lr': 0.58..., 'seed': 7}
    """
    rng = np.random.default_rng(seed)
    names = [parameter.name for parameter in (*space.numerical, *space.categorical)]
    while True:
        u = _legal(space, rng)
        fullest = int(np.isfinite(_columns(space.from_quantiles(u))).sum(axis=1).argmax())
        u[[0, fullest]] = u[[fullest, 0]]
        farthest = int(_gaps(space.from_quantiles(u)).sum(axis=1).argmax())
        u[[1, farthest]] = u[[farthest, 1]]  # so that the second's change is taken among equal ones
        points = space.from_quantiles(u)
        active = np.isfinite(_columns(points)[0])
        single = {}
        for column in space.order:
            changed = np.repeat(u[:1], len(u), axis=0)
            changed[:, column] = u[:, column]
            others = space.from_quantiles(changed)
            gap = _gaps(others)[:, column] * space.legal(others)
            if active[column] and gap.max() > 0:
                single[names[column]] = space.decode(others[[int(gap.argmax())]])[0]
        first, second = space.decode(points[[0, min(farthest, 1)]])
        yield Contrast(first, second, single)


def _legal(space: Space, rng: np.random.Generator) -> FloatArray:
    """Draw quantiles of at least two legal points."""
    d, width = len(space.numerical), len(space.numerical) + len(space.categorical)
    found = np.empty((0, width))
    for attempt in range(_MAX_ATTEMPTS):
        u = rng.random((_DRAWS_PER_ATTEMPT, width))
        if attempt == 0:
            u[:, :d] = 0.2 + 0.6 * u[:, :d]
        found = np.concatenate([found, u[space.legal(space.from_quantiles(u))]])
        if len(found) > 1:
            return found
    raise SpaceError(
        f"the check of an agent needs at least two legal configurations, got {len(found)} among "
        f"{_MAX_ATTEMPTS * _DRAWS_PER_ATTEMPT} draws; drop a forbidden clause or narrow the ranges it restricts"
    )


def _columns(points: Points) -> FloatArray:
    """Return the numbers, and the labels as numbers; NaN where inactive."""
    return np.hstack([points.x, np.where(points.h < 0, np.nan, points.h)])


def _gaps(points: Points) -> FloatArray:
    """Return the distance of each point from the first, by column, in [0, 1]: 1 if only one of the two is active."""
    values = _columns(points)
    apart = np.abs(values - values[0])
    apart[:, : points.x.shape[1]] /= _FULL_GAP
    one = np.isnan(values) != np.isnan(values[0])
    return np.where(one, 1.0, np.nan_to_num(apart)).clip(0, 1)
