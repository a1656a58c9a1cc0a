"""The live page and whoever talks to it: connections that say nothing, cookies of others, nonsense."""

import re
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from popbandits.reports.live import connections
from tests.reports.served import served


def closed(connection: socket.socket, seconds: float = 300.0) -> bool:
    """Whether the other side hangs up."""
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True
    return True


UNFINISHED = (
    b"",
    b"GET /api/runs HT",
    b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n",
    b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api/ru",
    b"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nsome",
)


def test_who_does_not_finish_a_question_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TIMEOUT_SECONDS", 0.3)
    with served(tmp_path) as server, ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in UNFINISHED]
        for connection, said in zip(opened, UNFINISHED, strict=True):
            connection.sendall(said)
        for connection, said in zip(opened, UNFINISHED, strict=True):
            assert closed(connection), said
        assert server.get("/api/runs").status == 200


def test_who_follows_a_run_may_do_so_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TIMEOUT_SECONDS", 0.3)
    (tmp_path / "run.sqlite").write_bytes(b"no run")
    with served(tmp_path) as server, socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET /api/news?run=. HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert not closed(connection, 1.0)


def test_connections_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    with served(tmp_path) as server, ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(12)]
        assert all(closed(one) for one in held[4:])


def test_a_cookie_of_somebody_else_is_ignored(tmp_path: Path) -> None:
    with served(tmp_path, token="a word; with = signs") as server:
        welcome = server.get("/runs", {"token": "a word; with = signs"})
        own = welcome.headers["set-cookie"].partition(";")[0]
        for foreign in ("a/b[c]=1", "x", "=", 'a="unfinished', "{json}={}", "ä=ö".encode().decode("latin-1")):
            assert server.get("/api/runs", cookie=f"{foreign}; {own}; {foreign}").status == 200, foreign
            assert server.get("/api/runs", cookie=foreign).status == 401
        name = own.partition("=")[0]
        assert server.get("/api/runs", cookie=f"{name}=wrong; {own}").status == 200
        assert server.get("/api/runs", cookie=f"{name}=a word").status == 401


def test_nonsense_is_logged_for_a_while(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path) as server:
        for _ in range(connections.MAX_LOG_LINES + 20):
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(b"\0\1\2 nonsense\r\n\r\n")
                assert closed(connection)
    said = [line for line in capfd.readouterr().err.splitlines() if "Invalid HTTP request" in line]
    assert len(said) == connections.MAX_LOG_LINES
    assert said[-1].endswith("(nothing more will be logged)")


@pytest.mark.parametrize(
    "path", ["//example.org/run", "///example.org", "/%2Fexample.org/", "/\\example.org", "/%5Cexample.org"]
)
def test_a_token_in_an_address_leads_to_no_other_machine(path: str, tmp_path: Path) -> None:
    with served(tmp_path, token="word") as server:
        welcome = server.get(path, {"token": "word", "run": "."})
        assert welcome.status == 303
        assert re.match(r"/(?![/\\])", welcome.headers["location"]), welcome.headers["location"]


@pytest.mark.parametrize(
    "host",
    ["[::1]example.org", "[::1]:80.example.org", "localhost:80@example.org", "localhost:80:80", "[::1", "[]", ":"],
)
def test_a_name_that_only_begins_like_this_machine_is_refused(host: str, tmp_path: Path) -> None:
    with served(tmp_path) as server:
        assert server.get("/api/runs", host=host).status == 421
        assert server.get("/api/runs", host="[::1]:80").status == 200
