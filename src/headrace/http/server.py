"""An ASGI application served by granian in a thread of this process."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from granian.constants import Interfaces
from granian.server.embed import Server

from headrace.base.clock import Deadline
from headrace.base.errors import Terminal
from headrace.http.ports import hold

_START_SECONDS = 10.0


class AsgiServer:
    """Serves from `start` to `close`; `port` 0 takes any free one, `port` is the real one from the beginning.

    `on_close` is called in the server's loop before it stops: it must end responses that would stream for ever.
    """

    def __init__(
        self,
        app: Any,
        *,
        what: str,
        flag: str = "",
        host: str = "127.0.0.1",
        port: int = 0,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the port. Raises `Terminal` when it is in use."""
        self._keeper = hold(port, what=what, flag=flag, host=host)
        self.host = host
        self.port = int(self._keeper.getsockname()[1])
        self._what = what
        self._app = app
        self._on_close = on_close
        self._loop = asyncio.new_event_loop()
        self._server: Server | None = None
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def start(self) -> None:
        """Listen; returns once connections are taken."""
        # The embedded server announces itself as experimental at each start.
        logging.getLogger("_granian").setLevel(logging.ERROR)
        self._thread.start()
        deadline = Deadline(_START_SECONDS)
        while not self._answers():
            if deadline.expired or not self._thread.is_alive():
                raise Terminal(f"cannot listen on {self.host}:{self.port}", subject=self._what)
            time.sleep(0.01)

    def close(self, seconds: float = 5.0) -> None:
        """Stop taking requests, finish those under way, for at most `seconds`. Safe to call twice."""
        if self._thread.is_alive():
            try:
                self._loop.call_soon_threadsafe(self._stop)
            except RuntimeError:
                pass
            self._thread.join(seconds)
        self._keeper.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = Server(
            self._app,
            address=self.host,
            port=self.port,
            interface=Interfaces.ASGINL,
            websockets=False,
            log_enabled=False,
            backlog=1024,
        )
        try:
            self._loop.run_until_complete(self._server.serve())
        finally:
            self._loop.close()

    def _stop(self) -> None:
        self._on_close()
        if self._server is not None:
            self._server.stop()  # type: ignore[no-untyped-call]

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), timeout=1):
                return True
        except OSError:
            return False
