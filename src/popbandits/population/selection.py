"""Truncation selection: who loads whose weights."""

import numpy as np

from popbandits.history.standing import NOWHERE
from popbandits.typing import FloatArray, IntArray


def replaced_count(size: int, quantile: float) -> int:
    """How many of `size` members are replaced: the quantile rounded down, at least one, at most half.

    >>> [replaced_count(size, 0.25) for size in (1, 2, 4, 7, 8, 12)]
    [0, 1, 1, 1, 2, 3]
    """
    return min(max(1, int(quantile * size + 1e-9)), size // 2)


def ranked(scores: FloatArray, rng: np.random.Generator) -> IntArray:
    """The indices of scores, the best (largest) first; ties in random order; NaN last."""
    shuffled = rng.permutation(len(scores))
    order: IntArray = shuffled[np.argsort(np.where(np.isnan(scores), np.inf, -scores)[shuffled], kind="stable")]
    return order


def select(
    places: IntArray,
    scores: FloatArray,
    quantile: float,
    rng: np.random.Generator,
    survivors: tuple[IntArray, FloatArray],
) -> tuple[IntArray, IntArray]:
    """Whom to replace (indices of `places`), and for each of them the place of the weights it loads: one drawn from the
    top quantile.

    Scores are NaN where there are no weights to go on from. Such a member is replaced whatever its rank. If nobody has
    any, they come from the `survivors` (places and scores of earlier ones); NOWHERE, a fresh start, if there are none
    either.
    """
    usable = ~np.isnan(scores)
    order = ranked(scores, rng)
    count = replaced_count(len(order), quantile)
    weak = ~usable
    weak[order[len(order) - count :]] = True
    replaced = np.flatnonzero(weak)
    top = order[: max(1, count)]
    strong = places[top[usable[top]]]
    if not len(strong):
        strong = survivors[0][ranked(survivors[1], rng)[: max(1, count)]]
    if not len(strong):
        return replaced, np.full(len(replaced), NOWHERE)
    return replaced, strong[rng.integers(len(strong), size=len(replaced))]
