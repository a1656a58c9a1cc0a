"""Pacing of slow updates of the live page."""

import time
from abc import ABC, abstractmethod

from popbandits.reports.live.follow import LiveRun

PAUSE_FACTOR = 10.0
"""A slow update is repeated after this many times its duration."""


class PacedUpdate(ABC):
    """Something that is updated as a run continues, at a pace that depends on how long an update takes."""

    short = 0.0
    """Seconds up to which an update is not slow."""

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
        self._due, self.stale = began + (PAUSE_FACTOR * took if took > self.short else 0.0), False

    @abstractmethod
    def _make(self, run: LiveRun, version: int) -> None:
        """Do the work."""
