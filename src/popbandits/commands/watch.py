"""`popbandits watch`."""

import argparse
from pathlib import Path

from popbandits.commands.registry import Command, command
from popbandits.errors import ArgumentError


@command
def watch(parser: argparse.ArgumentParser) -> Command:
    """Follow runs in a browser, while they train or afterwards.

    It serves a page that lists the runs below a folder, and one for each that keeps
    up with it: scores, who copied whom and tries what, every member with its
    configuration, its parents and its failures. It only reads. Start it before,
    during or after a run, on any machine that sees the folder; Ctrl-C ends it, and
    no run notices.

    The page is for this machine alone. With --host another may look, who then needs
    the token in the address that is printed. To look from elsewhere without it:
    ssh -L 8765:localhost:8765 MACHINE

    It needs: pip install 'popbandits[report]'
    """
    parser.add_argument(
        "directory", type=Path, nargs="?", default=Path("runs"), metavar="DIR", help="the folder that holds them (runs)"
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (127.0.0.1)")
    parser.add_argument("--port", type=int, metavar="N", help="its port (8765, or a free one if that is taken)")
    parser.add_argument("--token", metavar="TEXT", help="the word that lets in (made up unless the host is local)")

    def serve(arguments: argparse.Namespace) -> None:
        import secrets
        import socket
        from contextlib import suppress

        from popbandits.reports.figures.figure import require_extra

        require_extra("starlette", "uvicorn")
        from popbandits.reports.live.guard import is_local
        from popbandits.reports.live.server import Server, bound

        if arguments.token == "":
            parser.error("token must have letters, got an empty one; leave it out to have one made up")
        local = is_local(arguments.host)
        token = arguments.token or (None if local else secrets.token_urlsafe(24))
        try:
            listening = bound(arguments.host, arguments.port)
            name = socket.gethostname() if arguments.host in ("0.0.0.0", "::") else arguments.host
            name = "localhost" if local else f"[{name}]" if ":" in name else name
            end = "" if token is None else f"?token={token}"
            address = f"http://{name}:{listening.getsockname()[1]}/{end}"
            said = f"Watching {arguments.directory} at {address}\nCtrl-C ends it."
            server = Server(arguments.directory, token, lambda: print(said, flush=True))
        except ArgumentError as error:
            parser.error(str(error))
        with suppress(KeyboardInterrupt):
            server.run([listening])

    return serve
