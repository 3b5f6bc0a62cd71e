"""Calls put off by a fixed time, on one thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from headrace.base.clock import Clock
from headrace.base.log import get_logger

log = get_logger(__name__)


class Later:
    """Runs each call `seconds` after it was handed in, in order, from `start` to `close`."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._now = clock.monotonic
        self._due: deque[tuple[float, Callable[[], None]]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="later", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def call(self, function: Callable[[], None]) -> None:
        """Run `function` after the time. From any thread."""
        with self._changed:
            self._due.append((self._now() + self._seconds, function))
            self._changed.notify()

    def close(self) -> None:
        """Run what is due or waiting, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due and not self._closing:
                    self._changed.wait()
                if not self._due:
                    return
                due, function = self._due[0]
                wait = due - self._now()
                if wait > 0:
                    self._changed.wait(wait)
                    continue
                self._due.popleft()
            try:
                function()
            except Exception:
                log.exception("A call that had been put off failed")
