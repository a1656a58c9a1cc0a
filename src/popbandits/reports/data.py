"""The data of a run that figures draw, however it was read."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from popbandits.basics.records import Key
from popbandits.basics.typing import FloatArray, IntArray
from popbandits.errors import HistoryError
from popbandits.reports.axes import COSTS, on_table, totals
from popbandits.space import Points, Space
from popbandits.storage.queries import KEY_COLUMNS, Numbers
from popbandits.storage.schema import RUN_FILE

MAX_TABLE_CELLS = 10_000_000
"""Maximum cells of a table of rounds and members, for any run."""


@dataclass(frozen=True)
class IntervalArrays:
    """Intervals that trained, in the form that figures draw."""

    points: Points
    member: IntArray
    round: IntArray
    change: FloatArray
    """`Observation.change` of each; NaN where it was not measured."""


class RunData(ABC):
    """The data of learning curves and schedules: of a run that was read whole, or of one that is followed."""

    directory: Path
    about: Mapping[str, Any]
    """Metadata of the run."""
    space: Space
    """What could be tried."""
    numbers: Numbers
    """A row for each interval, in the order they were recorded."""
    lineage: list[tuple[int, int, float]]
    """Member, round and score along the lineage of what the run hands over, the first ancestor first."""

    @property
    @abstractmethod
    def horizon(self) -> int:
        """The last round of an axis."""

    @property
    @abstractmethod
    def intervals(self) -> IntervalArrays:
        """Intervals that trained, as arrays; of a long run that is followed, a sample."""

    @property
    @abstractmethod
    def metrics(self) -> Sequence[str]:
        """Names of the metrics that curves can show."""

    @abstractmethod
    def metric(self, name: str) -> FloatArray:
        """Return a metric, (rounds, members); NaN where it was not reported."""

    @abstractmethod
    def describe(self, key: Key) -> str | None:
        """Return an interval's configuration on one line, or None if its point does not show it."""

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def sign(self) -> float:
        """+1 where more is better, -1 where less is."""
        return -1.0 if self.about.get("mode") == "min" else 1.0

    @property
    def size(self) -> int:
        """Number of members seen so far."""
        return int(self.numbers["member"].max(initial=-1)) + 1

    @property
    def trained(self) -> int:
        """Number of intervals that trained, in a sample or not."""
        return len(self) - int(self.numbers["lost"].sum())

    @cached_property
    def indices(self) -> IntArray:
        """(rounds, members) index of each interval in `numbers`; -1 for missing ones."""
        member, round_ = self.column("member"), self.column("round")
        rounds = int(round_.max(initial=-1)) + 1
        if (cells := rounds * self.size) > max(MAX_TABLE_CELLS, 100 * len(self)):
            raise HistoryError(
                f"{self.directory / RUN_FILE} is damaged: {len(self):,} observations cannot be drawn as "
                f"{rounds:,} rounds of {self.size:,} members, {cells:,} in all"
            )
        table = np.full((rounds, self.size), -1)
        table[round_, member] = np.arange(len(self))
        return table

    def column(self, name: str) -> IntArray:
        """Return a column of `numbers` as integers."""
        whole: IntArray = self.numbers[name].astype(np.int64)
        return whole

    @cached_property
    def scores(self) -> FloatArray:
        """(rounds, members) as they were told; NaN where there is none."""
        return on_table(self.indices, self.numbers["score"])

    @cached_property
    def best_by_round(self) -> FloatArray:
        """(rounds,) the best member's score in each round; NaN where no member completed it."""
        best = self.best_members
        return np.where(best >= 0, self.scores[np.arange(len(best)), best], np.nan)

    @cached_property
    def best_members(self) -> IntArray:
        """(rounds,) the best member of each round, the last of equals (`records.merit`); -1 where none completed."""
        if not self.size:
            return np.empty(0, np.int64)
        turned = np.where(np.isnan(self.scores), -np.inf, self.sign * self.scores)
        last = self.size - 1 - np.argmax(turned[:, ::-1], axis=1)
        return np.where(np.isfinite(turned.max(axis=1)), last, -1)

    @cached_property
    def winning(self) -> frozenset[Key]:
        """Intervals of the lineage of what the run hands over."""
        return frozenset((member, round_) for member, round_, _ in self.lineage)

    @cached_property
    def spent(self) -> Mapping[str, FloatArray]:
        """(rounds, members) "steps" and "seconds" along the lineage of each interval; only those that are known."""
        fresh = np.isnan(self.numbers["parent_member"])
        of, of_round = (np.where(fresh, 0, self.numbers[name]).astype(np.int64) for name in KEY_COLUMNS[3:])
        parents = np.where(fresh, -1, self.indices[of_round, of]) if len(self) else np.empty(0, np.int64)
        known = {name: totals(parents, self.numbers[name]) for name in COSTS}
        return {name: on_table(self.indices, total) for name, total in known.items() if (total > 0).any()}
