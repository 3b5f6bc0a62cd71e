"""Which gear a topic runs in, and how hard catch-up may push. Pure; times are seconds of a monotonic clock.

    REAL_TIME --(the best lane is more than `behind` seconds of work from the end)--> BULK
        ^                                                                              |
        +--(at least `least` seconds later, and less than `near` seconds of work)------+

Real-Time Mode pays for its latency with one Arrow batch per event; in bulk gear all lanes take the catch-up path, at half the
cost per event. It is the *best* lane that counts: one slow subscriber does not make the topic behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


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
    """How much catch-up is held back: level 0 (not) to 4; one up when the live p99 passes its bound while a job runs, else one down.

    The bound is `bound` milliseconds or three times what the live lanes have without a job, whichever is more: a subscriber
    that always takes long is no reason to hold catch-up back.
    """

    HIGHEST = 4

    def __init__(self, bound: float = 50.0) -> None:
        self._bound = bound
        self._quiet = 0.0
        self.level = 0

    def note(self, p99: float, job_runs: bool) -> None:
        """The highest p99 (milliseconds) of the live lanes now; once a second."""
        if not job_runs:
            self._quiet += (p99 - self._quiet) / 4
            return
        passed = p99 > max(self._bound, 3 * self._quiet)
        self.level = min(self.HIGHEST, self.level + 1) if passed else max(0, self.level - 1)

    def in_flight(self, most: int) -> int:
        """Requests at once that a job's worker may have, of `most` normally."""
        return max(1, most >> self.level)

    def pause(self, job_seconds: float) -> float:
        """Seconds between the end of a job that took `job_seconds` and the next one."""
        return self.level * job_seconds
