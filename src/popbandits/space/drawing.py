"""Draws from the prior of a space: what every method resamples and begins with."""

from typing import Any

import numpy as np

from popbandits.basics.typing import FloatArray
from popbandits.space.encoding import Space
from popbandits.space.points import Points
from popbandits.space.prior import UNIFORM, Prior

TRIES = 100
"""Draws from a prior that leans somewhere, before a legal one comes from the parameters' own distributions."""


def prior_of(space: Space) -> Prior:
    """Return the prior of a space; without one, every parameter follows its own distribution."""
    return space.prior or UNIFORM


def quantiles(space: Space, u: FloatArray, centres: Points | None = None) -> FloatArray:
    """Convert uniform quantiles (n, d + m) to quantiles of the space's prior, around known points if they are given."""
    return prior_of(space).lean(u, centres, space.numerical, space.categorical)


def draw_config(space: Space, rng: np.random.Generator) -> dict[str, Any]:
    """Draw a configuration."""
    return space.decode(draw_points(space, 1, rng))[0]


def draw_points(space: Space, n: int, rng: np.random.Generator) -> Points:
    """Draw n legal points."""
    if prior_of(space).uniform:
        return space.sample(n, rng)
    nothing = Points(np.full((1, len(space.numerical)), np.nan), np.full((1, len(space.categorical)), -1))
    drawn = (complete_point(space, nothing, rng) for _ in range(n))
    return Points.concatenate([space.sample(1, rng) if point is None else point for point in drawn])


def complete_point(space: Space, points: Points, rng: np.random.Generator) -> Points | None:
    """Complete one point by drawing its open values (NaN, -1); None if no draw is legal."""
    u = rng.random((TRIES, len(space.numerical) + len(space.categorical)))
    prior = prior_of(space)
    centres = (
        None if prior.uniform or prior.around is None else prior.around[rng.integers(len(prior.around), size=TRIES)]
    )
    drawn = space.from_quantiles_full(quantiles(space, u, centres))
    whole = space.activate(
        Points(np.where(np.isnan(points.x), drawn.x, points.x), np.where(points.h < 0, drawn.h, points.h))
    )
    legal = np.flatnonzero(space.legal(whole))
    return whole[legal[:1]] if len(legal) else None


def replace_forbidden(space: Space, points: Points, centres: Points | None, rng: np.random.Generator) -> Points:
    """Draw forbidden points again, each around its known point; from the parameters' own distributions in the end."""
    points = Points(points.x.copy(), points.h.copy())
    tries = 0 if prior_of(space).uniform else TRIES
    for _ in range(tries):
        if (rows := np.flatnonzero(~space.legal(points))).size == 0:
            return points
        u = rng.random((len(rows), points.x.shape[1] + points.h.shape[1]))
        drawn = space.from_quantiles(quantiles(space, u, None if centres is None else centres[rows]))
        points.x[rows], points.h[rows] = drawn.x, drawn.h
    if (legal := space.legal(points)).all():
        return points
    drawn = space.sample(len(points), rng)
    return Points(np.where(legal[:, None], points.x, drawn.x), np.where(legal[:, None], points.h, drawn.h))
