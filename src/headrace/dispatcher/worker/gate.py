"""How many requests may be under way at once: per destination host, and in all. Who has to wait is served in order, hosts in turn."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from headrace.dispatcher.worker.subscription import Host

T = TypeVar("T")


class _Waiting(Generic[T]):
    __slots__ = ("items", "under_way")

    def __init__(self) -> None:
        self.under_way = 0
        self.items: deque[T] = deque()


class Gate(Generic[T]):
    """`per_host` and `in_all` requests at most. `enter` before a request, `leave` after it, then start what `leave` gives back."""

    def __init__(self, per_host: int, in_all: int) -> None:
        self._per_host = per_host
        self._in_all = in_all
        self._hosts: dict[Host, _Waiting[T]] = {}
        self._turn: deque[Host] = deque()
        self.under_way = 0

    def enter(self, host: Host, item: T) -> bool:
        """Whether `item` may start now; if not, `leave` will give it back when it may."""
        place = self._hosts.get(host)
        if place is None:
            place = self._hosts[host] = _Waiting()
        if place.under_way < self._per_host and self.under_way < self._in_all and not place.items:
            place.under_way += 1
            self.under_way += 1
            return True
        if not place.items:
            self._turn.append(host)
        place.items.append(item)
        return False

    def leave(self, host: Host) -> T | None:
        """A request to `host` has ended. What may start now in its place counts as started already."""
        place = self._hosts[host]
        place.under_way -= 1
        self.under_way -= 1
        if not place.under_way and not place.items:
            del self._hosts[host]
        if not self._turn:
            return None
        return self._next()

    def forget(self, host: Host, item: T) -> bool:
        """Take `item` out of those that wait; False when it does not wait here."""
        place = self._hosts.get(host)
        if place is None or item not in place.items:
            return False
        place.items.remove(item)
        if not place.items:
            self._turn.remove(host)
            if not place.under_way:
                del self._hosts[host]
        return True

    def _next(self) -> T | None:
        for _ in range(len(self._turn)):
            host = self._turn.popleft()
            place = self._hosts[host]
            if place.under_way >= self._per_host:
                self._turn.append(host)
                continue
            item = place.items.popleft()
            if place.items:
                self._turn.append(host)
            place.under_way += 1
            self.under_way += 1
            return item
        return None
