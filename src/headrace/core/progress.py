"""Progress of a lane (one subscription in one partition): which offsets are finished, exactly.

The only truth is what is *not* finished: the lowest such offset (`low`), the finished ranges above it, and the stragglers, failed events
that wait for a retry while the lane goes on. The highest offset seen plays no part. All values are immutable; offsets are Kafka offsets.

A record of `<instance>.progress` has the key `<lane uid>/<partition>`. Whoever reads one ignores it when its run is older, or its uid
or topic id another: so a writer that lives on after it was replaced does no harm.
"""

from __future__ import annotations

import base64
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from headrace.base.errors import Terminal

Range = tuple[int, int]
"""First and last offset, both included."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """An event that failed `attempts` times and is to be tried again.

    `since` (milliseconds since the epoch): when it failed first, or so much later that the waits of its policy, added to it, give when the
    next attempt is due: thus that time outlives whoever made the last one.
    """

    offset: int
    attempts: int
    since: int


@dataclass(frozen=True, slots=True)
class Progress:
    """`low`: lowest unfinished offset. `done`: finished ranges above it, sorted, never touching. `stragglers`: by offset, unfinished."""

    low: int
    done: tuple[Range, ...] = ()
    stragglers: tuple[Straggler, ...] = ()

    @classmethod
    def initial(cls, offset: int) -> Progress:
        """Nothing from `offset` on is finished, everything below is."""
        return cls(offset)

    @classmethod
    def of(
        cls, cursor: int, unfinished: Iterable[int], stragglers: Iterable[Straggler] = (), before: Progress | None = None
    ) -> Progress:
        """All below `cursor` is finished but the `unfinished` and the `stragglers`; so is what `before` says from `cursor` on.

        Stragglers may lie at or above `cursor`: events that failed before and have not been met again since.
        """
        waiting = tuple(sorted(stragglers, key=lambda one: one.offset))
        open_ = sorted(at for at in {*unfinished, *(one.offset for one in waiting)} if at < cursor)
        later = before.ranges_from(cursor) if before is not None else ()
        return _normal(open_[0] if open_ else cursor, (*_between(open_, cursor), *later), waiting)

    @property
    def position(self) -> int:
        """Where reading has to go on: the lowest offset that is neither finished nor a straggler."""
        at = self.low
        waiting = {one.offset for one in self.stragglers}
        for first, last in (*self.done, (None, None)):
            while at in waiting:
                at += 1
            if first is None or at < first:
                return at
            at = max(at, (last or 0) + 1)
        return at

    @property
    def reach(self) -> int:
        """The offset after the highest one that is known to be finished or a straggler; from here on all is open."""
        ends = (self.low, *(last + 1 for _, last in self.done[-1:]), *(one.offset + 1 for one in self.stragglers[-1:]))
        return max(ends)

    def is_done(self, offset: int) -> bool:
        """Whether the event at `offset` is finished."""
        if offset < self.low:
            return True
        index = bisect_right(self.done, (offset, 1 << 63)) - 1
        return index >= 0 and self.done[index][1] >= offset

    def complete(self, offset: int) -> Progress:
        """The same with `offset` finished too."""
        if self.is_done(offset):
            return self
        waiting = tuple(one for one in self.stragglers if one.offset != offset)
        return _normal(self.low, sorted((*self.done, (offset, offset))), waiting)

    def reopened(self, ranges: Iterable[Range]) -> Progress:
        """The same with all in `ranges` (sorted) unfinished."""
        low, done = self.low, list(self.done)
        for first, last in ranges:
            if first < low:
                done.insert(0, (first, low - 1))
                low = first
            done = [
                piece
                for one in done
                for piece in ((one[0], min(one[1], first - 1)), (max(one[0], last + 1), one[1]))
                if piece[0] <= piece[1]
            ]
        return _normal(low, done, self.stragglers)

    def moved_to(self, offset: int) -> Progress:
        """The same with everything below `offset` finished (retention took it away, or a lane was told to skip it)."""
        if offset <= self.low:
            return self
        waiting = tuple(one for one in self.stragglers if one.offset >= offset)
        return _normal(offset, self.ranges_from(offset), waiting)

    def cut_at(self, end: int) -> Progress:
        """The same without what it says of `end` and beyond (the log ends there: what comes is something new)."""
        ranges = ((first, min(last, end - 1)) for first, last in self.done if first < end)
        return _normal(min(self.low, end), ranges, tuple(one for one in self.stragglers if one.offset < end))

    def unfinished_below(self, offset: int) -> int:
        """How many offsets below `offset` are not finished."""
        return max(0, offset - self.low) - sum(min(last, offset - 1) - first + 1 for first, last in self.done if first < offset)

    def ranges_from(self, offset: int) -> tuple[Range, ...]:
        """The finished ranges, cut to what lies at or above `offset`; what lies below `low` counts as finished."""
        below = ((offset, self.low - 1),) if offset < self.low else ()
        return below + tuple((max(first, offset), last) for first, last in self.done if last >= offset)


@dataclass(frozen=True, slots=True)
class ProgressRecord:
    """What a record of the progress topic holds. `run`: of its writer (`WorkerSpec.writer`); empty when the control plane wrote it.

    `at`: milliseconds since the epoch.
    `parked`: no live worker serves the lane; a catch-up job is to.
    """

    progress: Progress
    uid: str
    topic_id: str
    run: str = ""
    at: int = 0
    parked: bool = False

    def encode(self) -> bytes:
        """The record's value: JSON, finished ranges in the shorter of two forms (run lengths, or a bitmap)."""
        progress = self.progress
        raw: dict[str, Any] = {"low": progress.low, "uid": self.uid, "topicId": self.topic_id, "run": self.run, "at": self.at}
        if progress.done:
            raw |= _shorter(progress.low, progress.done)
        if progress.stragglers:
            raw["stragglers"] = [[one.offset, one.attempts, one.since] for one in progress.stragglers]
        if self.parked:
            raw["parked"] = True
        return json.dumps(raw, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes | str) -> ProgressRecord:
        """The record in `value`; raises `Terminal` when it is not one."""
        try:
            raw = json.loads(value)
            low = _offset(raw["low"])
            done = _from_bits(low, raw["bits"]) if "bits" in raw else _from_lengths(low, raw.get("done", []))
            waiting = [Straggler(_offset(o), int(n), int(t)) for o, n, t in sorted(raw.get("stragglers", []))]
            return cls(
                _normal(low, done, tuple(one for one in waiting if one.offset >= low)),
                uid=str(raw["uid"]),
                topic_id=str(raw["topicId"]),
                run=str(raw.get("run", "")),
                at=int(raw.get("at", 0)),
                parked=raw.get("parked") is True,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Terminal(f"not a progress record: {error!r}", subject="progress") from None

    def concerns(self, uid: str, topic_id: str) -> bool:
        """Whether it is about this lane of this topic, and not about one of the same name before it was made anew."""
        return self.uid == uid and self.topic_id == topic_id

    def supersedes(self, known: ProgressRecord | None) -> bool:
        """Whether this one, which comes later in the topic, is to replace `known`, about the same lane and topic: its run is no older.

        A record without a run is the control plane's: it sets a position, whatever the runs did before.
        """
        return known is None or not self.run or self.run >= known.run

    def with_progress(self, progress: Progress) -> ProgressRecord:
        """The same about other progress."""
        return replace(self, progress=progress)


def progress_key(uid: str, partition: int) -> str:
    """Key of the record of lane `uid` in `partition`."""
    return f"{uid}/{partition}"


def parse_progress_key(key: str) -> tuple[str, int]:
    """Lane uid and partition; raises `Terminal` when `key` is not one of ours."""
    uid, _, partition = key.rpartition("/")
    if not uid or not partition.isdecimal():
        raise Terminal("not a progress key", subject=f"record {key!r}")
    return uid, int(partition)


def _between(open_: list[int], cursor: int) -> Iterator[Range]:
    for at, following in zip(open_, [*open_[1:], cursor], strict=False):
        if at + 1 < following:
            yield at + 1, following - 1


def _normal(low: int, ranges: Iterable[Range], stragglers: tuple[Straggler, ...]) -> Progress:
    """The normal form: `ranges` (sorted by first) merged where they touch, `low` moved over those that begin at it."""
    merged: list[Range] = []
    for first, last in ranges:
        if first <= low:
            low = max(low, last + 1)
        elif merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    kept = Progress(low, tuple(merged))
    return Progress(low, kept.done, tuple(one for one in stragglers if not kept.is_done(one.offset)))


def _shorter(low: int, done: tuple[Range, ...]) -> dict[str, Any]:
    lengths: list[int] = []
    at = low
    for first, last in done:
        lengths += [first - at, last - first + 1]
        at = last + 1
    width = done[-1][1] - low + 1
    if width > 8 * 6 * len(lengths):
        return {"done": lengths}
    bits = 0
    for first, last in done:
        bits |= ((1 << (last - first + 1)) - 1) << (first - low)
    text = base64.b64encode(bits.to_bytes((width + 7) // 8, "little")).decode()
    return {"bits": text} if len(text) < len(json.dumps(lengths)) else {"done": lengths}


def _from_lengths(low: int, lengths: list[int]) -> list[Range]:
    ranges: list[Range] = []
    at = low
    for gap, run in zip(lengths[::2], lengths[1::2], strict=True):
        first = at + _offset(gap)
        at = first + _offset(run)
        if at == first:
            raise ValueError("an empty range")
        ranges.append((first, at - 1))
    return ranges


def _from_bits(low: int, text: str) -> list[Range]:
    bits = int.from_bytes(base64.b64decode(text, validate=True), "little")
    ranges: list[Range] = []
    at = low
    while bits:
        gap = (bits & -bits).bit_length() - 1
        bits >>= gap
        run = (~bits & (bits + 1)).bit_length() - 1
        bits >>= run
        ranges.append((at + gap, at + gap + run - 1))
        at += gap + run
    return ranges


def _offset(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value
