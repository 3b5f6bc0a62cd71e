"""How many requests a worker of a job has under way: as few as make as many answers.

Where the processors are the limit, requests beyond some tens only wait, and every connection in use costs memory that has to pass
through the caches: ten workers with 128 requests each did a quarter less than with 16 each. Where the subscriber takes its time it is the other
way round. So the bound is halved for a while; it stays so if the answers keep coming nearly as fast, else it is put back. Pure.
"""

from __future__ import annotations

import math
import sys

PERIOD = 0.25
"""Seconds over which answers are counted, at least."""

LONGEST_PERIOD = 2.0
"""And at most: answers may come so slowly that few say little."""

LEAST = 16
_LEAST_EACH = 2
_NEARLY = 0.8
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 8.0


class Window:
    """`each`: what one lane may have under way: `most_each` at first, and of `most` in all. `tick` it when it is `due`.

    Times are seconds of a monotonic clock. `open()` is one that never changes, for workers that are not those of jobs.
    """

    def __init__(self, most: int, most_each: int, now: float) -> None:
        self._most = most
        self._most_each = most_each
        self._total = most
        self._since = now
        self._answers = 0
        self._before = 0.0
        self._trying = False
        self._next = now
        self._pause = _FIRST_PAUSE
        self.each = most_each

    @classmethod
    def open(cls) -> Window:
        return cls(sys.maxsize, sys.maxsize, math.inf)

    @property
    def due(self) -> float:
        """When `tick` has something to do, at the earliest."""
        return self._since + PERIOD

    def tick(self, now: float, answers: int, lanes: int, wanted: bool) -> None:
        """`answers`: how many have come so far; `lanes`: among how many the bound is divided; `wanted`: whether one of them would have more
        under way."""
        seconds, came = now - self._since, answers - self._answers
        lanes = max(1, lanes)
        self._total = min(self._total, self._most_each * lanes)
        if seconds < PERIOD or (came < self._total and seconds < LONGEST_PERIOD):
            return
        self._since, self._answers = now, answers
        if wanted and came:
            self._consider(now, came / seconds)
        elif self._trying:
            self._put_back(now)
        self.each = min(self._most_each, max(_LEAST_EACH, self._total // lanes))

    def _consider(self, now: float, rate: float) -> None:
        if self._trying and rate < _NEARLY * self._before:
            self._put_back(now)
            return
        if not self._trying and rate < self._before / 2:
            self._total = self._most
        self._before = rate
        self._trying = now >= self._next and self._total // 2 >= LEAST
        if self._trying:
            self._total //= 2

    def _put_back(self, now: float) -> None:
        self._total = min(self._most, 2 * self._total)
        self._trying = False
        self._next, self._pause = now + self._pause, min(2 * self._pause, _LONGEST_PAUSE)
