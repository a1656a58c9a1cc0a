"""Truncation selection: who loads whose weights."""

from collections.abc import Sequence

import numpy as np

from popbandits.history import Observation


def replaced_count(size: int, quantile: float) -> int:
    """How many of `size` members are replaced: the quantile rounded down, at least one, at most half.

    >>> [replaced_count(size, 0.25) for size in (1, 2, 4, 7, 8, 12)]
    [0, 1, 1, 1, 2, 3]
    """
    return min(max(1, int(quantile * size + 1e-9)), size // 2)


def ranked(observations: Sequence[Observation], sign: float, rng: np.random.Generator) -> list[Observation]:
    """The best first; ties in random order; failures last."""
    shuffled = [observations[i] for i in rng.permutation(len(observations))]
    return sorted(shuffled, key=lambda o: np.inf if o.failed else -sign * o.score)


def select(
    latest: Sequence[Observation],
    quantile: float,
    sign: float,
    rng: np.random.Generator,
    survivors: Sequence[Observation] = (),
) -> dict[int, Observation | None]:
    """The members to replace, each with the observation whose weights it loads: one drawn from the top quantile.

    A member that failed is replaced whatever its rank, since it has nothing to go on from. If everyone failed, the
    weights come from `survivors` (earlier completed observations); None, a fresh start, if there are none either.
    """
    order = ranked(latest, sign, rng)
    count = replaced_count(len(order), quantile)
    weak = {o.member for o in order[len(order) - count :]} | {o.member for o in order if o.failed}
    strong = [o for o in order[: max(1, count)] if not o.failed] or ranked(survivors, sign, rng)[: max(1, count)]
    return {member: strong[rng.integers(len(strong))] if strong else None for member in sorted(weak)}
