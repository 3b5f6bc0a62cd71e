"""The operations endpoint of a process: `/metrics`, `/healthz`, `/readyz` on 127.0.0.1.

`/healthz` answers 200 while the process can do its work at all, `/readyz` while it does it; both name what is missing with 503.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from headrace.base.errors import Terminal

Check = Callable[[], list[str]]
"""What is missing, a short sentence each; empty when all is well."""
Page = Callable[[], bytes]
"""The JSON body of an additional page."""


def healthy() -> list[str]:
    """The check of a process that is alive as long as it answers."""
    return []


class OpsServer:
    """Serves in a thread from `start` to `close`. Port 0 takes any free one; `port` is the real one after `start`."""

    def __init__(
        self,
        registry: CollectorRegistry,
        ready: Check,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        live: Check = healthy,
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._pages: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/metrics": lambda: (200, CONTENT_TYPE_LATEST, generate_latest(registry)),
            "/healthz": lambda: _checked(live),
            "/readyz": lambda: _checked(ready),
        }
        for path, page in (pages or {}).items():
            self._pages[path] = lambda page=page: (200, "application/json", page())  # type: ignore[misc]
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Listen. Raises `Terminal` when the port is taken."""
        pages = self._pages

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                page = pages.get(self.path.partition("?")[0])
                status, kind, body = page() if page else (404, "text/plain; charset=utf-8", b"not found\n")
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Probes and scrapes are no news."""

        try:
            self._server = ThreadingHTTPServer((self.host, self.port), Handler)
        except OSError as error:
            raise Terminal(
                f"cannot listen: {error.strerror}",
                subject=f"operations port {self.host}:{self.port}",
                hint="Choose another port, or 0 for any free one",
            ) from None
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="ops", daemon=True).start()

    def close(self) -> None:
        """Stop listening; safe to call twice."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


def _checked(check: Check) -> tuple[int, str, bytes]:
    missing = check()
    body = json.dumps({"status": "ok" if not missing else "unavailable", "missing": missing}).encode()
    return (200 if not missing else 503), "application/json", body
