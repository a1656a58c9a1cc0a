"""A real server of the live page, in a thread, and questions to it."""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from popbandits.reports.live.server import Server, open_socket


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class Asking:
    """Asks a server, as any program could: no path is put in order, no redirect is followed, no cookie kept."""

    port: int

    def get(self, path: str, params: Mapping[str, str] | None = None, **headers: str) -> Answer:
        return self.request("GET", f"{path}?{urlencode(params)}" if params else path, **headers)

    def request(self, method: str, path: str, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.putrequest(method, path, skip_host=True)
            for name, value in {"host": f"localhost:{self.port}", **headers}.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode())
        finally:
            connection.close()


@contextmanager
def served(root: Path, token: str | None = None) -> Iterator[Asking]:
    """A server for this folder, until the block ends."""
    server, listening = Server(root, token), open_socket("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield Asking(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), "the server did not end"
