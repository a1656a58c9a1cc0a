"""The upper confidence bound and its maximisation (paper, Eq. gp_bucb_acq).

    UCB(x) = mean(x) + sqrt(beta) std(x),   beta = max(0, c1 log(c2 n))

std is the standard deviation; the research code uses the variance. Two other formulas for beta are in use:
c1 + log(c2 n), and the theorem's 2 log(pi^2 t^2 / 2 delta) + ...; c1 and c2 are arguments.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from popbandits.basics.typing import FloatArray, IntArray
from popbandits.models.gp import Posterior, Structure
from popbandits.models.kernel import Inputs
from popbandits.space import Points, Space


def confidence(n: int, c1: float = 0.2, c2: float = 0.4) -> float:
    """Return sqrt(beta) after n observations.

    >>> round(confidence(200), 3), confidence(1)
    (0.936, 0.0)
    """
    return math.sqrt(max(0.0, c1 * math.log(c2 * n)))


@dataclass(frozen=True)
class UpperConfidenceBound:
    """The acquisition function of the next round."""

    structure: Structure
    posterior: Posterior
    weight: float
    """sqrt(beta)."""
    time: float
    """The next round."""
    context: FloatArray | None = None
    """Known quantities of that round, such as the parent's score."""

    def inputs(self, points: Points) -> Inputs:
        """Return the kernel's inputs for encoded configurations, in this round and context."""
        return self.structure.inputs(points.x, points.h, np.full(len(points), self.time), self.context)

    def __call__(self, points: Points) -> FloatArray:
        """Return the (q,) values."""
        mean, std = self.posterior.predict(self.inputs(points))
        return mean + self.weight * std

    def with_gradient(self, points: Points) -> tuple[FloatArray, FloatArray]:
        """Return the (q,) values and their (q, d) derivatives by the numbers."""
        value, slope = self.posterior.predict_with_gradient(self.inputs(points), self.weight)
        coordinates = len(self.structure.embedding.owner)
        return value, self.structure.embedding.pull_back(points.x, slope[:, :coordinates])

    def with_pending(self, points: Points) -> "UpperConfidenceBound":
        """Return the bound when these configurations are pending too."""
        return replace(self, posterior=self.posterior.condition(self.inputs(points)))


@dataclass(frozen=True)
class Maxima:
    """The best point of each group of candidates."""

    points: Points
    values: FloatArray
    """(g,) the bound there; -inf where a group has no legal point."""


def candidates(space: Space, labels: IntArray, known: FloatArray, uniform: FloatArray) -> tuple[Points, IntArray]:
    """Return legal starting points for each row of labels, and the group of each: uniform ones, and known numbers.

    Uniform points alone miss a sharp optimum that was already seen, so numbers observed or pending are added (known:
    (k, d)). The last k of the uniform numbers (n + k, d) fill their absent values.
    """
    count = len(uniform) - len(known)
    x = space.snap(np.concatenate([uniform[:count], np.where(np.isnan(known), uniform[count:], known)]))
    group = np.repeat(np.arange(len(labels)), len(x))
    points = space.activate(Points(np.tile(x, (len(labels), 1)), labels[group]))
    legal = space.legal(points)
    return points[legal], group[legal]


def maximise(
    bound: UpperConfidenceBound,
    space: Space,
    points: Points,
    group: IntArray,
    groups: int,
    starts: int = 4,
    box: FloatArray | None = None,
) -> Maxima:
    """Climb from the best candidates of all groups at once, and return the best legal point of each group.

    `box` is (d, 2): the bounds of the numbers; [0, 1] if None.
    """
    box = np.tile([0.0, 1.0], (len(space.numerical), 1)) if box is None else box
    values = bound(points)
    order = np.lexsort((-values, group))
    rank = np.arange(len(order)) - np.searchsorted(group[order], group[order])
    chosen = order[rank < starts]
    points, values, group = points[chosen], values[chosen], group[chosen]
    points, values = _step(bound, space, *_climb(bound, space, points, values, box), box)
    best = np.zeros(groups, dtype=np.int64)
    found = np.full(groups, -np.inf)
    for index in range(len(points)):
        if values[index] > found[group[index]]:
            best[group[index]], found[group[index]] = index, values[index]
    return Maxima(points[best] if len(points) else points, found)


def _climb(
    bound: UpperConfidenceBound, space: Space, points: Points, values: FloatArray, box: FloatArray
) -> tuple[Points, FloatArray]:
    """Climb by gradient in the movable numbers; a point that would get worse or illegal stays where it is."""
    moving = np.isfinite(points.x) & space.movable
    if not moving.any():
        return points, values

    def with_numbers(flat: FloatArray) -> Points:
        x = points.x.copy()
        x[moving] = flat
        return Points(x, points.h)

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        value, slope = bound.with_gradient(with_numbers(flat))
        return -float(value.sum()), -slope[moving]

    ends = np.broadcast_to(box, (len(points), *box.shape))[moving]
    options = {"maxiter": 20, "ftol": 1e-6}
    result = minimize(objective, points.x[moving], jac=True, method="L-BFGS-B", bounds=ends, options=options)
    moved = Points(space.snap(with_numbers(np.clip(result.x, *ends.T)).x), points.h)
    reached = bound(moved)
    better = (reached > values) & space.legal(moved)
    return Points(np.where(better[:, None], moved.x, points.x), points.h), np.where(better, reached, values)


def _step(
    bound: UpperConfidenceBound, space: Space, points: Points, values: FloatArray, box: FloatArray
) -> tuple[Points, FloatArray]:
    """Take the best level of each integer and ordinal in turn, the rest fixed: they have no gradient."""
    for column, levels in space.grids.items():
        grid = levels[(levels >= box[column, 0]) & (levels <= box[column, 1])]
        live = np.flatnonzero(np.isfinite(points.x[:, column]))
        if not (len(live) and len(grid)):
            continue
        tried = points[np.repeat(live, len(grid))]
        tried.x[:, column] = np.tile(grid, len(live))
        reached = np.where(space.legal(tried), bound(tried), -np.inf).reshape(len(live), -1)
        best = reached.argmax(axis=1)
        better = reached.max(axis=1) > values[live]
        x, values = points.x.copy(), values.copy()
        x[live[better], column], values[live[better]] = grid[best[better]], reached.max(axis=1)[better]
        points = Points(x, points.h)
    return points, values
