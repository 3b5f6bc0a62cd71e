"""Which gear a topic runs in, and how hard catch-up may push. Pure; times are seconds of a monotonic clock.

    REAL_TIME --(the best lane is more than `behind` seconds of work from the end)--> BULK
        ^                                                                              |
        +--(at least `least` seconds later, and less than `near` seconds of work)------+

Real-Time Mode pays for its latency with one Arrow batch per event; in bulk gear all lanes take the catch-up path, at half the
cost per event. It is the *best* lane that counts: one slow subscriber does not make the topic behind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

_MOST_TASKS = 1024
"""More than any topic has partitions."""


class Gear(StrEnum):
    """`REAL_TIME`: the streaming query. `BULK`: batch jobs in a row."""

    REAL_TIME = "real-time"
    BULK = "bulk"


def backlog(positions: Iterable[Mapping[int, int]], ends: Mapping[int, int]) -> int:
    """Events between the best lane and the end, over all partitions. `positions`: of each lane, by partition; none: 0."""
    best: dict[int, int] = {}
    for lane in positions:
        for partition, position in lane.items():
            best[partition] = max(best.get(partition, 0), position)
    return sum(max(0, ends[partition] - position) for partition, position in best.items() if partition in ends)


@dataclass(slots=True)
class GearBox:
    """Decides by backlog. `rate`: events per second that real-time gear is good for; `since`: when the present gear was taken.

    `fixed`: a gear that is never changed (micro-batches by setting).
    """

    rate: float = 4_000.0
    behind: float = 5.0
    near: float = 1.0
    least: float = 30.0
    gear: Gear = Gear.REAL_TIME
    since: float = 0.0
    fixed: bool = False

    def wants(self, events: int, now: float) -> Gear:
        """The gear for a topic whose best lane has `events` before it."""
        work = events / self.rate
        if self.fixed:
            return self.gear
        if self.gear is Gear.REAL_TIME:
            return Gear.BULK if work > self.behind else Gear.REAL_TIME
        return Gear.REAL_TIME if work < self.near and now - self.since >= self.least else Gear.BULK

    def take(self, gear: Gear, now: float) -> None:
        """The topic runs in this gear now."""
        if gear is not self.gear:
            self.gear, self.since = gear, now


class Throttle:
    """How wide catch-up is while lanes are live beside it: over how many partitions a job reads.

    The beginning of a job is what live lanes feel, for as many tasks as it has, and two keep two processors busy. More are of
    use where subscribers take their time: twice as many are tried, and kept if the job got on quicker by `GAIN`.

    The live p99 has a bound: `bound` milliseconds or three times what it is without a job, whichever is more (a subscriber that always
    takes long is no reason to hold catch-up back). After a job in which it was passed the next one has half the width; at the least
    width there are pauses, which grow with each second in which it is passed and shrink with each in which it is not.
    """

    LEAST = 2
    GAIN = 1.3
    REST = 8
    """Jobs between one trial that was of no use and the next."""

    LONGEST = 4
    """Of the pauses, in times of the job before."""

    def __init__(self, bound: float = 50.0) -> None:
        self._bound = bound
        self._quiet = 0.0
        self._passed = False
        self._level = 0
        self._before = 0.0  # the rate at half the width, while more is tried
        self._rest = 0
        self.width = self.LEAST
        """The most partitions of the next job."""

    def note(self, p99: float, job_runs: bool) -> None:
        """The highest p99 (milliseconds) of the live lanes now; once a second."""
        if not job_runs:
            self._quiet += (p99 - self._quiet) / 4
            return
        passed = p99 > max(self._bound, 3 * self._quiet)
        self._passed |= passed
        narrow = self.width == self.LEAST
        self._level = min(self.LONGEST, self._level + 1) if passed and narrow else max(0, self._level - 1)

    def job_over(self, partitions: int, rate: float) -> None:
        """A job over so many partitions did `rate` events per second; 0 when it was lost."""
        passed, self._passed = self._passed, False
        if passed:
            self._narrow()
        elif partitions != self.width or not rate:
            self._before = 0.0  # no more were waiting, it was not held to the width, or it was lost
        elif self._before and rate < self._before * self.GAIN:
            self._narrow()
        elif self._rest:
            self._rest -= 1
        else:
            self._before = rate
            self.width *= 2

    def _narrow(self) -> None:
        self.width = max(self.LEAST, self.width // 2)
        self._before = 0.0
        self._rest = self.REST

    def pause(self, job_seconds: float) -> float:
        """Seconds between the end of a job that took `job_seconds` and the next one."""
        return self._level * job_seconds


class SpareTime:
    """How many tasks of a job run at once: `least`, and twice as many whenever processors have time left: its subscribers take their time.

    `idle`: the share of their time since the last call in which they had nothing to do. The first `START` seconds of a job are those of
    its planning, on one processor; then each `WINDOW` counts by itself. A job begins with what the one before it had come to, or with half
    of that if the processors had been busy at last.
    """

    START = 2.0
    WINDOW = 1.0
    SHARE = 0.4

    def __init__(self, idle: Callable[[], float], least: int) -> None:
        self._idle = idle
        self._least = least
        self._tasks = least
        self._busy = False
        self._opens = math.inf
        self._closes = math.inf

    def job_starts(self, now: float) -> int:
        """A job starts, with so many tasks; what was measured before does not count."""
        if self._busy:
            self._tasks = max(self._least, self._tasks // 2)
        self._busy = False
        self._opens, self._closes = now + self.START, math.inf
        return self._tasks

    def more(self, now: float, waiting: bool) -> int:
        """How many more tasks may run: none, unless a window has ended since the last call that was idle enough.

        `waiting`: whether there are tasks that have not begun; once there are none, the processors fall idle by themselves.
        """
        if not waiting:
            self._opens = self._closes = math.inf
        elif now >= self._opens:
            self._idle()
            self._opens, self._closes = math.inf, now + self.WINDOW
        elif now >= self._closes:
            self._closes = now + self.WINDOW
            self._busy = self._idle() <= self.SHARE
            if not self._busy and self._tasks < _MOST_TASKS:
                self._tasks *= 2
                return self._tasks // 2
        return 0


class Gathering:
    """Whether lanes are still coming, so that a job would begin without those of the next moment, and read for these all over again.

    Who applies ten Triggers sees them arrive within some tenths of a second.
    """

    QUIET = 0.4
    LONGEST = 2.0

    def __init__(self) -> None:
        self._lanes: Set[str] = frozenset()
        self._since = -math.inf
        self._last = -math.inf

    def note(self, lanes: Set[str], now: float) -> bool:
        """`lanes`: those that are there. Whether one of them came less than `QUIET` seconds ago, in a row that is not `LONGEST` yet."""
        if lanes - self._lanes:
            if now - self._last >= self.QUIET:
                self._since = now
            self._last = now
        self._lanes = frozenset(lanes)
        return now - self._last < self.QUIET and now - self._since < self.LONGEST
