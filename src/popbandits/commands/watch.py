"""`popbandits watch`."""

import argparse
from pathlib import Path

from popbandits.commands.registry import Command


def watch(parser: argparse.ArgumentParser) -> Command:
    """Follow runs in a browser, while they train or afterwards.

    It serves a page that lists the runs below a folder, and a page for each run that
    updates as it trains: scores, which member copied which and what it tries, every
    member with its configuration, parents and failures. It only reads. Start it
    before, during or after a run, on any machine that sees the folder. Ctrl-C ends
    it, and runs are not affected.

    By default only this machine can open the page. With --host others can, with the
    token in the printed address. To open it from elsewhere without --host:
    ssh -L 8765:localhost:8765 MACHINE

    It needs: pip install 'popbandits[report]'
    """
    parser.add_argument(
        "directory", type=Path, nargs="?", default=Path("runs"), metavar="DIR", help="folder that holds the runs (runs)"
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, metavar="N", help="port to listen on (8765, or a free one if it is taken)")
    parser.add_argument("--token", metavar="TEXT", help="token that gives access (generated unless the host is local)")

    def serve(arguments: argparse.Namespace) -> None:
        import secrets
        import socket
        from contextlib import suppress

        from popbandits.reports.figures.figure import require_extra

        require_extra("starlette", "uvicorn")
        from popbandits.reports.live.guard import is_local
        from popbandits.reports.live.server import Server, open_socket

        if arguments.token == "":
            parser.error("--token must not be empty; leave it out to have one generated")
        local = is_local(arguments.host)
        token = arguments.token or (None if local else secrets.token_urlsafe(24))
        listening = open_socket(arguments.host, arguments.port)
        name = socket.gethostname() if arguments.host in ("0.0.0.0", "::") else arguments.host
        name = "localhost" if local else f"[{name}]" if ":" in name else name
        end = "" if token is None else f"?token={token}"
        address = f"http://{name}:{listening.getsockname()[1]}/{end}"
        message = f"Watching {arguments.directory} at {address}\nCtrl-C ends it."
        server = Server(arguments.directory, token, lambda: print(message, flush=True))
        with suppress(KeyboardInterrupt):
            server.run([listening])

    return serve
