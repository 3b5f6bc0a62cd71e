"""Who has to leave the ring so that the others are not held up, and who may come back.

A full ring makes the reader wait. That hurts nobody if all lanes are equally far; but if one is far behind and others have
caught up, it is the one behind that goes: it is parked, and served by a catch-up job. The same if the memory that a
worker may use is spent: then the lane that pins most goes; if that one is parked already and does not come to rest, what it has in flight is
broken off, so that nobody else has to go for it. See `spec` for the way back.
"""

from __future__ import annotations

from headrace.base.clock import Clock
from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.core.progress import ProgressRecord
from headrace.dispatcher.spec import PIN_SECONDS, LaneOrders, Mode, WorkerSpec
from headrace.dispatcher.worker.lane import Lane, LaneState
from headrace.dispatcher.worker.roster import Roster

log = get_logger(__name__)

_LOOK_EVERY = 0.02
_REST_SECONDS = 1.0
"""How long a parked lane may go on with what is in flight while the memory is spent."""


class Parking:
    """All calls belong to the engine's thread."""

    def __init__(self, spec: WorkerSpec, roster: Roster, clock: Clock) -> None:
        self._spec = spec
        self._roster = roster
        self._clock = clock
        self._resumed: dict[str, str] = {}
        self._pins: dict[str, float] = {}
        self._look_at = 0.0
        self._parked_at: dict[str, float] = {}

    def relieve(self) -> Lane | None:
        """See whether somebody has to leave. Called when events wait for room, or memory is short.

        A lane that comes back is to be brought to rest at once.
        """
        ring = self._roster.ring
        now = self._clock.monotonic()
        if ring is None or now < self._look_at:
            return None
        self._look_at = now + _LOOK_EVERY
        spent = self._give_up(now) if ring.bytes_held > self._spec.limits.budget_bytes else None
        if not ring.room:
            if self._pins and not ring.records[0].holders:
                self._unpin(list(self._pins), "the ring is full")
            else:
                self._park_laggards()
        return spent

    def follow(self, orders: LaneOrders) -> list[tuple[Lane, ProgressRecord]]:
        """Do what the driver says; the lanes that came back to life, with the progress that was handed over."""
        partition = self._roster.partition
        now = self._clock.monotonic()
        for uid, offsets in orders.pin.items():
            lane = self._roster.lanes.get(uid)
            if partition in offsets and lane is not None and lane.state is LaneState.PARKED and uid not in self._pins:
                lane.pin = offsets[partition]
                lane.state = LaneState.JOINING
                self._pins[uid] = now + PIN_SECONDS
        back = []
        for uid, records in orders.resume.items():
            lane = self._roster.lanes.get(uid)
            text = records.get(partition)
            if lane is not None and text is not None and self._resumed.get(uid) != text:
                self._resumed[uid] = text
                record = self._resume(lane, text)
                if record is not None:
                    back.append((lane, record))
        self._set_pin()
        return back

    def tick(self, now: float) -> None:
        """Pins do not last."""
        overdue = [uid for uid, until in self._pins.items() if now >= until]
        if overdue:
            self._unpin(overdue, "its job took too long")

    def _resume(self, lane: Lane, text: str) -> ProgressRecord | None:
        try:
            record = ProgressRecord.decode(text)
        except HeadraceError as error:
            log.error("A progress that was handed over can't be read", lane=lane.uid, error=str(error))
            return None
        if not record.concerns(lane.uid, self._spec.topic_id) or lane.state not in (LaneState.PARKED, LaneState.JOINING):
            return None
        self._pins.pop(lane.uid, None)
        lane.writer = self._spec.writer(record.run)
        lane.hold(record.progress)
        entered = self._roster.enter(lane, record.progress)
        log.info(
            "A lane was handed back",
            lane=lane.uid,
            partition=self._roster.partition,
            position=record.progress.position,
            state=str(lane.state),
        )
        return record if entered else None

    def _park_laggards(self) -> None:
        """The lanes that hold the oldest event go, if some other lane is hurt by their being there.

        In a job lanes may begin far apart. One that began behind the others is not slow: those wait until it has come to where they began.
        """
        ring = self._roster.ring
        assert ring is not None
        oldest = ring.records[0].offset
        half = ring.records[len(ring) // 2].offset
        behind: list[Lane] = []
        hurt = False
        for lane in self._roster.live():
            lowest = lane.lowest_held
            if lowest == oldest:
                behind.append(lane)
            elif (lowest is None or lowest > half) and (self._spec.mode is Mode.LIVE or lane.begin <= oldest):
                hurt = True
        if hurt:
            for lane in behind:
                self._park(lane, "it fell behind the ring")

    def _give_up(self, now: float) -> Lane | None:
        lanes = [lane for lane in self._roster.lanes.values() if lane.pinned]
        if not lanes:
            return None
        greatest = max(lanes, key=lambda lane: lane.pinned)
        if greatest.state is LaneState.LIVE:
            self._park(greatest, "the memory for waiting events is spent")
            return None
        return greatest if now - self._parked_at.get(greatest.uid, 0.0) > _REST_SECONDS else None

    def _park(self, lane: Lane, reason: str) -> None:
        self._parked_at[lane.uid] = self._clock.monotonic()
        self._roster.park(lane)
        log.info("A lane is parked", lane=lane.uid, partition=self._roster.partition, cursor=lane.cursor, reason=reason)

    def _unpin(self, uids: list[str], reason: str) -> None:
        for uid in uids:
            del self._pins[uid]
            lane = self._roster.lanes.get(uid)
            if lane is not None and lane.state is LaneState.JOINING:
                lane.state = LaneState.PARKED
                log.info("A lane was not handed back in time", lane=uid, partition=self._roster.partition, reason=reason)
        self._set_pin()

    def _set_pin(self) -> None:
        ring = self._roster.ring
        if ring is not None:
            lanes = (self._roster.lanes.get(uid) for uid in self._pins)
            ring.pinned_from = min((lane.pin for lane in lanes if lane is not None), default=None)
