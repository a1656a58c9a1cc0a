"""Access to the pages, and their security headers."""

import hashlib
import hmac
import ipaddress
import re
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    # Only our own scripts and styles. Vega compiles its expressions, and styles its tooltips.
    "content-security-policy": (
        "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data: "
        "blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",  # An address may hold the token.
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


_HOST = re.compile(r"(?:\[([^\]]*)\]|([^:\[\]]*))(?::[0-9]*)?")
"""A name or an address of the older kind, or one of the newer kind in brackets; each with or without a port."""


class Guard:
    """Admits requests with the token, if one is set; otherwise requests for a local name of this machine.

    Without the second check, a page from elsewhere whose name resolves to this machine could read everything.
    """

    def __init__(self, app: ASGIApp, token: str | None):
        self.app, self.token = app, token
        self._cookie = b"" if token is None else _digest(token).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (self.app if refusal is None else refusal)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self.token is None:
            if is_local(headers.get("host", "")):
                return None
            return PlainTextResponse("This page answers only to localhost; popbandits watch --host opens it.\n", 421)
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        cookie = f"popbandits-{(scope.get('server') or ('', ''))[1]}"  # Cookies ignore ports.
        given = dict(asked).get("token")
        if given is not None and self._fits(given):
            rest = urlencode([(name, value) for name, value in asked if name != "token"])
            path = "/" + scope["path"].lstrip("/\\")  # Two slashes would begin the name of another machine.
            welcome = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            welcome.set_cookie(cookie, _digest(given), httponly=True, samesite="strict")
            return welcome
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        # Not with Python's parser, which stops at the first malformed cookie of another site.
        parts = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
        kept = [value for name, _, value in parts if name == cookie]
        if self._fits(bearer) or any(hmac.compare_digest(value.encode(), self._cookie) for value in kept):
            return None
        return PlainTextResponse("This page needs its token: open the address that popbandits watch printed.\n", 401)

    def _fits(self, given: str) -> bool:
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())


def _digest(token: str) -> str:
    """Return the cookie of a token: a digest, whose letters are valid in a cookie."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_local(host: str) -> bool:
    """Tell whether a name, with or without a port, is local to this machine.

    >>> [is_local(host) for host in ("localhost:8080", "127.0.0.1", "[::1]:80", "::1", "example.org", "0.0.0.0", "")]
    [True, True, True, True, False, False, False]
    >>> [is_local(host) for host in ("[::1]example.org", "[::1]:80.example.org", "localhost:80@example.org")]
    [False, False, False]
    """
    parts = _HOST.fullmatch(host)
    bare = host if parts is None else parts[1] or parts[2] or ""
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return bare.lower() == "localhost"
