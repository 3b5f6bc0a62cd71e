"""What a catch-up job should read. Pure: where lanes wait and how fast jobs are, in; ranges and lanes, out.

Per partition the lane that was served longest ago gives the range: from its position, at most to the end of the log. What a job is good
for is divided among its partitions by what they miss, so that none is left to be served alone by many jobs.
Every lane that waits within that range takes part. A lane that fell far behind the best one of its last job (its subscriber is slow
or away) is *stuck*: it gets jobs of its own, less and less often, so that the others do not wait for it; where none got through its
range the job was too large, and nobody is at fault. One that did nothing at all in a job for stuck ones is *slow*: its requests take
longer than that, and it gets longer jobs.

A lane that can do nothing before the time of a retry has come is *blocked*, and left alone until then.

Where no live worker will take a lane back (bulk gear), one at the end of the log may still have stragglers. When the time of one has
come, the lane is planned for it, with the stuck ones; the worker looks up what it needs, whatever the range is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.core.contract import DeliveryOrder
from headrace.core.delivery import RetryPolicy
from headrace.core.progress import Progress

Place = tuple[str, int]
"""Lane uid and partition: what a job serves."""

_LEAST_SHARE = 500
"""Events of a partition, where it misses so many: who is nearly there does not wait for one that is far behind."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A lane that no live worker serves. `served`: when (monotonic seconds) its last job ended; 0 for never.

    `retry`: offset of a straggler whose time has come, of a lane that has nothing else to do. `blocked`: it can do nothing now.
    """

    uid: str
    partition: int
    position: int
    served: float = 0.0
    retry: int | None = None
    blocked: bool = False

    @property
    def place(self) -> Place:
        return self.uid, self.partition

    @property
    def start(self) -> int:
        """Where a range for it begins."""
        return self.position if self.retry is None else self.retry


@dataclass(frozen=True, slots=True)
class JobPlan:
    """Ranges per partition (first offset, offset after the last; who waits longest comes first), the lanes of each, and the partitions
    read to the end of the log.

    `retries`: the places that are in it for their stragglers.
    """

    ranges: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    places: frozenset[Place] = frozenset()
    last: frozenset[int] = frozenset()
    retries: frozenset[Place] = frozenset()


def plan_job(waiting: Iterable[Waiting], ends: Mapping[int, int], size: int, slots: int) -> JobPlan | None:
    """The next job over at most `slots` partitions, of about `size` events in all; None when nobody waits for anything.

    A lane at the end of its partition without a retry waits for nothing: it can be handed back as it is (`at_end`).
    """
    by_partition: dict[int, list[Waiting]] = defaultdict(list)
    for one in waiting:
        if not one.blocked and (one.retry is not None or one.position < ends.get(one.partition, 0)):
            by_partition[one.partition].append(one)
    bases = {partition: min(some, key=lambda one: (one.served, one.start)) for partition, some in by_partition.items()}
    chosen = sorted(bases, key=lambda partition: (bases[partition].served, partition))[:slots]
    if not chosen:
        return None
    missing = sum(ends[partition] - bases[partition].start for partition in chosen if bases[partition].retry is None)
    ranges: dict[int, tuple[int, int]] = {}
    places: set[Place] = set()
    retries: set[Place] = set()
    for partition in chosen:
        start = bases[partition].start
        if bases[partition].retry is not None:
            end = start + 1
        else:
            share = size * (ends[partition] - start) // missing
            end = min(start + max(share, min(size, _LEAST_SHARE)), ends[partition])
        ranges[partition] = start, end
        retries |= {one.place for one in by_partition[partition] if one.retry is not None}
        places |= {one.place for one in by_partition[partition] if start <= one.position < end}
    last = frozenset(partition for partition in chosen if ranges[partition][1] == ends[partition])
    return JobPlan(ranges, frozenset(places | retries), last, frozenset(retries))


def events_missing(waiting: Iterable[Waiting], ends: Mapping[int, int]) -> int:
    """Events that these lanes wait for; what several of a partition wait for counts once."""
    starts: dict[int, int] = {}
    for one in waiting:
        starts[one.partition] = min(one.position, starts.get(one.partition, one.position))
    return sum(max(0, ends.get(partition, 0) - start) for partition, start in starts.items())


def at_end(waiting: Iterable[Waiting], ends: Mapping[int, int]) -> list[Waiting]:
    """Lanes that miss nothing: they can be handed back without a job."""
    return [one for one in waiting if one.position >= ends.get(one.partition, 0)]


def retry_of(progress: Progress, policy: RetryPolicy, now_ms: int) -> int | None:
    """Offset of the straggler whose time has come; None when none has.

    Those that were never tried wait for another of their key, so they count only when they are alone.
    """
    tried = [one for one in progress.stragglers if one.attempts] or progress.stragglers
    due = (one.offset for one in tried if not policy.left_ms(one.attempts, one.since, now_ms))
    return next(due, None)


def is_blocked(progress: Progress, policy: RetryPolicy, order: DeliveryOrder, room: int, now_ms: int) -> bool:
    """Whether a lane can do nothing before the time of a retry: in order, behind the first straggler; else with `room` of them aside."""
    if len(progress.stragglers) < (1 if order is DeliveryOrder.ORDERED else room):
        return False
    return retry_of(progress, policy, now_ms) is None


_FAR = 4
"""A lane gets on while it does more than a quarter of what the best one does."""


def left_behind(did: Mapping[Place, int], short: Iterable[Place]) -> frozenset[Place]:
    """Those of the places `short` of their range's end that hold others of their partition up.

    `did`: offsets that each place of the job moved on. Partitions are not compared: their workers begin at different times.
    """
    best = _best(did)
    return frozenset(place for place in short if did[place] * _FAR <= best[place[1]])


def events_read(did: Mapping[Place, int]) -> int:
    """How many events a job got through: per partition what the best of its lanes moved on. `did`: as for `left_behind`."""
    return sum(_best(did).values())


def _best(did: Mapping[Place, int]) -> dict[int, int]:
    best: dict[int, int] = {}
    for (_, partition), offsets in did.items():
        best[partition] = max(best.get(partition, 0), offsets)
    return best


class Pace:
    """How many events make a job of so many seconds, over all partitions, learnt from the jobs before. `rate`: events per second."""

    def __init__(self, guess: float, fixed: float = 1.0, least: int = 500, most: int = 500_000) -> None:
        self._fixed = fixed
        self._least = least
        self._most = most
        self.rate = guess

    def size(self, seconds: float) -> int:
        """Events of a job that may send for `seconds`, of which starting takes its part."""
        return max(self._least, min(self._most, int(self.rate * (seconds - self._fixed))))

    def note(self, events: int, seconds: float) -> None:
        """A job of `seconds` in all did `events`. No single one is a reason for a great change."""
        if events > 0:
            seen = max(self.seen(events, seconds), self.rate / 4)
            self.rate += (min(seen, self.rate * 4) - self.rate) / 2

    def seen(self, events: int, seconds: float) -> float:
        """Events per second of such a job, once it had started."""
        return events / max(seconds - self._fixed, self._fixed / 4)


class Patience:
    """Which places are stuck or slow, and when each may be tried again: after 1, 2, 4 ... `longest` seconds.

    A subscriber that is back is to be served within seconds, and jobs that are of no use are few: `blocked` lanes have none.
    """

    def __init__(self, longest: float = 8.0) -> None:
        self._longest = longest
        self._stuck: dict[Place, tuple[float, float]] = {}
        self._slow: set[Place] = set()

    def is_stuck(self, place: Place) -> bool:
        """Whether it was left behind in its last job."""
        return place in self._stuck

    def is_slow(self, place: Place) -> bool:
        """Whether it did nothing in a job for stuck places."""
        return place in self._slow

    def may_try(self, place: Place, now: float) -> bool:
        """Whether a stuck place has waited long enough."""
        return place not in self._stuck or self._stuck[place][1] <= now

    def got_through(self, place: Place) -> None:
        """It kept up with the others, or is served live again."""
        self._stuck.pop(place, None)
        self._slow.discard(place)

    def got_stuck(self, place: Place, now: float, before: Progress | None = None, after: Progress | None = None) -> None:
        """It did not. `before`, `after`: where it stood, if its job told: one that finishes something is not kept waiting."""
        if before is not None and after is not None:
            if place in self._stuck and before == after:
                self._slow.add(place)
            elif _finished(after) > _finished(before):
                self._stuck.pop(place, None)
        wait = min(self._stuck[place][0] * 2, self._longest) if place in self._stuck else 1.0
        self._stuck[place] = wait, now + wait


def _finished(progress: Progress) -> int:
    """How many offsets are finished."""
    return progress.reach - progress.unfinished_below(progress.reach)
