"""Connections of the live page: how many, for how long without a question, and how much is said of bad ones."""

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 10.0
"""Seconds within which a question must have arrived, and within which an answer must be read on."""
MOST = 200
"""Connections at a time; further ones are closed at once. A browser opens six at most."""
LINES = 100
"""Lines of the log; whoever sends nonsense could fill a disk with more."""


class Impatient(H11Protocol):
    """Closes connections on which a question does not arrive, or an answer is not read: each holds a descriptor."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a question; or close, where there are too many already."""
        super().connection_made(transport)
        if len(self.connections) > MOST:
            transport.abort()
            return
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Go on waiting until the question is whole."""
        super().data_received(data)
        cycle: Any = self.cycle  # None before the first question, whatever its type says.
        if cycle is None or cycle.response_complete:
            self._wait()
        else:
            self._done()

    def pause_writing(self) -> None:
        """Begin to wait for whoever reads the answer."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """Go on: it was read."""
        super().resume_writing()
        self._done()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._done()
        super().connection_lost(exc)

    def _wait(self) -> None:
        """Close after a while, from when it was first said."""
        if self._timer is None:
            self._timer = self.loop.call_later(PATIENCE, self.transport.abort)

    def _done(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Few(logging.Filter):
    """Lets the first lines of a log through."""

    def __init__(self, most: int):
        super().__init__()
        self.left = most

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is written; the last one says that it is the last."""
        self.left -= 1
        if self.left == 0:
            record.msg, record.args, record.exc_info = f"{record.getMessage()} (nothing more will be logged)", (), None
        return self.left >= 0
