"""Finds what lanes lack: the positions of new ones, the events of old stragglers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headrace.base.clock import Clock
from headrace.base.log import get_logger
from headrace.core.events.model import InvalidEvent
from headrace.core.frame import Frame
from headrace.dispatcher.spec import WorkerSpec
from headrace.dispatcher.worker.decode import decode_frame
from headrace.dispatcher.worker.delivery import Delivery
from headrace.dispatcher.worker.lane import Lane
from headrace.dispatcher.worker.lookups import Lookups
from headrace.dispatcher.worker.record import FetchedRecord, Record
from headrace.dispatcher.worker.roster import Roster

log = get_logger(__name__)

_AGAIN = 1.0
_AGAIN_LATEST = 15.0


class Finder:
    """`found_lane` is told of each lane that could start, `found_event` of each straggler that may be tried again.

    `post`: see `Reading`.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        roster: Roster,
        lookups: Lookups,
        clock: Clock,
        post: Callable[[Callable[[], None]], None],
        found_lane: Callable[[Lane], None],
        found_event: Callable[[Delivery], None],
    ) -> None:
        self._spec = spec
        self._roster = roster
        self._lookups = lookups
        self._clock = clock
        self._post = post
        self._found_lane = found_lane
        self._found_event = found_event
        self._looking = False
        self._pause = _AGAIN
        self.next_look: float | None = None

    def look(self) -> None:
        """Begin to look for whatever is missing now."""
        for lane in self._roster.lanes.values():
            if lane.fetching and not lane.fetch_begun:
                lane.fetch_begun = True
                self._lookups.events(self._roster.partition, lane.fetching, partial(self._event_read, lane))
        self._pause = _AGAIN
        self._find_places()

    def tick(self, now: float) -> None:
        """Look again for positions that were not there."""
        if self.next_look is not None and now >= self.next_look:
            self.next_look = None
            self._find_places()

    def _find_places(self) -> None:
        missing = self._roster.lost_places
        if missing and not self._looking:
            self._looking = True
            self._lookups.positions(self._roster.partition, missing, lambda found: self._post(partial(self._places, found)))

    def _places(self, found: dict[str, bytes]) -> None:
        self._looking = False
        self._roster.locate(found)
        for uid in found:
            lane = self._roster.lanes.get(uid)
            if lane is not None:
                self._found_lane(lane)
        if self._roster.lost_places:
            self.next_look = self._clock.monotonic() + self._pause
            self._pause = min(2 * self._pause, _AGAIN_LATEST)

    def _event_read(self, lane: Lane, offset: int, frame: Frame | None) -> None:
        self._post(partial(self._event, lane, offset, frame))

    def _event(self, lane: Lane, offset: int, frame: Frame | None) -> None:
        record: Record | None = None
        if frame is not None:
            try:
                record = FetchedRecord(decode_frame(frame), len(frame.value or b""), self._spec.offset_extensions)
            except InvalidEvent as error:
                log.warning("An event that waited for a retry can't be read any more", offset=offset, reason=str(error))
        if record is None:
            log.warning(
                "An event that waited for a retry is gone", lane=lane.uid, partition=self._roster.partition, offset=offset
            )
            lane.lose(offset)
        else:
            delivery = lane.adopt(record)
            if delivery is not None:
                self._found_event(delivery)
        self._roster.touched.append(lane)
