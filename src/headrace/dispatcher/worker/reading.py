"""From frames to events in the ring, offered to the lanes that want them."""

from __future__ import annotations

from collections.abc import Callable

from headrace.base.clock import Clock
from headrace.base.log import get_logger
from headrace.core.events.model import InvalidEvent
from headrace.core.frame import Frame, parse_frame
from headrace.dispatcher.spec import WorkerSpec
from headrace.dispatcher.worker.intake import Intake
from headrace.dispatcher.worker.loglimit import LogLimit
from headrace.dispatcher.worker.lookups import Lookups
from headrace.dispatcher.worker.record import Record
from headrace.dispatcher.worker.roster import Roster

log = get_logger(__name__)

_AT_ONCE = 64
_MARKERS_CHECKED = 3
"""A topic with transactions skips an offset for each; after so many that Kafka explained, single ones are believed."""


class Reading:
    """`events`, `discarded`: how many came, and held no event. `doubtful`: a gap in the offsets is being looked into.

    `bind(partition)` is called at the first event if nobody else said which partition this is. `post` brings answers back.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        roster: Roster,
        lookups: Lookups,
        clock: Clock,
        bind: Callable[[int], None],
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._spec = spec
        self._roster = roster
        self._lookups = lookups
        self._bind = bind
        self._post = post
        self._log_limit = LogLimit(clock)
        self._markers = 0
        self._doubts = 0
        self.events = 0
        self.discarded = 0

    def take(self, intake: Intake) -> bool:
        """Take what there is and has room, within reason; whether there was any."""
        taken = 0
        while taken < _AT_ONCE and (self._roster.ring is None or self._roster.ring.room):
            raw = intake.take()
            if raw is None:
                break
            taken += 1
            self._take(parse_frame(raw), len(raw))
        return taken > 0

    @property
    def doubtful(self) -> bool:
        return self._doubts > 0

    def close_range(self, end: int, closed: Callable[[bool], None]) -> None:
        """The input of a job has ended: was its range read up to `end`? `closed` gets the answer, at once or later."""
        ring = self._roster.ring
        if ring is None:
            closed(True)
            return
        if ring.head >= end:
            closed(True)
            return

        def answer(missing: int | None) -> None:
            def tell() -> None:
                if missing is None:
                    ring.skip_to(end)
                closed(missing is None)

            self._post(tell)

        self._lookups.gap(self._roster.partition, ring.head, end, answer)

    def _take(self, frame: Frame, size: int) -> None:
        ring = self._roster.ring
        if ring is None:
            self._bind(frame.partition)
            ring = self._roster.ring
            assert ring is not None
        offset = frame.offset
        if frame.partition != self._roster.partition:
            raise RuntimeError(f"an event of partition {frame.partition} came to the worker of {self._roster.partition}")
        if offset != ring.head:
            if offset < ring.head:
                log.warning("An event came again from Spark", partition=frame.partition, offset=offset, head=ring.head)
                return
            self._doubt(ring.head, offset)
        self.events += 1
        try:
            record = Record(frame, size, self._spec.offset_extensions)
            lanes = self._roster.index.match(record.attributes)
        except InvalidEvent as error:
            self._discard(frame, str(error))
            return
        except Exception as error:
            log.exception("A record could not be matched", topic=self._spec.topic, partition=frame.partition, offset=offset)
            self._discard(frame, repr(error))
            return
        ring.append(record)
        for lane in lanes:
            lane.offer(record)
        self._roster.touched += lanes

    def _discard(self, frame: Frame, reason: str) -> None:
        assert self._roster.ring is not None
        self._roster.ring.skip_to(frame.offset + 1)
        self.discarded += 1
        more = self._log_limit.allow()
        if more is not None:
            log.warning(
                "A record holds no event and is skipped",
                topic=self._spec.topic,
                partition=frame.partition,
                offset=frame.offset,
                reason=reason,
                **more,
            )

    def _doubt(self, expected: int, got: int) -> None:
        """Offsets are missing. Compaction, retention or markers of transactions explain that, or events were lost on the way."""
        if got == expected + 1 and self._markers >= _MARKERS_CHECKED:
            return
        self._doubts += 1

        def answer(missing: int | None) -> None:
            self._post(lambda: self._resolve(expected, got, missing))

        self._lookups.gap(self._roster.partition, expected, got, answer)

    def _resolve(self, expected: int, got: int, missing: int | None) -> None:
        if missing is not None:
            raise RuntimeError(f"Spark skipped the event at offset {missing}: {got} came after {expected - 1}")
        self._doubts -= 1
        self._markers += got == expected + 1
