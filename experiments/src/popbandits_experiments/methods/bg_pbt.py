r"""BG-PBT's exploration (Wan et al. 2022, arXiv 2207.09405): the model is trusted only near the parent's configuration.

Casmopolitan's trust region (Wan et al. 2021, arXiv 2102.07188) around the configuration c of the parent:

    |x_j - c_j| <= L/2 w_j,   w_j = sqrt(l_j) / geometric mean of all,   at most max(1, round(H m)) labels differ

| symbol | meaning |
|---|---|
| L, H | sizes of the region in numbers and in labels, shares of their whole range |
| l_j | the fitted length-scale of number j: the region is long where the model is flat |
| m | categorical variables that are active |

A round with new configurations from the model succeeds if one of them has the best score of the round. After GROW
successes in a row the region grows by the factor STEP, after SHRINK failures it shrinks by STEP. When L reaches its
minimum, the region restarts at its first size, and the model forgets all earlier rounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from popbandits.basics.rules import real
from popbandits.basics.typing import FloatArray, IntArray
from popbandits.explorers.explorer import Proposal
from popbandits.explorers.surrogate import CANDIDATES, ModelExplorer, Models, Surrogate
from popbandits.history import History, Observation
from popbandits.models.acquisition import UpperConfidenceBound, maximise
from popbandits.models.gp import NotFittedError
from popbandits.models.kernel import LENGTH
from popbandits.space import Points, Space
from popbandits.space.drawing import draw_points

STEP, GROW, SHRINK = 1.5, 3, 10
"""Values of the authors' code."""

LEAST, LEAST_LABELS = 0.15, 0.1
"""The smallest L, and the smallest H."""

COMBINATIONS = 16
"""Number of combinations of labels that are compared, the parent's included."""


@dataclass(frozen=True)
class Region:
    """The trust region after some rounds of a run; recorded with each decision, for the next one to read."""

    numbers: float
    """L."""
    labels: float = 1.0
    """H."""
    successes: int = 0
    """Successful rounds in a row since the region last changed its size."""
    failures: int = 0
    rounds: int = 0
    """Number of rounds taken into account."""
    since: int = 0
    """First round that the model may use."""

    def after(self, succeeded: bool | None, first: float) -> "Region":
        """Return the region after another round; None if the model proposed nothing in it. `first` is the initial L."""
        seen = replace(self, rounds=self.rounds + 1)
        if succeeded is None:
            return seen
        if succeeded:
            seen = replace(seen, successes=self.successes + 1, failures=0)
            return seen.resize(STEP) if seen.successes == GROW else seen
        seen = replace(seen, successes=0, failures=self.failures + 1)
        seen = seen.resize(1 / STEP) if seen.failures == SHRINK else seen
        return Region(first, rounds=seen.rounds, since=seen.rounds) if seen.numbers <= LEAST else seen

    def resize(self, factor: float) -> "Region":
        """Multiply the sizes, within their bounds, and reset the counts."""
        numbers, labels = (min(1.0, size * factor) for size in (self.numbers, self.labels))
        return replace(self, numbers=max(LEAST, numbers), labels=max(LEAST_LABELS, labels), successes=0, failures=0)


@dataclass(frozen=True)
class BGPBT(ModelExplorer):
    """Maximise the bound over numbers and labels within a trust region around the parent's configuration.

    Paper: its own kernel, transform of the changes and bound; restarts that search for first configurations by an
    auxiliary model and distil the old agents into new architectures. Here: the model and the bound of PB2-Mix, so that
    the region is the only difference, and no such restarts; `Restarts` starts members afresh.

    Args:
        c1: Scale of the weight of uncertainty in the upper confidence bound, sqrt(c1 log(c2 n)) after n observations;
            at least 0. Default 0.2. Raise it to explore more, lower it to stay with what worked.
        c2: Scale of the number of observations in that weight; above 0. Default 0.4. Raise it to explore earlier in a
            run.
        window: Maximum number of observations that a decision uses: the model uses the recent half and older ones with
            new configurations, bandits the last. Default 300, which keeps a decision under half a second. None uses
            all.
        per_dimension: Whether each number has its own length-scale, which also stretches the region. Default True. Use
            False if there are few observations for many numbers.
        score_before: Whether the model sees the score before the interval, as in the paper. Default True. Use False if
            the score is a running total.
        length: First width of the trust region, as a share of a number's range, above 0.15 and at most 1. Default 0.4.
            Raise it to move further from the parent.
        edition: Edition of the rules. Default 2. Edition 1 is for runs of earlier versions: one collapse makes the
            bandit's other gains nearly equal, and a first decision takes the raw score as the score before.
    """

    per_dimension: bool = True
    score_before: bool = True
    length: float = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        real(f"above {LEAST} and at most 1", lambda x: LEAST < x <= 1, "0.4 is usual").check("length", self.length)

    def propose(
        self,
        space: Space,
        history: History,
        pending: Points,
        parents: Sequence[Observation | None],
        rng: np.random.Generator,
    ) -> list[Proposal]:
        """Fit once, and find for each member the best point of the region around its parent's configuration."""
        region = region_after(history, self.length)
        models = Models(self, space, history, region.since)
        proposals = []
        for parent in parents:
            point, decision = self._inside(models, region, parent, pending, rng)
            pending = Points.concatenate([pending, point])
            proposals.append(Proposal(space.decode(point)[0], {**decision, "region": asdict(region)}))
        return proposals

    def _inside(
        self,
        models: Models,
        region: Region,
        parent: Observation | None,
        pending: Points,
        rng: np.random.Generator,
    ) -> tuple[Points, Mapping[str, Any]]:
        """Return the best point of the region and the record of the fit; without a model, draw any point."""
        space, history = models.space, models.history
        centre = history.best if parent is None else parent
        try:
            if centre is None:
                raise NotFittedError("nothing was observed yet")
            model = models.at(np.zeros(0, dtype=np.int64))
            bound = model.bound(history, parent).with_pending(pending)
            return self._best(model, bound, region, space.encode([centre.config]), rng), model.record
        except NotFittedError as error:
            return draw_points(space, 1, rng), {"fallback": str(error)}

    def _best(
        self, model: Surrogate, bound: UpperConfidenceBound, region: Region, centre: Points, rng: np.random.Generator
    ) -> Points:
        """Maximise the bound over combinations of labels near the centre's, and over numbers in a box around it."""
        space = model.space
        box = box_around(centre.x[0], region.numbers, _stretch(model), space)
        labels = labels_near(centre.h[0], region.labels, space, rng)
        count = max(16, CANDIDATES // len(labels))
        x = box[:, 0] + rng.random((count, len(box))) * (box[:, 1] - box[:, 0])
        x[0] = np.where(np.isnan(centre.x[0]), x[0], centre.x[0])
        x = space.snap(x)
        group = np.repeat(np.arange(len(labels)), count)
        points = space.activate(Points(np.tile(x, (len(labels), 1)), labels[group]))
        legal = space.legal(points)
        starts = 1 + (len(labels) < 4)
        best = maximise(bound, space, points[legal], group[legal], len(labels), starts, box)
        if not np.isfinite(best.values).any():
            raise NotFittedError("no legal configuration was found in the trust region")
        return best.points[[int(np.argmax(best.values))]]


def region_after(history: History, first: float) -> Region:
    """Compute the trust region after the completed rounds of a history; `first` is the initial L."""
    size = history.size or 0
    rounds = min((history.finished(member) for member in range(size)), default=0)
    known = next((o.decision["region"] for o in reversed(history) if "region" in o.decision), None)
    region = Region(first) if known is None else Region(**known)
    for round_ in range(region.rounds, rounds):
        finished = [o for member in range(size) if (o := history.find((member, round_))) is not None]
        scores = [(history.sign * o.score, "theta" in o.decision) for o in finished if not o.failed]
        ours = [score for score, by_model in scores if by_model]
        tried = any("theta" in o.decision for o in finished)
        succeeded = bool(ours) and max(ours) == max(score for score, _ in scores)
        region = region.after(succeeded if tried else None, first)
    return region


def box_around(centre: FloatArray, length: float, stretch: FloatArray, space: Space) -> FloatArray:
    """Return the (d, 2) bounds of the numbers: at least one level either way; the whole range without a centre."""
    levels = np.array([number.levels or np.inf for number in space.numerical])
    half = np.maximum(length / 2 * stretch, 1 / np.maximum(1, levels - 1))
    middle = np.where(np.isnan(centre), 0.5, centre)
    half = np.where(np.isnan(centre), 0.5, half)
    ends: FloatArray = np.clip(np.column_stack([middle - half, middle + half]), 0.0, 1.0)
    return ends


def labels_near(centre: IntArray, size: float, space: Space, rng: np.random.Generator) -> IntArray:
    """Draw (g, m) labels: the centre's, and others that differ in few of them; inactive ones are drawn freely."""
    counts = np.array([len(variable.labels) for variable in space.categorical], dtype=np.int64)
    active = np.flatnonzero(centre >= 0)
    drawn = np.floor(rng.random((COMBINATIONS, len(counts))) * counts).astype(np.int64)
    near = np.where(centre >= 0, centre, drawn)
    most = max(1, round(size * len(active)))
    for row in near[1:]:
        changed = rng.permutation(active)[: rng.integers(1, most + 1)]
        row[changed] = (row[changed] + 1 + np.floor(rng.random(len(changed)) * (counts[changed] - 1))) % counts[changed]
    _, first = np.unique(near, axis=0, return_index=True)
    return near[np.sort(first)]


def _stretch(model: Surrogate) -> FloatArray:
    """Return (d,) w, the relative width of the region in each number, from the fitted length-scales."""
    d = len(model.space.numerical)
    lengths = model.posterior.kernel.theta[LENGTH:][:d]
    if not (model.structure.per_dimension and d):
        return np.ones(d)
    widths: FloatArray = np.exp((lengths - lengths.mean()) / 2)
    return widths
