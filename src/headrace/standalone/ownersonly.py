"""Who may ask the API: programs of this machine, and no web pages."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.standalone.failures import Failure


class OwnersOnly:
    """Keeps web pages out: the API has no passwords, and a browser on this machine would reach it for any page that it shows.

    A page's requests carry its own `Origin`, or, where it made its name point here, that name as `Host`.
    """

    def __init__(self, app: ASGIApp, refused: Callable[[Failure], ASGIApp]) -> None:
        self._app = app
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        origin = urlsplit(headers.get("origin", "")).hostname
        host = urlsplit(f"//{headers.get('host', '')}").hostname
        if all(name in (None, "localhost", "127.0.0.1", "::1") for name in (origin, host)) and headers.get("origin") != "null":
            await self._app(scope, receive, send)
        else:
            failure = Failure(403, "Forbidden", "requests of web pages, and under other names than localhost, are not taken")
            await self._refused(failure)(scope, receive, send)
