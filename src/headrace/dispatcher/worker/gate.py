"""How many requests may be under way at once: per destination host, and in all. Who has to wait is served in order, hosts in turn.

A host begins with a few and earns more with each answer, up to `per_host`: one that hangs from the start holds little. One that is
down for good is not hammered: a circuit opens. Where hosts that hang hold all there is, any other host still has a few.

    CLOSED --(8 failures in a row, over 5 s)--> OPEN --(0.25, 0.5, 1, 2, 2 ... s later: one request as a probe)--> PROBING
       ^                                         ^                                                                  |  |
       |                                         +---------------------------(failed)------------------------------+  |
       +-------------------------------------------------(answered)---------------------------------------------------+

A failure is a request without an answer, or one that a gateway answered in the host's place (502, 503, 504).
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from headrace.base.clock import Clock
from headrace.dispatcher.worker.subscription import Host

T = TypeVar("T")

FIRST_ALLOWED = 16
LEAST_ALLOWED = 4
FAILURES = 8
FAILING_SECONDS = 5.0
FIRST_PROBE = 0.25
LATEST_PROBE = 2.0


class _Host(Generic[T]):
    __slots__ = ("allowed", "failing_since", "failures", "items", "probe_at", "probe_pause", "under_way")

    def __init__(self) -> None:
        self.under_way = 0
        self.items: deque[T] = deque()
        self.allowed = FIRST_ALLOWED
        self.failures = 0
        self.failing_since = 0.0
        self.probe_at: float | None = None
        self.probe_pause = FIRST_PROBE


class Gate(Generic[T]):
    """`per_host` and `in_all` requests at most, but that each host may have `LEAST_ALLOWED` whatever the others have.

    `enter` before a request, `leave` after it; then, and when `next_probe` has come, start what `next` gives until it gives None.
    """

    def __init__(self, per_host: int, in_all: int, clock: Clock) -> None:
        self._per_host = per_host
        self._in_all = in_all
        self._clock = clock
        self._hosts: dict[Host, _Host[T]] = {}
        self._turn: deque[Host] = deque()
        self._open: set[Host] = set()
        self._left = False  # since `next` found nothing
        self.under_way = 0

    def enter(self, host: Host, item: T) -> bool:
        """Whether `item` may start now; if not, `next` will give it back when it may."""
        place = self._hosts.get(host)
        if place is None:
            place = self._hosts[host] = _Host()
        if not place.items and self._free(place):
            place.under_way += 1
            self.under_way += 1
            return True
        if not place.items and place.probe_at is None:
            self._turn.append(host)
        place.items.append(item)
        return False

    def leave(self, host: Host, answered: bool | None) -> None:
        """A request to `host` has ended: it was answered, it was not, or (None) it was broken off by us."""
        place = self._hosts[host]
        place.under_way -= 1
        self.under_way -= 1
        self._left = True
        if answered:
            self._good(host, place)
        elif answered is not None:
            self._bad(host, place)
        elif place.probe_at is not None:
            place.probe_at = self._clock.monotonic()

    def next(self) -> T | None:
        """One that waited and may start now; it counts as started."""
        if not self._turn and not self._open:
            return None
        for host in self._open:
            place = self._hosts[host]
            if place.items and self._free(place):
                return self._start(place)
        if not self._left and self.under_way >= self._in_all:
            return None
        for _ in range(len(self._turn)):
            host = self._turn.popleft()
            place = self._hosts[host]
            if not place.items:
                continue
            if not self._free(place):
                self._turn.append(host)
                continue
            item = self._start(place)
            if place.items:
                self._turn.append(host)
            return item
        self._left = False
        return None

    def forget(self, host: Host, item: T) -> bool:
        """Take `item` out of those that wait; whether it was there."""
        place = self._hosts.get(host)
        if place is None or item not in place.items:
            return False
        place.items.remove(item)
        return True

    @property
    def next_probe(self) -> float | None:
        """When `next` may have something without a `leave` before it; None if never."""
        waiting = [self._hosts[host] for host in self._open]
        times = [place.probe_at for place in waiting if place.items and not place.under_way and place.probe_at is not None]
        return min(times, default=None)

    def _free(self, place: _Host[T]) -> bool:
        if place.probe_at is not None:
            return place.under_way == 0 and self._clock.monotonic() >= place.probe_at
        under_way = place.under_way
        if under_way >= place.allowed or under_way >= self._per_host:
            return False
        return self.under_way < self._in_all or under_way < LEAST_ALLOWED

    def _start(self, place: _Host[T]) -> T:
        place.under_way += 1
        self.under_way += 1
        return place.items.popleft()

    def _good(self, host: Host, place: _Host[T]) -> None:
        place.failures = 0
        if place.probe_at is None:
            if place.allowed < self._per_host:
                place.allowed += 1
            return
        place.probe_at, place.probe_pause, place.allowed = None, FIRST_PROBE, LEAST_ALLOWED
        self._open.discard(host)
        if place.items:
            self._turn.append(host)

    def _bad(self, host: Host, place: _Host[T]) -> None:
        now = self._clock.monotonic()
        if not place.failures:
            place.failing_since = now
        place.failures += 1
        place.allowed = max(LEAST_ALLOWED, place.allowed // 2)
        if place.probe_at is not None:
            place.probe_pause = min(2 * place.probe_pause, LATEST_PROBE)
        elif place.failures < FAILURES or now - place.failing_since < FAILING_SECONDS:
            return
        place.probe_at = now + place.probe_pause
        self._open.add(host)
