"""A subscriber: a real HTTP/1.1 server on a port of its own, whose answers the test decides, and which remembers every request."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Request:
    """What arrived: header names in lower case; `at` is monotonic seconds."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    @property
    def id(self) -> str:
        return self.headers.get("ce-id", "")


@dataclass(frozen=True)
class Answer:
    """What to send back after `delay` seconds. `raw`: what to do on the connection instead (it is closed afterwards)."""

    status: int = 202
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0
    raw: Callable[[Any], None] | None = None


class Subscriber:
    """`answer` is asked for each request (from several threads); `requests` lists them in order of arrival."""

    def __init__(
        self, answer: Callable[[Request], Answer | int] | Answer | int = 202, tls: ssl.SSLContext | None = None, port: int = 0
    ) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.open = 0
        self.most_open = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._server = _Server(("127.0.0.1", port), _handler(self))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "http" if tls is None else "https"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def url(self, path: str = "/") -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}{path}"

    @property
    def ids(self) -> list[str]:
        """`ce-id` of all requests so far, in order of arrival."""
        return [request.id for request in list(self.requests)]

    def close(self) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._server.drop_connections()
        self._thread.join()

    def handle(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            self.open += 1
            self.most_open = max(self.most_open, self.open)
        try:
            given = self.answer(request) if callable(self.answer) else self.answer
            answer = Answer(given) if isinstance(given, int) else given
            if answer.delay:
                self._stopping.wait(answer.delay)
            return answer
        finally:
            with self._lock:
                self.open -= 1


@contextmanager
def subscriber(
    answer: Callable[[Request], Answer | int] | Answer | int = 202, tls: ssl.SSLContext | None = None, port: int = 0
) -> Iterator[Subscriber]:
    """A running subscriber, stopped at the end; on a port of its own unless one is given."""
    server = Subscriber(answer, tls, port)
    try:
        yield server
    finally:
        server.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._connections: set[Any] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no failure of the test."""

    def drop_connections(self) -> None:
        for connection in list(self._connections):
            self.shutdown_request(connection)


def _handler(owner: Subscriber) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = owner.handle(Request(self.path, headers, body, time.monotonic()))
            if answer.raw is not None:
                self.close_connection = True
                answer.raw(self)
                return
            self.send_response_only(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Silence."""

    return Handler
