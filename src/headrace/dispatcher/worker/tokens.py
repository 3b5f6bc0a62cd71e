"""Tokens for requests to whoever asks for an audience: kept per identity, fetched and renewed on a thread of their own.

    unknown --wanted--> FETCHING --had--> HELD --2/3 of its life--> renewed beside, HELD goes on --expired--> as unknown
                           | none to be had: again after 0.5, 1, 2 ... 30 s, as long as it is wanted
                           v
                        (events wait: that is no attempt)

No token gets into a log, an error or a report.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from headrace.base.clock import Clock
from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.dispatcher.worker.delivery import Delivery
from headrace.dispatcher.worker.messages import target_of
from headrace.http.tokens import Identity, Token, TokenClient, TokenServer

log = get_logger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
_RENEWED = 2 / 3
_SPARE_SECONDS = 5.0
"""A token is not sent any more when it has so little left: it has to be valid when it gets there."""


class Fetcher(Protocol):
    """Asks for a token of an identity, `after` so many seconds; its answer (a token, or why there is none) comes to `answer`."""

    def fetch(self, identity: Identity, after: float, answer: Callable[[Token | str], None]) -> None: ...


@dataclass(slots=True)
class _Entry:
    """What is known of one identity. Times are seconds since the epoch; `renew` 0: at once."""

    line: str = field(default="", repr=False)
    renew: float = 0.0
    until: float = 0.0
    pause: float = 0.0
    fetching: bool = False
    problem: str = ""
    waiting: list[Delivery] = field(default_factory=list)


class Tokens:
    """All calls belong to the engine's thread; `fetcher` gives its answers there as well."""

    def __init__(self, fetcher: Fetcher, clock: Clock) -> None:
        self._fetcher = fetcher
        self._clock = clock
        self._entries: dict[Identity, _Entry] = {}
        self._arrived: deque[Delivery] = deque()

    def line(self, identity: Identity) -> str | None:
        """The header line that shows a valid token; None while there is none. Sees to it that there will be one."""
        entry = self._entries.get(identity)
        if entry is None:
            entry = self._entries[identity] = _Entry()
        now = self._clock.now()
        if now >= entry.renew and not entry.fetching:
            self._fetch(identity, entry, 0.0)
        return entry.line if now < entry.until else None

    def wait(self, delivery: Delivery, identity: Identity) -> None:
        """Keep a delivery until there is a token (see `arrived`)."""
        entry = self._entries[identity]
        entry.waiting.append(delivery)
        if entry.problem:
            delivery.lane.counts.blocked = entry.problem

    def arrived(self) -> Delivery | None:
        """One that need not wait any longer."""
        return self._arrived.popleft() if self._arrived else None

    def forget(self, delivery: Delivery) -> bool:
        """Take a delivery out of those that wait; whether it was there."""
        for waiting in (self._arrived, *(entry.waiting for entry in self._entries.values())):
            if delivery in waiting:
                waiting.remove(delivery)
                return True
        return False

    def _fetch(self, identity: Identity, entry: _Entry, after: float) -> None:
        entry.fetching = True
        self._fetcher.fetch(identity, after, partial(self._answered, identity, entry))

    def _answered(self, identity: Identity, entry: _Entry, answer: Token | str) -> None:
        entry.fetching = False
        now = self._clock.now()
        if isinstance(answer, Token):
            if entry.problem:
                log.info("A token can be had again", identity=str(identity))
            entry.line = f"Authorization: Bearer {answer.value}"
            entry.until = answer.expires - _SPARE_SECONDS
            entry.renew = now + _RENEWED * (answer.expires - now)
            entry.pause, entry.problem = 0.0, ""
        else:
            self._failed(identity, entry, answer, now)
        if now < entry.until:
            self._arrived.extend(entry.waiting)
            for delivery in entry.waiting:
                delivery.lane.counts.blocked = ""
            entry.waiting.clear()
            return
        entry.waiting, others = _split(entry.waiting, identity)
        self._arrived.extend(others)
        for delivery in others:
            delivery.lane.counts.blocked = ""
        for delivery in entry.waiting:
            delivery.lane.counts.blocked = entry.problem
        if entry.waiting:
            self._fetch(identity, entry, max(entry.pause, FIRST_PAUSE))

    def _failed(self, identity: Identity, entry: _Entry, why: str, now: float) -> None:
        problem = f"no {identity}: {why}"
        if problem != entry.problem:
            log.warning("A token can't be had", identity=str(identity), reason=why, waiting=len(entry.waiting))
        entry.problem = problem
        entry.pause = min(LONGEST_PAUSE, 2 * entry.pause or FIRST_PAUSE)
        entry.renew = now + entry.pause


def _split(waiting: list[Delivery], identity: Identity) -> tuple[list[Delivery], list[Delivery]]:
    """Those that still need a token of this identity, and those whose subscription has changed meanwhile."""
    needing = [delivery for delivery in waiting if target_of(delivery).identity == identity]
    return needing, [delivery for delivery in waiting if delivery not in needing]


class FetchThread:
    """A `Fetcher` with a thread, which begins with the first request. `post` hands a call to the engine."""

    def __init__(self, server: TokenServer | None, clock: Clock, post: Callable[[Callable[[], None]], None]) -> None:
        self._server = server
        self._client: TokenClient | None = None
        self._clock = clock
        self._post = post
        self._due: list[tuple[float, int, Identity, Callable[[Token | str], None]]] = []
        self._numbers = itertools.count()
        self._news = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="tokens", daemon=True)

    def fetch(self, identity: Identity, after: float, answer: Callable[[Token | str], None]) -> None:
        with self._news:
            heapq.heappush(self._due, (self._clock.monotonic() + after, next(self._numbers), identity, answer))
            if not self._thread.ident:
                self._thread.start()
            self._news.notify()

    def close(self) -> None:
        """Ask for nothing more; a request that is under way is left alone."""
        with self._news:
            self._over = True
            self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                while not self._over and (wait := self._wait()) > 0:
                    self._news.wait(wait)
                if self._over:
                    return
                _, _, identity, answer = heapq.heappop(self._due)
            result = self._ask(identity)
            with self._news:
                if not self._over:
                    self._post(partial(answer, result))

    def _wait(self) -> float:
        return self._due[0][0] - self._clock.monotonic() if self._due else threading.TIMEOUT_MAX

    def _ask(self, identity: Identity) -> Token | str:
        try:
            if self._client is None:
                self._client = TokenClient(self._server or TokenServer(""), self._clock)
            return self._client.fetch(identity)
        except HeadraceError as error:
            return str(error)
        except Exception as error:
            # Its text might show what must not be shown.
            log.error("Asking for a token failed", identity=str(identity), kind=type(error).__name__)
            return f"asking for it failed ({type(error).__name__})"
