"""A run that is followed: its file is read once, then only what is new."""

import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from popbandits.errors import HistoryError
from popbandits.records import Key, Observation, broken_rule, merit
from popbandits.reports.axes import NAMED, OFFERED, SPENT, metric_column, offered, on_table, spent_tables
from popbandits.reports.figures.figure import thin
from popbandits.reports.run import Intervals, best_of_rounds, require_dense
from popbandits.reports.stats import mean
from popbandits.storage import Store
from popbandits.storage.about import MEMBERS
from popbandits.storage.queries import KEYS, Numbers, configs, metrics, no_numbers, numbers, some_metrics
from popbandits.storage.store import reading
from popbandits.typing import FloatArray, IntArray

HUGE = 1e15
"""Upper bound of ids, rounds and times."""
DRAWN = 1_000
"""Maximum intervals whose configurations are drawn; of more, a sample and the winning lineage."""


class Followed:
    """The numbers of every interval, and the configurations of those that figures draw.

    It is the `Drawn` of figures, for runs of any length: of a long one, they draw a sample. A configuration is read
    when it is first drawn.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        self._forget()

    def _forget(self) -> None:
        self.file: Any = None
        """Inode of the file, and metadata of the run: if they change, it is another run."""
        self.numbers = no_numbers("observation")
        """A row for each interval, in the order they were recorded."""
        self.decided = no_numbers("decision")
        """A row for each decision."""
        self.lineage: list[tuple[int, int, float]] = []
        """Member, round and score along the lineage that ends with the best score, the first ancestor first."""
        self._best: Observation | None = None
        self._configs: dict[int, Any] = {}
        self.metrics: list[str] = []
        """Names of the metrics that curves can show."""
        self._metrics: dict[str, FloatArray] = {}  # those that a page asked for, as far as they were read
        self._renew()

    def _renew(self) -> None:
        for name in ("scores", "best_by_round", "indices", "winning", "intervals", "last", "asked", "spent"):
            self.__dict__.pop(name, None)

    def refresh(self) -> None:
        """Read what is new; everything, if another run uses the folder now."""
        with reading(self.directory) as store:
            store.begin()  # one snapshot
            file = store.path.stat().st_ino, store.about
            if file != self.file or len(store) < len(self.numbers):
                self._forget()
                self.file = file
            self.about, self.space = store.about, store.space
            new = numbers(store, "observation", len(self))
            more = numbers(store, "decision", int(self.decided["id"].max(initial=0)))
            self._check(new, more)
            self._find_lineage(store)
            self.numbers = np.concatenate([self.numbers, new])
            self.decided = np.concatenate([self.decided, more])
            self._renew()
            self._read_configs(store)
            self._find_metrics(store, len(new))

    def _check(self, new: Numbers, decided: Numbers) -> None:
        """Raise HistoryError unless rows are numbered, members are in range, and parents come first."""
        most = self.about.get("size") or MEMBERS
        for what, rows in (("observation", new), ("decision", decided)):
            member, round_ = rows["member"], rows["round"]
            if not (np.isfinite(round_).all() and (round_ >= 0).all() and ((member >= 0) & (member < most)).all()):
                raise HistoryError(f"members are 0 to {most - 1:,}, and rounds count from 0, got an {what} of another")
        huge = (not (np.abs(np.nan_to_num(decided[name])) < HUGE).all() for name in (*KEYS, "seconds", "time"))
        if any(huge) or not np.isfinite(decided["time"]).all():
            raise HistoryError("a decision has a time, and seconds, got one without, or far from all others")
        if (new["id"] != len(self.numbers) + 1 + np.arange(len(new))).any():
            raise HistoryError("observations are numbered without gaps, got one missing")
        if np.isnan(new["completed"]).any():
            raise HistoryError("an observation has a status, got one without")
        if (rule := broken_rule(new)) is not None:
            raise HistoryError(f"{rule}, got others")
        finished = dict(zip(*np.unique(self.numbers["member"], return_counts=True), strict=True))
        for member, round_, of, of_round in new[[*KEYS[1:]]].tolist():
            if finished.setdefault(member, 0) != round_:
                raise HistoryError(f"member {member:.0f} is at round {finished[member]}, got its round {round_:g}")
            finished[member] += 1
            if of == of and not 0 <= of_round < finished.get(of, 0) - (of == member):
                raise HistoryError(f"a parent comes first, got ({of:g}, {of_round:g}) for ({member:.0f}, {round_:.0f})")
        for member, _, of, of_round in decided[[*KEYS[1:]]].tolist():
            if of == of and not 0 <= of_round < finished.get(of, 0):
                raise HistoryError(f"a parent comes first, got ({of:g}, {of_round:g}) for a decision of {member:.0f}")

    def _find_lineage(self, store: Store) -> None:
        """Follow a new best interval back to its first ancestor: ancestors never change."""
        new = store.best(after=len(self))
        if new is not None and (self._best is None or merit(new, self.sign) > merit(self._best, self.sign)):
            self._best, self.lineage = new, store.lineage(new.key)

    def _read_configs(self, store: Store) -> None:
        new = [int(i) + 1 for i in self._sample if int(i) + 1 not in self._configs]  # ids count from 1, without gaps
        self._configs |= configs(store, "observation", new)

    def _find_metrics(self, store: Store, new: int) -> None:
        """Note the names of metrics in a sample of the new observations."""
        sampled = thin(np.arange(len(self) - new, len(self)), NAMED)
        found = offered(some_metrics(store, (sampled + 1).tolist()))
        self.metrics = sorted({*self.metrics, *found})[:OFFERED]

    def __len__(self) -> int:
        return len(self.numbers)

    # Data of figures (`Drawn`)

    @property
    def sign(self) -> float:
        """+1 where more is better, -1 where less is."""
        return -1.0 if self.about.get("mode") == "min" else 1.0

    @property
    def horizon(self) -> int:
        """The last round of an axis: the run's last, or one with room to grow, so that the axis rarely changes."""
        rounds = self.about.get("rounds")
        return int(rounds) - 1 if rounds else 2 ** int(np.ceil(np.log2(max(8, len(self.scores)))))

    @property
    def trained(self) -> int:
        """Number of intervals that trained, drawn or not."""
        return len(self) - int(self.numbers["lost"].sum())

    @cached_property
    def scores(self) -> FloatArray:
        """(rounds, members) as they were told; NaN where there is none."""
        table = np.full(self.indices.shape, np.nan)
        table[self._ints("round"), self._ints("member")] = self.numbers["score"]
        return table

    @cached_property
    def indices(self) -> IntArray:
        """(rounds, members) index of each interval in `numbers`; -1 for missing ones."""
        member, round_ = self._ints("member"), self._ints("round")
        size = max(self.about.get("size") or 0, member.max(initial=-1) + 1)
        shape = round_.max(initial=-1) + 1, size
        require_dense(shape, len(member), self.directory)
        table = np.full(shape, -1)
        table[round_, member] = np.arange(len(member))
        return table

    @cached_property
    def spent(self) -> Mapping[str, FloatArray]:
        """(rounds, members) "steps" and "seconds" along the lineage of each interval; only those that are known."""
        fresh = np.isnan(self.numbers["parent_member"])
        of, of_round = (np.where(fresh, 0, self.numbers[name]).astype(np.int64) for name in KEYS[3:])
        parents = np.where(fresh, -1, self.indices[of_round, of]) if len(self) else np.empty(0, np.int64)
        return spent_tables(self.indices, parents, {name: self.numbers[name] for name in SPENT})

    def metric(self, name: str) -> FloatArray:
        """Return a metric, (rounds, members); NaN where it was not reported. Only what is new is read."""
        known = self._metrics.pop(name, np.empty(0))
        with reading(self.directory) as store:
            if (store.path.stat().st_ino, store.about) != self.file:
                raise HistoryError(f"{store.path} holds another run now")
            more = metric_column(name, metrics(store, len(known), len(self)))
        if len(self._metrics) >= OFFERED:  # The one that was asked for longest ago.
            self._metrics.pop(next(iter(self._metrics)))
        self._metrics[name] = np.concatenate([known, more])
        return on_table(self.indices, self._metrics[name])

    @cached_property
    def best_by_round(self) -> FloatArray:
        """(rounds,) the best member's score in each round; NaN where no member completed it."""
        return best_of_rounds(self.scores, self.sign)

    def key(self, index: int) -> Key:
        """Return member and round of an interval."""
        return int(self.numbers["member"][index]), int(self.numbers["round"][index])

    @staticmethod
    def parent(row: Any) -> Key | None:
        """Return the parent of a row of `numbers` or `decided`."""
        return None if np.isnan(row["parent_member"]) else (int(row["parent_member"]), int(row["parent_round"]))

    @cached_property
    def winning(self) -> frozenset[Key]:
        """Intervals of the lineage that ends with the best score."""
        return frozenset((member, round_) for member, round_, _ in self.lineage)

    @property
    def _sample(self) -> IntArray:
        """Indices of the intervals that are drawn one by one: the winning lineage, and a sample of the others.

        The sample is halved as a run grows, and never gains old intervals, so that a configuration is read once.
        """
        halvings = max(0, int(np.ceil(np.log2(max(1, len(self)) / DRAWN))))
        mixed = np.arange(len(self), dtype=np.uint64) * np.uint64(2654435761) % np.uint64(2**32)
        drawn = (mixed < 2 ** (32 - halvings)) & (self.numbers["lost"] == 0)
        for member, round_, _ in self.lineage:
            drawn[self.indices[round_, member]] = True
        return np.flatnonzero(drawn)

    @cached_property
    def intervals(self) -> Intervals:
        """The intervals that are drawn, as arrays."""
        at = self._sample
        points = self.space.encode([self._configs[int(i) + 1] for i in at])
        return Intervals(points, self._ints("member")[at], self._ints("round")[at], self.change(at))

    @np.errstate(over="ignore", invalid="ignore")  # Scores may be near 1e308.
    def change(self, indices: Any) -> Any:
        """Return `Observation.change` of the intervals at these indices; NaN where either score is unknown."""
        return self.numbers["score"][indices] - self.numbers["score_before"][indices]

    def describe(self, key: Key) -> None:
        """Return None: the page loads the configuration of a selected member, so points need not carry it."""

    # State of the members

    @cached_property
    def last(self) -> IntArray:
        """(members,) index of each member's last interval; -1 for members without one."""
        at = np.full(self.indices.shape[1], -1)
        at[self._ints("member")] = np.arange(len(self))
        return at

    @property
    def completed(self) -> int:
        """Number of intervals that did not fail."""
        return int(self.numbers["completed"].sum())

    @property
    def mean(self) -> float:
        """Mean of the members' last scores; NaN if there are none."""
        scored = self.numbers[self.numbers["completed"] > 0]
        last = dict(zip(scored["member"].tolist(), scored["score"].tolist(), strict=True))
        return mean(list(last.values())) if last else math.nan

    @cached_property
    def asked(self) -> dict[int, int]:
        """Index of the last decision for each member."""
        return dict(zip(self.decided["member"].astype(int).tolist(), range(len(self.decided)), strict=True))

    def _ints(self, column: str) -> IntArray:
        whole: IntArray = self.numbers[column].astype(np.int64)
        return whole
