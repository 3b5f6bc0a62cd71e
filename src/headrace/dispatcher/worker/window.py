"""How many requests a worker of a job has under way: as few as make as many answers.

Where the processors are the limit, requests beyond some tens only wait, and every connection in use costs memory that has to pass
through the caches: ten workers with 128 requests each did a quarter less than with 16 each. Where the subscriber takes its time it is the other
way round. So the bound is halved for a while; it stays so if the answers keep coming nearly as fast, else it is put back. Now and then it
is doubled instead, and stays so if that brings more: no mistake lasts. Pure.

What comes right after a change was under way before it, and says nothing about it. Answers of one subscriber often come in bursts, so they are
counted from one arrival to another.
"""

from __future__ import annotations

import math
import sys
from enum import Enum

PERIOD = 0.25
"""Seconds over which answers are counted, at least."""

LEAST = 16
_LEAST_EACH = 2
_ROUNDS = 2
"""So many answers are counted for each request that may be under way, at least."""

_LONG = 2.0
"""After so many seconds fewer answers are enough to see that they come at less than half the rate."""

_NEARLY = 0.8
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 8.0
_REST = 8
"""After a trial that was of no use there is none for so many times as long as it took."""


class _Way(Enum):
    FEWER = -1
    MORE = 1


class Window:
    """`each`: what one lane may have under way: `most_each` at first, and of `most` in all. `tick` it when it is `ready`.

    Times are seconds of a monotonic clock. `open()` is one that never changes, for workers that are not those of jobs.
    """

    def __init__(self, most: int, most_each: int, now: float) -> None:
        self._most = most
        self._most_each = most_each
        self._limit = self._total = self._kept = most
        self._least = LEAST
        self._since = now
        self._seen = self._counted_from = 0
        self._settled_at = 0
        self._before = 0.0
        self._trying = False
        self._tried_at = now
        self._way = _Way.FEWER
        self._next = now
        self._pause = _FIRST_PAUSE
        self.each = most_each

    @classmethod
    def open(cls) -> Window:
        return cls(sys.maxsize, sys.maxsize, math.inf)

    def ready(self, now: float, answers: int) -> bool:
        """Whether enough of them have come to `tick`. `answers`: how many have come so far."""
        arrived, self._seen = answers > self._seen, answers
        if self._settled_at:
            if answers >= self._settled_at:
                self._settled_at = 0
                self._since, self._counted_from = now, answers
            return False
        seconds, came = now - self._since, answers - self._counted_from
        if not arrived or seconds < PERIOD:
            return False
        return came >= _ROUNDS * self._total or (seconds >= _LONG and came < self._before / 2 * seconds)

    def tick(self, now: float, lanes: int, under_way: int, wanted: bool) -> None:
        """`lanes`: among how many the bound is divided; `under_way`: requests now; `wanted`: whether a lane would have more."""
        lanes = max(1, lanes)
        self._limit = min(self._most, self._most_each * lanes)
        self._least = min(max(LEAST, _LEAST_EACH * lanes), self._limit)
        total = self._total = max(self._least, min(self._total, self._limit))
        rate = (self._seen - self._counted_from) / (now - self._since)
        if wanted:
            self._consider(now, rate)
        elif self._trying:
            self._put_back(now)
        self.each = min(self._most_each, max(_LEAST_EACH, self._total // lanes))
        self._since, self._counted_from = now, self._seen
        self._settled_at = 0 if self._total == total else self._seen + under_way

    def _consider(self, now: float, rate: float) -> None:
        if self._trying:
            needed = _NEARLY * self._before if self._way is _Way.FEWER else self._before / _NEARLY
            if rate < needed:
                self._put_back(now)
                return
        elif rate < self._before / 2:
            self._before = 0.0  # what few did is no measure for many
            self._total = self._limit
            return
        self._before = rate
        self._trying = now >= self._next and self._try()
        self._tried_at = now

    def _try(self) -> bool:
        """Another bound, the other way where there is no room this way; whether there was room at all."""
        for way in (self._way, _turned(self._way)):
            changed = self._total // 2 if way is _Way.FEWER else min(2 * self._total, self._limit)
            if changed >= self._least and changed != self._total:
                self._way, self._kept, self._total = way, self._total, changed
                return True
        return False

    def _put_back(self, now: float) -> None:
        self._total = max(self._least, min(self._kept, self._limit))
        self._way = _turned(self._way)
        self._trying = False
        self._next = now + max(self._pause, _REST * (now - self._tried_at))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


def _turned(way: _Way) -> _Way:
    return _Way.MORE if way is _Way.FEWER else _Way.FEWER
