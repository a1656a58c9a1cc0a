"""Parts of the live page that take long to make: winning lineage, figures, warnings. Each has its own pace."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from popbandits.advice import MAX_LINEAGE, count_recent, judge
from popbandits.basics.records import Key
from popbandits.errors import HistoryError
from popbandits.reports.figures.figure import Figure
from popbandits.reports.figures.learning import learning, metric_values
from popbandits.reports.figures.schedules import schedules
from popbandits.reports.html import bare
from popbandits.reports.live.live_run import LiveRun
from popbandits.storage.store import reading

PAUSE_FACTOR = 10.0
"""A slow update is repeated after this many times its duration."""
FAST_SECONDS = 0.2
"""Duration up to which an update of a figure, or of the winning lineage, is not slow."""
MAX_POINTS = 2_000
"""Approximate number of scores drawn one by one."""

FIGURES: dict[str, Callable[[LiveRun], Figure | None]] = {
    "learning": lambda run: learning(run, MAX_POINTS),
    "schedules": lambda run: None if run.space.fixed else schedules({"": [run]}),
}


@np.errstate(over="ignore", invalid="ignore")
def curves(run: LiveRun, metric: str) -> dict[str, Any]:
    """Return the data of the learning curves with a metric, which pages are sent when a reader chooses it."""
    figure = learning(run, MAX_POINTS)
    return {"data": figure.data, "axes": figure.axes, "values": metric_values(run, metric, MAX_POINTS)}


class PacedUpdate(ABC):
    """Something that is updated as a run continues, at a pace that depends on how long an update takes."""

    fast_seconds = 0.0
    """Duration up to which an update is not slow."""

    def __init__(self) -> None:
        self.stale = False
        """True if the run has continued since the last update."""
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """True if it should be updated now."""
        return self.stale and self._due <= time.monotonic()

    def make(self, run: LiveRun, version: int) -> None:
        """Update it to this version of the run."""
        began = time.monotonic()
        self._make(run, version)
        took = time.monotonic() - began
        self._due, self.stale = began + (PAUSE_FACTOR * took if took > self.fast_seconds else 0.0), False

    @abstractmethod
    def _make(self, run: LiveRun, version: int) -> None:
        """Do the work."""


class LineageUpdate(PacedUpdate):
    """The winning lineage, which leads to what would be handed over now; it comes with all else that is new."""

    fast_seconds = FAST_SECONDS

    def _make(self, run: LiveRun, version: int) -> None:
        run.refresh(choose=True)


class FigureUpdate(PacedUpdate):
    """A figure for the page: a Vega-Lite specification that rarely changes, and data that do."""

    fast_seconds = FAST_SECONDS

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.made = -1
        """Version of the run at which it was made."""
        self._panels: Any = None
        self._spec: dict[str, Any] = {}
        self._spec_made = -1
        self._rest: dict[str, Any] = {}

    @np.errstate(over="ignore", invalid="ignore")
    def _make(self, run: LiveRun, version: int) -> None:
        figure = FIGURES[self.name](run)
        if figure is not None:
            if figure.panels is not self._panels:
                self._panels, self._spec_made = figure.panels, version
                self._spec = {key: value for key, value in bare(figure.spec).items() if key != "datasets"}
            self._rest = {"data": figure.data, "title": figure.title, "caption": figure.caption}
            self._rest |= {} if figure.axes is None else {"axes": figure.axes}
            self.made = version

    def since(self, version: int) -> dict[str, Any]:
        """Return what a page that has this version needs."""
        new = {"spec": self._spec} if self._spec_made > version else {}
        return new | self._rest


class WarningsUpdate(PacedUpdate):
    """The current warnings about a run; those that no longer hold are dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def _make(self, run: LiveRun, version: int) -> None:
        try:
            self.texts = _warnings(run)
        except (HistoryError, OSError):  # The follower of the run reports errors of its file.
            self.texts = []


def _warnings(run: LiveRun) -> list[str]:
    with reading(run.directory) as store:

        def back(key: Key) -> list[float]:
            return [score for *_, score in reversed(store.lineage(key, MAX_LINEAGE))]

        if not run.is_in(store):  # Another run uses the folder now.
            return []
        after = max(0, len(run) - count_recent(len(run), run.size))
        recent = list(islice(store.observations(after), len(run) - after))
        found = judge(recent, len(run), run.size, run.space, run.sign, back)
    return [one.text for one in found]
