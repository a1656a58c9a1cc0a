"""Connections of the live page: limits on their number, their idle time and the lines they log."""

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

TIMEOUT_SECONDS = 10.0
"""Seconds within which a request must arrive, and within which a client must read on."""
MAX_CONNECTIONS = 200
"""Maximum connections at a time; more are closed at once. A browser opens six at most."""
MAX_LOG_LINES = 100
"""Maximum lines of the log, so that bad requests cannot fill a disk."""


class TimeoutProtocol(H11Protocol):
    """Closes connections on which no request arrives, or an answer is not read: each holds a file descriptor."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request; close if there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
            return
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait until the request is complete."""
        super().data_received(data)
        cycle: Any = self.cycle  # None before the first request, whatever its type says.
        if cycle is None or cycle.response_complete:
            self._wait()
        else:
            self._done()

    def pause_writing(self) -> None:
        """Begin to wait for the client to read the answer."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """Stop waiting: the answer was read."""
        super().resume_writing()
        self._done()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._done()
        super().connection_lost(exc)

    def _wait(self) -> None:
        """Close the connection after `TIMEOUT_SECONDS`, unless a timer already runs."""
        if self._timer is None:
            self._timer = self.loop.call_later(TIMEOUT_SECONDS, self.transport.abort)

    def _done(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LogLimit(logging.Filter):
    """Passes only the first lines of a log."""

    def __init__(self, most: int):
        super().__init__()
        self.left = most

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is written; the last one says that it is the last."""
        self.left -= 1
        if self.left == 0:
            record.msg, record.args, record.exc_info = f"{record.getMessage()} (nothing more will be logged)", (), None
        return self.left >= 0
