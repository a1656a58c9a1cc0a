"""A run that is followed: its file is read once, then only what is new."""

import math
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from popbandits.basics.arithmetic import difference, mean
from popbandits.basics.records import Key, Observation, broken_rule, merit
from popbandits.basics.settings import MEMBERS
from popbandits.basics.typing import FloatArray, IntArray
from popbandits.errors import HistoryError
from popbandits.reports.axes import MAX_INTERVALS_SEARCHED, MAX_METRICS, metric_column, metric_names, on_table
from popbandits.reports.data import IntervalArrays, RunData
from popbandits.reports.figures.figure import thin
from popbandits.storage import Store
from popbandits.storage.handed_over import handed_over
from popbandits.storage.queries import KEY_COLUMNS, Numbers, configs, metrics, no_numbers, numbers, some_metrics
from popbandits.storage.store import reading

MAX_NUMBER = 1e15
"""Upper bound of ids, rounds and times."""
MAX_CONFIGS = 1_000
"""Maximum intervals whose configurations are drawn; of more, a sample and the winning lineage."""


class LiveRun(RunData):
    """The numbers of every interval, and the configurations of those that figures draw.

    Of a long run, figures draw a sample. A configuration is read when it is first drawn.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        self._forget()

    def _forget(self) -> None:
        self.file: tuple[int, dict[str, Any]] | None = None
        """Identity of the run's file."""
        self.numbers = no_numbers("observation")
        self.decided = no_numbers("decision")
        """A row for each decision."""
        self.lineage = []
        self.best: Observation | None = None
        """The interval with the best score so far."""
        self._chosen: Key | None = None
        self._configs: dict[int, Any] = {}
        self._metric_names: list[str] = []
        self._metrics: dict[str, FloatArray] = {}  # those that a page asked for, as far as they were read
        self._renew()

    def _renew(self) -> None:
        """Drop what was computed from the numbers so far."""
        for name in [name for name in self.__dict__ if isinstance(getattr(LiveRun, name, None), cached_property)]:
            del self.__dict__[name]

    def refresh(self, choose: bool = True) -> None:
        """Read what is new; everything, if another run uses the folder now.

        Args:
            choose: False to leave the winning lineage as it was: a choice among many members takes long.
        """
        with reading(self.directory) as store:
            store.begin()  # one snapshot
            if not self.is_in(store) or len(store) < len(self):
                self._forget()
                self.file = _identify(store)
            self.about, self.space = store.about, store.space
            new = numbers(store, "observation", len(self))
            more = numbers(store, "decision", int(self.decided["id"].max(initial=0)))
            self._check(new, more)
            self._find_best(store)
            if choose:
                self._find_lineage(store)
            self.numbers = np.concatenate([self.numbers, new])
            self.decided = np.concatenate([self.decided, more])
            self._renew()
            unread = [int(i) + 1 for i in self._sample if int(i) + 1 not in self._configs]  # Ids count from 1.
            self._configs |= configs(store, "observation", unread)
            self._find_metrics(store, len(new))

    def is_in(self, store: Store) -> bool:
        """Tell whether a file still holds this run."""
        return self.file == _identify(store)

    def _check(self, new: Numbers, decided: Numbers) -> None:
        """Raise HistoryError unless rows are numbered, members are in range, and parents come first."""
        most = self.about.get("size") or MEMBERS
        for what, rows in (("observation", new), ("decision", decided)):
            member, round_ = rows["member"], rows["round"]
            if not (np.isfinite(round_).all() and (round_ >= 0).all() and ((member >= 0) & (member < most)).all()):
                raise HistoryError(f"members are 0 to {most - 1:,}, and rounds count from 0, got an {what} of another")
        moderate = (np.abs(np.nan_to_num(decided[name])) < MAX_NUMBER for name in decided.dtype.names or ())
        if not all(each.all() for each in moderate) or not np.isfinite(decided["time"]).all():
            raise HistoryError("a decision has a time, and seconds, got one without, or far from all others")
        if (new["id"] != len(self.numbers) + 1 + np.arange(len(new))).any():
            raise HistoryError("observations are numbered without gaps, got one missing")
        if np.isnan(new["completed"]).any():
            raise HistoryError("an observation has a status, got one without")
        if (rule := broken_rule(new)) is not None:
            raise HistoryError(f"{rule}, got others")
        finished = dict(zip(*np.unique(self.numbers["member"], return_counts=True), strict=True))
        for member, round_, of, of_round in new[[*KEY_COLUMNS[1:]]].tolist():
            if finished.setdefault(member, 0) != round_:
                raise HistoryError(f"member {member:.0f} is at round {finished[member]}, got its round {round_:g}")
            finished[member] += 1
            if of == of and not 0 <= of_round < finished.get(of, 0) - (of == member):
                raise HistoryError(f"a parent comes first, got ({of:g}, {of_round:g}) for ({member:.0f}, {round_:.0f})")
        for member, _, of, of_round in decided[[*KEY_COLUMNS[1:]]].tolist():
            if of == of and not 0 <= of_round < finished.get(of, 0):
                raise HistoryError(f"a parent comes first, got ({of:g}, {of_round:g}) for a decision of {member:.0f}")

    def _find_best(self, store: Store) -> None:
        new = store.best(after=len(self))
        if new is not None and (self.best is None or merit(new, self.sign) > merit(self.best, self.sign)):
            self.best = new

    def _find_lineage(self, store: Store) -> None:
        """Follow what would be handed over now back to its first ancestor."""
        choice = handed_over(store)
        if choice is not None and choice.observation.key != self._chosen:
            self._chosen = choice.observation.key
            self.lineage = store.lineage(self._chosen)

    def _find_metrics(self, store: Store, new: int) -> None:
        """Note the names of metrics in a sample of the new observations."""
        sampled = thin(np.arange(len(self) - new, len(self)), MAX_INTERVALS_SEARCHED)
        found = metric_names(some_metrics(store, (sampled + 1).tolist()))
        self._metric_names = sorted({*self._metric_names, *found})[:MAX_METRICS]

    # Data of figures

    @property
    def size(self) -> int:
        """Number of members, or of those seen if it is not on record."""
        return max(self.about.get("size") or 0, super().size)

    @property
    def horizon(self) -> int:
        """The last round of an axis: the run's last, or one with room to grow, so that the axis rarely changes."""
        rounds = self.about.get("rounds")
        return int(rounds) - 1 if rounds else 2 ** int(np.ceil(np.log2(max(8, len(self.scores)))))

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics that curves can show."""
        return self._metric_names

    def metric(self, name: str) -> FloatArray:
        """Return a metric, (rounds, members); NaN where it was not reported. Only what is new is read."""
        known = self._metrics.pop(name, np.empty(0))
        with reading(self.directory) as store:
            if not self.is_in(store):
                raise HistoryError(f"{store.path} holds another run now")
            more = metric_column(name, metrics(store, len(known), len(self)))
        if len(self._metrics) >= MAX_METRICS:  # The one that was asked for longest ago.
            self._metrics.pop(next(iter(self._metrics)))
        self._metrics[name] = np.concatenate([known, more])
        return on_table(self.indices, self._metrics[name])

    def key(self, index: int) -> Key:
        """Return member and round of an interval."""
        return int(self.numbers["member"][index]), int(self.numbers["round"][index])

    @staticmethod
    def parent(row: Any) -> Key | None:
        """Return the parent of a row of `numbers` or `decided`."""
        return None if np.isnan(row["parent_member"]) else (int(row["parent_member"]), int(row["parent_round"]))

    @property
    def _sample(self) -> IntArray:
        """Indices of the intervals that are drawn one by one: the winning lineage, and a sample of the others.

        The sample is halved as a run grows, and never gains old intervals, so that a configuration is read once.
        """
        halvings = max(0, int(np.ceil(np.log2(max(1, len(self)) / MAX_CONFIGS))))
        mixed = np.arange(len(self), dtype=np.uint64) * np.uint64(2654435761) % np.uint64(2**32)
        drawn = (mixed < 2 ** (32 - halvings)) & (self.numbers["lost"] == 0)
        for member, round_, _ in self.lineage:
            drawn[self.indices[round_, member]] = True
        return np.flatnonzero(drawn)

    @cached_property
    def intervals(self) -> IntervalArrays:
        """The intervals that are drawn, as arrays."""
        at = self._sample
        points = self.space.encode([self._configs[int(i) + 1] for i in at])
        return IntervalArrays(points, self.column("member")[at], self.column("round")[at], self.change(at))

    @np.errstate(over="ignore", invalid="ignore")  # Scores may be near 1e308.
    def change(self, indices: Any) -> Any:
        """Return `Observation.change` of the intervals at these indices; NaN where either score is unknown."""
        return difference(self.numbers["score"][indices], self.numbers["score_before"][indices])

    def describe(self, key: Key) -> None:
        """Return None: the page loads the configuration of a selected member, so points need not carry it."""

    # State of the members

    @cached_property
    def last(self) -> IntArray:
        """(members,) index of each member's last interval; -1 for members without one."""
        at = np.full(self.size, -1)
        at[self.column("member")] = np.arange(len(self))
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


def _identify(store: Store) -> tuple[int, dict[str, Any]]:
    """Return the inode of a file, and the metadata of its run: if they change, it is another run."""
    return store.path.stat().st_ino, store.about
