"""The pace at which the live page makes anew what takes long."""

import time
from abc import ABC, abstractmethod

from popbandits.reports.live.follow import Followed

PACE = 10.0
"""What takes long is made anew after so many times as long."""


class Paced(ABC):
    """Something that is made anew as a run goes on, at a pace that depends on how long it takes."""

    short = 0.0
    """Seconds that are not long."""

    def __init__(self) -> None:
        self.stale = False
        """Whether the run went on since it was made."""
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it should be made anew now."""
        return self.stale and self._due <= time.monotonic()

    def make(self, run: Followed, version: int) -> None:
        """Make it anew, at this version of the run."""
        began = time.monotonic()
        self._make(run, version)
        took = time.monotonic() - began
        self._due, self.stale = began + (PACE * took if took > self.short else 0.0), False

    @abstractmethod
    def _make(self, run: Followed, version: int) -> None:
        """Do the work."""
