"""The server of the live page: it reads runs and writes nothing."""

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.responses import StreamingResponse as Stream
from starlette.routing import Route

from popbandits.basics.wording import visible
from popbandits.errors import ArgumentError, PopbanditsError
from popbandits.reports.html import PAGE, scripts, strict_json, themes
from popbandits.reports.libraries import Libraries
from popbandits.reports.live.connections import MAX_LOG_LINES, LogLimit, TimeoutProtocol
from popbandits.reports.live.guard import Guard
from popbandits.reports.live.member import member
from popbandits.reports.live.pages import list_page, run_page
from popbandits.reports.live.runs import ROOT_NAME, Runs
from popbandits.reports.run import Run
from popbandits.reports.single import report_page
from popbandits.reports.status import Status, rounds_done
from popbandits.storage.folders import file_stamp
from popbandits.storage.queries import failures
from popbandits.storage.store import reading

DEFAULT_PORT = 8765
"""Default port, if it is free."""
POLL_SECONDS = 0.25
"""Seconds between two checks of a run that a page follows."""
LOGGERS = ("uvicorn.error", "asyncio")
"""Names of the loggers that write to the log."""
KEEPALIVE_SECONDS = 15.0
"""Seconds without news after which a comment is sent, so that no proxy closes the connection."""


class Pages:
    """Answers to requests, all of which only read."""

    def __init__(self, root: Path):
        self.runs = Runs(root)
        self.ending = asyncio.Event()
        """Set when the server ends, so that streams do not keep it alive."""
        self._libraries = Libraries()
        self._assets = ASSETS | {"vega.js": self._libraries.text}
        self._making = threading.Lock()
        self._report: tuple[Any, str] = None, ""

    def close(self) -> None:
        """End all streams."""
        self.ending.set()
        self._libraries.close()

    def routes(self) -> list[Route]:
        """List the routes of the pages and their data."""
        return [
            Route("/", self.front),
            Route("/runs", self.all_runs),
            Route("/run", self.run),
            Route("/report", self.report),
            Route("/failure", self.failure),
            Route("/api/runs", self.statuses),
            Route("/api/news", self.news),
            Route("/api/member", self.member),
            Route("/api/curves", self.curves),
            Route("/assets/{name}", self.asset),
        ]

    async def front(self, request: Request) -> Response:
        """Answer with the list of runs; if the folder is itself a run, redirect to its page."""
        if list(await run_in_threadpool(self.runs.find)) == [ROOT_NAME]:
            return RedirectResponse(f"run?run={ROOT_NAME}")
        return await self.all_runs(request)

    async def all_runs(self, request: Request) -> Response:
        """Answer with the list of runs."""
        return HTMLResponse(list_page(str(self.runs.root)))

    async def run(self, request: Request) -> Response:
        """Answer with the page of a run."""
        name, directory = await self._asked(request)
        return HTMLResponse(run_page(name, directory.name if name == ROOT_NAME else name))

    async def report(self, request: Request) -> Response:
        """Answer with the report of a run as it is now, made on request."""
        _, directory = await self._asked(request)
        # The report has its own security policy, with the hashes of its scripts.
        return HTMLResponse(await run_in_threadpool(self._render, directory), headers={"content-security-policy": ""})

    def _render(self, directory: Path) -> str:
        with self._making:  # One at a time: each keeps a core busy for seconds.
            now = directory, file_stamp(directory)
            if self._report[0] != now:
                self._report = now, report_page(Run.read(directory), self._libraries.text)[0]
            return self._report[1]

    async def failure(self, request: Request) -> Response:
        """Answer with everything on record about an interval that failed, as text."""
        _, directory = await self._asked(request)
        number, round_ = _whole(request, "member"), _whole(request, "round")

        def read_failure() -> str | None:
            with reading(directory) as store:
                return failures(store, number, round_).get(round_)

        text = await run_in_threadpool(read_failure)
        if text is None:
            raise HTTPException(404, f"there is no record of a failure of member {number} in round {round_}")
        return PlainTextResponse(text)

    async def statuses(self, request: Request) -> Response:
        """Answer with the state of every run."""
        found = await run_in_threadpool(self.runs.statuses)
        return JSONResponse({"now": time.time(), "rows": [_row(name, how) for name, how in found.items()]})

    async def news(self, request: Request) -> Response:
        """Stream the news of a run, until the page disconnects or the server ends."""
        name, _ = await self._asked(request)
        return Stream(self._stream(name), media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _stream(self, name: str) -> AsyncIterator[str]:
        news, version, spoke = self.runs.news(name), None, time.monotonic()
        while news is not None and not self.ending.is_set():
            message = await run_in_threadpool(news.since, version)
            if message is not None:
                version, spoke = message["version"], time.monotonic()
                yield f"data: {strict_json(message)}\n\n"
                if message.get("more"):
                    continue
            elif time.monotonic() - spoke > KEEPALIVE_SECONDS:
                spoke = time.monotonic()
                yield ": nothing new\n\n"
            with suppress(TimeoutError):
                await asyncio.wait_for(self.ending.wait(), POLL_SECONDS)

    async def member(self, request: Request) -> Response:
        """Answer with one member of a run."""
        _, directory = await self._asked(request)
        number = _whole(request, "member")
        shown = await run_in_threadpool(member, directory, number)
        if shown is None:
            raise HTTPException(404, f"the run has no member {number} yet")
        return JSONResponse(shown)

    async def curves(self, request: Request) -> Response:
        """Answer with the learning curves of a run, drawn with a metric."""
        name, _ = await self._asked(request)
        news, metric = self.runs.news(name), request.query_params.get("metric", "")
        drawn = None if news is None else await run_in_threadpool(news.curves, metric)
        if drawn is None:
            raise HTTPException(404, f"no interval has reported a number as {metric[:40]!r}")
        return Response(strict_json(drawn), media_type="application/json")

    async def asset(self, request: Request) -> Response:
        """Answer with a style sheet or a script."""
        name = request.path_params["name"]
        if name not in self._assets:
            raise HTTPException(404, f"there is no {name}")
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        return Response(await run_in_threadpool(self._assets[name]), media_type=kind)

    async def _asked(self, request: Request) -> tuple[str, Path]:
        """Return the run that a request names; only runs that were found, so that no path leads elsewhere."""
        name = request.query_params.get("run", ROOT_NAME)
        directory = (await run_in_threadpool(self.runs.find)).get(name)
        if directory is None:
            raise HTTPException(404, "there is no such run in the watched folder")
        return name, directory


ASSETS: dict[str, Callable[[], str]] = {
    "style.css": lambda: (PAGE / "style.css").read_text("utf-8"),
    "runs.js": lambda: scripts("theme", "table", "runs"),
    "live.js": lambda: (
        f"const CONFIGS = {json.dumps(themes())};\n{scripts('theme', 'charts', 'axes', 'table', 'live')}"
    ),
}


def _whole(request: Request, name: str) -> int:
    given = request.query_params.get(name, "")
    if not (given.isascii() and given.isdigit() and len(given) < 10):
        raise HTTPException(400, f"{name} must be a whole number of at least 0, got {given[:40]!r}")
    return int(given)


def _row(name: str, how: Status | str) -> list[Any]:
    if isinstance(how, str):
        return [name, "unreadable", how[:200], *6 * [None]]
    rounds = rounds_done(how.round, how.rounds)
    return [name, how.state, how.method, rounds, how.best, how.mean, how.failures, how.begun, how.changed]


async def _refused(request: Request, error: Exception) -> Response:
    """Answer with what is wrong: with the request, or with a run that cannot be read."""
    if isinstance(error, HTTPException):
        return PlainTextResponse(f"{error.detail}\n", error.status_code)
    return PlainTextResponse(f"{visible(str(error))}\n", 422)


class Server(uvicorn.Server):
    """A server that ends when it is stopped, even if pages are still open."""

    def __init__(self, root: Path, token: str | None = None, ready: Callable[[], None] = lambda: None):
        import_module("altair")  # Slow, so before the first request.
        self.pages, self._ready = Pages(root), ready
        handlers: Any = dict.fromkeys((HTTPException, PopbanditsError), _refused)
        guard = Middleware(Guard, token=token)
        app = Starlette(routes=self.pages.routes(), middleware=[guard], exception_handlers=handlers)
        app.router.redirect_slashes = False
        config = uvicorn.Config(
            app, http=TimeoutProtocol, ws="none", log_level="warning", lifespan="off", timeout_graceful_shutdown=2
        )
        super().__init__(config)
        self._few = LogLimit(MAX_LOG_LINES)
        for name in LOGGERS:
            logging.getLogger(name).addFilter(self._few)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then call `ready`: from here on a signal ends the server cleanly."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all streams, then the server."""
        self.pages.close()
        await super().shutdown(sockets)
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(self._few)


def open_socket(host: str, port: int | None) -> socket.socket:
    """Open a listening socket; without a port, the usual one, or any free one if that is taken."""
    if port is not None and not 0 <= port <= 65535:
        raise ArgumentError(f"port must be between 0 and 65535, got {port}; leave it out for a free one")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for one in (DEFAULT_PORT, 0) if port is None else (port,):
        made = socket.socket(family)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, one))
            made.listen()
        except OSError as error:
            made.close()
            reason = str(error)
        else:
            return made
    raise ArgumentError(
        f"cannot listen at {host}, port {DEFAULT_PORT if port is None else port}: {reason}; give others"
    )
