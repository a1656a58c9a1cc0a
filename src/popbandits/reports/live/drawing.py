"""The figures of the live page, updated as a run continues."""

from collections.abc import Callable
from typing import Any

import numpy as np

from popbandits.reports.figures.figure import Figure
from popbandits.reports.figures.learning import learning, metric_values
from popbandits.reports.figures.schedules import schedules
from popbandits.reports.html import bare
from popbandits.reports.live.follow import LiveRun
from popbandits.reports.live.pacing import PacedUpdate

MAX_POINTS = 2_000
"""Approximate number of scores drawn one by one."""

FIGURES: dict[str, Callable[[LiveRun], Figure | None]] = {
    "learning": lambda run: learning(run, MAX_POINTS),
    "schedules": lambda run: None if run.space.fixed else schedules({"": [run]}),
}


@np.errstate(over="ignore", invalid="ignore")
def curves(run: LiveRun, metric: str) -> dict[str, Any]:
    """Return the data of the learning curves with a metric, which pages are sent when a reader chooses it."""
    figure = FIGURES["learning"](run)
    assert figure is not None
    return {"data": figure.data, "axes": figure.axes, "values": metric_values(run, metric, MAX_POINTS)}


class Drawing(PacedUpdate):
    """A figure for the page: a Vega-Lite specification that rarely changes, and data that do."""

    short = 0.2

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
