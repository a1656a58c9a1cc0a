"""The figures of the live page, made anew as a run goes on."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from popbandits.reports.figures.figure import Figure
from popbandits.reports.figures.learning import learning
from popbandits.reports.figures.schedules import schedules
from popbandits.reports.html import bare
from popbandits.reports.live.follow import Followed

POINTS = 2_000
"""About how many scores are drawn one by one."""
PACE, SHORT = 10.0, 0.2
"""A figure that takes longer than the second, in seconds, is made anew after the first times as long."""

FIGURES: dict[str, Callable[[Followed], Figure | None]] = {
    "learning": lambda run: learning(run, POINTS),
    "schedules": lambda run: None if run.space.fixed else schedules({"": [run]}),
}


class Drawing:
    """A figure for the page: Vega-Lite that seldom changes, and data that do."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.made = -1
        """At which version of the run."""
        self.stale = False
        """Whether the run went on since."""
        self._due = 0.0
        self._panels: Any = None
        self._spec: dict[str, Any] = {}
        self._spec_made = -1
        self._rest: dict[str, Any] = {}

    @property
    def is_due(self) -> bool:
        """Whether it should be made anew now."""
        return self.stale and self._due <= time.monotonic()

    @np.errstate(over="ignore", invalid="ignore")
    def make(self, run: Followed, version: int) -> None:
        """Make it anew; it is due again after a while that depends on how long it takes."""
        began = time.monotonic()
        figure = FIGURES[self.name](run)
        if figure is not None:
            if figure.panels is not self._panels:
                self._panels, self._spec_made = figure.panels, version
                self._spec = {key: value for key, value in bare(figure.spec).items() if key != "datasets"}
            self._rest = {"data": figure.data, "title": figure.title, "caption": figure.caption}
            self.made = version
        took = time.monotonic() - began
        self._due, self.stale = began + (PACE * took if took > SHORT else 0.0), False

    def since(self, version: int) -> dict[str, Any]:
        """What a page has to be told that knows this version."""
        new = {"spec": self._spec} if self._spec_made > version else {}
        return new | self._rest
