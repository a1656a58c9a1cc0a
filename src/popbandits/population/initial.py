"""The first configurations of a population: spread over the space, labels balanced."""

import numpy as np
from scipy.stats import qmc

from popbandits.basics.typing import BoolArray, FloatArray
from popbandits.space import Points, Space
from popbandits.space.drawing import prior_of, quantiles, replace_forbidden


def initial_points(space: Space, size: int, rng: np.random.Generator) -> Points:
    """Draw `size` legal points of the space's prior from a scrambled Sobol sequence, stratified in every parameter.

    Each label, and each of `size` slices of a number's range that are equally probable, gets its share of the members
    to within one. A conditional parameter is stratified among the members in which it is active. A prior that leans to
    known points does so in turn. Forbidden points are drawn again from the same prior, without strata.
    """
    u = _sobol(size, len(space.numerical) + len(space.categorical), rng)
    everyone = np.ones(size, dtype=np.bool_)
    counted = [number.levels is not None for number in space.numerical] + [True] * len(space.categorical)
    for column in range(u.shape[1]):
        u[:, column] = _stratify(u[:, column], everyone, counted[column])
    numbers = len(space.numerical)
    centres = prior_of(space).centres_in_turn(size)
    points = space.from_quantiles(quantiles(space, u, centres))
    for column in space.order:  # parents first: they decide in which members a child is active
        active = np.isfinite(points.x[:, column]) if column < numbers else points.h[:, column - numbers] >= 0
        if not active.all():
            u[:, column] = _stratify(u[:, column], active, counted[column])
            points = space.from_quantiles(quantiles(space, u, centres))
    return replace_forbidden(space, points, centres, rng)


def _sobol(size: int, dimensions: int, rng: np.random.Generator) -> FloatArray:
    """Return the first points of a scrambled Sobol sequence, cut from a power of two, for which it is balanced."""
    if dimensions == 0:
        return np.zeros((size, 0))
    points: FloatArray = qmc.Sobol(dimensions, rng=rng).random_base2(max(0, (size - 1).bit_length()))
    return points[:size]


def _stratify(u: FloatArray, among: BoolArray, counted: bool) -> FloatArray:
    """Move the chosen entries into equal slices of [0, 1), one each, in their order; offsets in the slices are kept.

    For labels and levels (`counted`) the offset is the same in every slice: then any part of [0, 1) holds its share of
    the entries to within one, where different offsets could put two members on one label and none on another.
    """
    out, part = u.copy(), u[among]
    n = len(part)
    if n:
        offset = part * n % 1.0
        out[among] = (np.argsort(np.argsort(part)) + (offset[0] if counted else offset)) / n
    return np.minimum(out, np.nextafter(1.0, 0.0))
