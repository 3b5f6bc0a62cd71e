"""One listening port served by granian, inside this process and without an event loop.

granian's worker runs its HTTP server in a thread of its own and hands every request, and every body, to one Python thread. As its
public entry points wrap each request in an asyncio task of another thread, which doubles the cost of an event (measured: see the
decision on the receiver's hot path), this module gives the worker a scheduler that calls straight into the application. It is the
only module that knows granian's inner classes; their version is pinned for that.

A new certificate is taken up by a second worker on the same socket, so that connections wait in one queue for both. The first one
must not be ended at once, which would drop connections in the middle of their handshake: its descriptor is made to mean another
socket, on which nobody calls, and it is ended when the handshakes are over.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from granian.http import HTTP1Settings, HTTP2Settings

from headrace.base.clock import Clock, Deadline, SystemClock
from headrace.base.errors import Terminal
from headrace.receiver.config import Limits
from headrace.receiver.rsgi import Watcher

Serve = Callable[[Watcher], None]

_granian: Any = importlib.import_module("granian._granian")
"""Its own type hints are of another version than its code."""

_BACKLOG = 2048
_WINDOW = 256 * 1024
"""HTTP/2 flow control: what a connection may have on its way to us."""
_STREAMS = 128
_HANDSHAKE_SECONDS = 12.0
"""After this time no handshake is under way any more: granian allows 10 s."""

logging.getLogger("_granian").setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files that are known to fit together (`tls.check`)."""

    chain: Path
    key: Path


class Listener:
    """A port from `start` to `stop`. `serve` is called for each request, on one thread per worker, and must not raise."""

    def __init__(
        self,
        host: str,
        port: int,
        serve: Serve,
        limits: Limits,
        *,
        certificate: Certificate | None = None,
        share_port: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """Binds; raises `Terminal` when that can't be done. Port 0 takes any free one, `port` is the real one."""
        self._now = (clock or SystemClock()).monotonic
        self._socket = _bind(host, port, share_port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self.secure = certificate is not None
        self._serve = serve
        self._limits = limits
        self._certificate = certificate
        self._worker: _Worker | None = None
        self._retired: list[tuple[float, _Worker]] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"

    def start(self) -> None:
        """Accept connections."""
        self._worker = _Worker(self._socket, self._serve, self._limits, self._certificate)

    def renew(self, certificate: Certificate) -> None:
        """Show `certificate` to new connections; open ones are closed some seconds later, after the request they are in."""
        before, self._certificate = self._worker, certificate
        if before is not None:
            self.start()
            before.accept_no_more()
            self._retired.append((self._now(), before))

    def tidy(self) -> None:
        """End the workers whose certificate has been replaced; to be called now and then."""
        past = self._now() - _HANDSHAKE_SECONDS
        for since, worker in self._retired:
            if since <= past:
                worker.stop()
        self._retired = [(since, worker) for since, worker in self._retired if not worker.stopped.is_set()]

    def stop(self) -> None:
        """Accept no more; requests that have arrived are answered, idle connections closed."""
        self._socket.close()
        for worker in self._workers():
            worker.stop()

    def wait(self, deadline: Deadline) -> bool:
        """Whether everything has been answered, at the deadline at the latest."""
        return all(worker.stopped.wait(deadline.remaining()) for worker in self._workers())

    def _workers(self) -> list[_Worker]:
        return [*([self._worker] if self._worker is not None else []), *(worker for _, worker in self._retired)]


class _Worker:
    """One worker of granian on a socket."""

    def __init__(self, listening: socket.socket, serve: Serve, limits: Limits, certificate: Certificate | None) -> None:
        self.stopped = threading.Event()
        self._stopping = False
        self._signal = _granian.WorkerSignal()
        self._signal.add_cb(self.stopped.set)
        # The worker owns, and closes, the descriptor that it is given.
        self._descriptor = os.dup(listening.fileno())
        self._holder = _granian.SocketHolder(self._descriptor, False, _BACKLOG)
        self._scheduler = _Scheduler(serve)
        self._worker = _granian.RSGIWorker(
            1,
            (None, self._holder),
            None,
            threads=1,
            blocking_threads=8,
            py_threads=1,
            py_threads_idle_timeout=30,
            backpressure=limits.connections,
            http_mode="auto",
            http1_opts=HTTP1Settings(
                header_read_timeout=int(limits.header_seconds * 1000), max_buffer_size=max(8192, limits.headers)
            ),
            http2_opts=HTTP2Settings(
                initial_connection_window_size=_WINDOW,
                initial_stream_window_size=_WINDOW // 4,
                max_concurrent_streams=_STREAMS,
                max_headers_size=limits.headers,
            ),
            websockets_enabled=False,
            ssl_enabled=certificate is not None,
            ssl_cert=str(certificate.chain) if certificate else None,
            ssl_key=str(certificate.key) if certificate else None,
            ssl_protocol_min="tls1.2",
        )
        self._worker.serve_async(self._scheduler, _NO_LOOP, self._signal)

    def accept_no_more(self) -> None:
        """Leave new connections to another worker on the same socket; those accepted go on. Only before `stop`."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as nobody:
            nobody.setblocking(False)
            nobody.bind(("127.0.0.1", 0))
            nobody.listen(1)
            os.dup2(nobody.fileno(), self._descriptor)

    def stop(self) -> None:
        """Close the accepting end; `stopped` is set once every request is answered. Safe to call twice."""
        if not self._stopping:
            self._stopping = True
            self._signal.set()


class _NoLoop:
    """Stands where granian expects an event loop: calls at once what it is to schedule."""

    @staticmethod
    def call_soon(callback: Callable[..., object], *args: Any, context: object = None) -> None:
        callback(*args)

    call_soon_threadsafe = call_soon


_NO_LOOP = _NoLoop()


class _Scheduler(_granian.CallbackScheduler):  # type: ignore[misc]
    """What granian's worker calls with each request."""

    __slots__ = ()

    def __new__(cls, serve: Serve) -> _Scheduler:
        self: _Scheduler = super().__new__(cls, _NO_LOOP, None, None, None, None)
        self._schedule_fn = serve
        return self

    def __init__(self, serve: Serve) -> None:
        super().__init__()


def _bind(host: str, port: int, share: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise Terminal(
            f"cannot listen: {error.strerror or error}",
            subject=f"receiver {host}:{port}",
            hint="Choose another port, or 0 for any free one",
        ) from None
    return listening
