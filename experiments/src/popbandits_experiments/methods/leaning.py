"""A candidate for the default: draws lean to the parent, and a member far behind the others waits no warm-up.

Patient PBT draws around the middle of ranges, or around a start, for the whole run: where these are not good, it keeps
going back to them. Here only the first configurations come from there, and children are drawn around their parent.

Its warm-up spares slow starters, and also members that will never learn. With s_k(j) the score of member j's k-th
interval, a member i that has finished r intervals is far behind if

    max_(k <= r) s_k(i)  <  max_(j != i) min_(r/4 <= k <= r/2) s_k(j),   r >= MIN_INTERVALS             (lag)

so the best that it ever scored is below everything that some other member scored by the time it had trained half as
long. It has no scale and no noise to estimate: the best of many scores is a lucky one, the least of several an unlucky
one, so that noise alone seldom makes a member fall behind (a test says how seldom).
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from popbandits.basics.rules import FLAG, PROBABILITY, real
from popbandits.basics.typing import BoolArray, FloatArray, IntArray
from popbandits.explorers import PatientPBT
from popbandits.history import Config, History, Observation
from popbandits.selection import Patient
from popbandits.space import Points, Prior, Space
from popbandits.space.drawing import complete_point

MIN_INTERVALS = 4
"""Finished intervals from which on a member can be far behind."""


def far_behind(scores: FloatArray, finished: IntArray) -> BoolArray:
    """Return which members are far behind (lag).

    >>> slow, fast = [1.0, 1.1, 0.9, 1.2], [1.5, 2.0, 2.2, 2.1]
    >>> far_behind(np.array([slow, fast]), np.array([4, 4]))
    array([ True, False])

    Args:
        scores: (members, rounds) scores of the intervals, more is better; NaN if an interval failed or is to come.
        finished: Number of intervals that each member has finished.
    """
    behind = np.zeros(len(finished), dtype=np.bool_)
    if len(finished) < 2:
        return behind
    for r in np.unique(finished[finished >= MIN_INTERVALS]):
        # Failed intervals are no mark to be behind of.
        floors = np.nan_to_num(scores[:, max(r // 4, 1) - 1 : r // 2], nan=-np.inf).min(axis=1)
        order = np.argsort(floors)
        best_of_others = np.where(np.arange(len(floors)) == order[-1], floors[order[-2]], floors[order[-1]])
        own = np.nan_to_num(scores[:, :r], nan=-np.inf).max(axis=1)
        behind |= (finished == r) & (own < best_of_others)
    return behind


@dataclass(frozen=True)
class Watchful(Patient):
    """Patient truncation whose warm-up spares no member that is far behind the others.

    >>> Watchful().warm_up_rounds(rounds=30)
    8

    Args:
        quantile: As `Patient`'s.
        warm_up: As `Patient`'s.
        collapse: As `Patient`'s.
        adaptive: As `Patient`'s.
        edition: As `Patient`'s.
        lag: Whether members that are far behind can be replaced in the warm-up. Default True. Use False to compare.
    """

    earlier: ClassVar[Mapping[str, Any]] = {}  # No earlier version had it.

    _: KW_ONLY
    lag: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        FLAG.check("lag", self.lag)

    def _settled(self, history: History) -> BoolArray:
        """Return by member whether its warm-up is over."""
        settled = super()._settled(history)
        if not self.lag or settled.all():
            return settled
        finished = history.member_states().finished
        members, rounds = history.intervals()
        scores = np.full((len(finished), int(finished.max(initial=0))), np.nan)
        scores[members, rounds] = history.scores(np.arange(len(history)))
        return settled | far_behind(scores, finished)


@dataclass(frozen=True)
class LeaningPBT(PatientPBT):
    """Patient PBT whose draws lean to the parent's values.

    Args:
        resample: As `PatientPBT`'s.
        resample_label: As `PatientPBT`'s.
        step: As `PatientPBT`'s.
        concentration: Concentration of draws at the parent's values. Default 4.0.
        crossover: As `PatientPBT`'s.
        model: As `PatientPBT`'s.
        around_start: As `PatientPBT`'s, for the first configurations.
        edition: As `PatientPBT`'s.
        first: Concentration of the first configurations at the middle of ranges, or at a start. Default 4.0.
        keep: Probability that a child keeps a value of its parent as it is. Default 0.0.
    """

    selection = Watchful()
    earlier: ClassVar[Mapping[str, Any]] = {}

    _: KW_ONLY
    first: float = 4.0
    keep: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        real("between 1 and 100", lambda c: 1 <= c <= 100, "1 is uniform").check("first", self.first)
        PROBABILITY.check("keep", self.keep)

    def make_prior(self, space: Space, start: Sequence[Config]) -> Prior:
        """Return the prior of the first configurations."""
        return Prior(self.first, space.encode(start) if start and self.around_start else None)

    def explore(
        self,
        space: Space,
        history: History,
        pending: Sequence[Config],
        parent: Observation | None,
        rng: np.random.Generator,
    ) -> Config:
        """Resample around the parent's values and perturb the others."""
        if parent is None:
            return super().explore(space, history, pending, parent, rng)
        old = space.encode([parent.config])
        config = super().explore(space.with_prior(Prior(self.concentration, old)), history, pending, parent, rng)
        return self._kept(space, old, config, rng) if self.keep else config

    def _kept(self, space: Space, old: Points, config: Config, rng: np.random.Generator) -> Config:
        """Return the configuration with some values of the parent, where the rules of the space allow it."""
        new = space.encode([config])
        x = np.where((rng.random(old.x.shape) < self.keep) & ~np.isnan(old.x) & ~np.isnan(new.x), old.x, new.x)
        h = np.where((rng.random(old.h.shape) < self.keep) & (old.h >= 0) & (new.h >= 0), old.h, new.h)
        point = complete_point(space, Points(x, h), rng)
        return config if point is None else space.decode(point)[0]
