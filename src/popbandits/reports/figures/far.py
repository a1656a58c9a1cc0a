"""Scores far worse than the others, which the axes of figures leave out."""

from dataclasses import dataclass

import numpy as np

from popbandits.basics.wording import number
from popbandits.reports.data import RunData
from popbandits.reports.figures.figure import Record

FAR_RATIO, FAR_SHARE, MIN_SCORES = 4.0, 0.05, 8
"""Times that far scores stretch the axis of the others, their greatest share of all, and the fewest scores to tell."""


@dataclass(frozen=True)
class Far:
    """Scores so much worse than the others that the axis leaves them out."""

    limit: float
    """The worst score on the axis."""
    count: int
    worst: float
    member: int
    round: int
    """Member and round of the worst score."""

    @staticmethod
    @np.errstate(over="ignore")
    def of(run: RunData) -> "Far | None":
        """Find the far scores of a run; None if there are none. The best score of each round is never among them."""
        turned = run.sign * run.scores
        known = np.sort(turned[np.isfinite(turned)])
        if len(known) < MIN_SCORES or not np.isfinite(known[-1] - known[0]):
            return None
        most = max(1, int(FAR_SHARE * len(known)))
        spans = known[-1] - known[: most + 1]
        counts = np.flatnonzero((spans[1:] > 0) & (spans[:-1] >= FAR_RATIO * spans[1:])) + 1
        counts = counts[known[counts] <= np.nanmin(run.sign * run.best_by_round)]  # As many as leave these.
        if not len(counts):
            return None
        round_, member = np.unravel_index(np.nanargmin(turned), turned.shape)
        limit, worst = float(run.sign * known[counts[-1]]), float(run.scores[round_, member])
        return Far(limit, int(counts[-1]), worst, int(member), int(round_))

    def __str__(self) -> str:
        worse = "so much worse than the others"
        where = f"{number(self.worst)}, member {self.member}, round {self.round}"
        if self.count == 1:
            return f"One score, {where}, is {worse} that the axis leaves it out."
        return f"{self.count:,} scores are {worse} that the axis leaves them out; the worst: {where}."


def scale_ends(sign: float, limit: float | None) -> Record:
    """Return the end that a scale of scores is given, so that it leaves out those worse than the limit, if any."""
    return {} if limit is None else {"domainMin" if sign > 0 else "domainMax": limit}
