"""From frames to events in the ring, offered to the lanes that want them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from headrace.base.clock import Clock
from headrace.base.log import get_logger
from headrace.core.events.model import InvalidEvent
from headrace.core.progress import Range
from headrace.dispatcher.spec import WorkerSpec
from headrace.dispatcher.worker.decode import decode, place_of
from headrace.dispatcher.worker.intake import Intake
from headrace.dispatcher.worker.loglimit import LogLimit
from headrace.dispatcher.worker.lookups import Lookups
from headrace.dispatcher.worker.record import Record
from headrace.dispatcher.worker.roster import Roster

log = get_logger(__name__)

_AT_ONCE = 64
_MARKERS_CHECKED = 3
"""A topic with transactions skips an offset for each; after so many that Kafka explained, single ones are believed."""

_TOLD = 32


class Reading:
    """`events`, `discarded`: how many came, and held no event.

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
        self._doubts: list[Range] = []
        self._asked = 0  # of the doubts, from the first on
        self._closing: Callable[[], None] | None = None
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
            self._take(raw)
        return taken > 0

    @property
    def doubts(self) -> Sequence[Range]:
        """Gaps (first and last offset) of which it is not known yet whether Kafka has events there; many of them as one."""
        few, rest = self._doubts[:_TOLD], self._doubts[_TOLD:]
        return (*few, (rest[0][0], rest[-1][1])) if rest else few

    def close_range(self, end: int, closed: Callable[[bool], None]) -> None:
        """The input of a job has ended: was its range read up to `end`? `closed` gets the answer, once no gap is in doubt any more."""
        self._closing = partial(self._close_range, end, closed)
        self._look()

    def _take(self, raw: bytes) -> None:
        try:
            decoded = decode(raw)
        except InvalidEvent as error:
            self._discard(*place_of(raw), str(error))
            return
        if not self._is_next(decoded.partition, decoded.offset):
            return
        ring = self._roster.ring
        assert ring is not None
        record = Record(decoded, len(raw), self._spec.offset_extensions)
        try:
            lanes = self._roster.index.match(record.attributes)
        except Exception:
            log.exception("An event could not be matched", topic=self._spec.topic, offset=record.offset)
            self.discarded += 1
            ring.skip_to(record.offset + 1)
            return
        ring.append(record)
        for lane in lanes:
            lane.offer(record)
        self._roster.touched += lanes

    def _is_next(self, partition: int, offset: int) -> bool:
        """Note that the record at `offset` has come; whether it is one to go on with."""
        ring = self._roster.ring
        if ring is None:
            self._bind(partition)
            ring = self._roster.ring
            assert ring is not None
        if partition != self._roster.partition:
            raise RuntimeError(f"an event of partition {partition} came to the worker of {self._roster.partition}")
        if offset != ring.head:
            if offset < ring.head:
                log.warning("An event came again from Spark", partition=partition, offset=offset, head=ring.head)
                return False
            self._doubt(ring.head, offset)
        self.events += 1
        return True

    def _discard(self, partition: int, offset: int, reason: str) -> None:
        """The record at `offset` holds no event."""
        if not self._is_next(partition, offset):
            return
        assert self._roster.ring is not None
        self._roster.ring.skip_to(offset + 1)
        self.discarded += 1
        more = self._log_limit.allow()
        if more is not None:
            log.warning(
                "A record holds no event and is skipped",
                topic=self._spec.topic,
                partition=partition,
                offset=offset,
                reason=reason,
                **more,
            )

    def _doubt(self, expected: int, got: int) -> None:
        """Offsets are missing. Compaction, retention or markers of transactions explain that, or events were lost on the way."""
        if got == expected + 1 and self._markers >= _MARKERS_CHECKED:
            return
        self._doubts.append((expected, got - 1))
        self._look()

    def _look(self) -> None:
        """Have Kafka asked about what is in doubt, all of it together, unless it is being asked already."""
        if self._asked:
            return
        if self._doubts:
            self._asked = len(self._doubts)
            self._ask(tuple(self._doubts), self._resolve)
        elif self._closing is not None:
            closing, self._closing = self._closing, None
            closing()

    def _ask(self, gaps: Sequence[Range], answer: Callable[[int | None], None]) -> None:
        self._lookups.gaps(self._roster.partition, gaps, lambda missing: self._post(partial(answer, missing)))

    def _resolve(self, missing: int | None) -> None:
        if missing is not None:
            raise RuntimeError(f"Spark skipped the event at offset {missing}")
        self._markers += sum(first == last for first, last in self._doubts[: self._asked])
        del self._doubts[: self._asked]
        self._asked = 0
        self._look()

    def _close_range(self, end: int, closed: Callable[[bool], None]) -> None:
        ring = self._roster.ring
        if ring is None or ring.head >= end:
            closed(True)
            return

        def answer(missing: int | None) -> None:
            if missing is None:
                ring.skip_to(end)
            closed(missing is None)

        self._ask(((ring.head, end - 1),), answer)
