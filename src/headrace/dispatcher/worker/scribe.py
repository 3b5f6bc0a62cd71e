"""Writes the progress of a worker's lanes: once a second where it has changed, and at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headrace.base.clock import Clock
from headrace.base.log import get_logger
from headrace.core.names import Internal
from headrace.core.progress import Progress, ProgressRecord, Range, progress_key
from headrace.dispatcher.spec import Mode, WorkerSpec
from headrace.dispatcher.worker.lane import Lane, LaneState
from headrace.dispatcher.worker.publisher import Publisher

log = get_logger(__name__)

_IDLE_LANES_PER_SECOND = 200
"""Lanes that only moved on, without an event of their own, are written less often where there are many."""


class Scribe:
    """`doubts` gives the offsets of which it is not known whether they were read; `post` brings what Kafka answers back to the engine's
    thread.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        publisher: Publisher,
        clock: Clock,
        doubts: Callable[[], Sequence[Range]],
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._spec = spec
        self._publisher = publisher
        self._clock = clock
        self._doubts = doubts
        self._post = post
        self._topic = Internal(spec.instance).progress
        self._written: dict[str, tuple[Progress, bool, int]] = {}
        self._stored: dict[str, tuple[Progress, bool, int]] = {}
        self._idle_since: dict[str, float] = {}
        self.leaving: dict[str, object] = {}
        """Lanes that are gone, and their last progress, for which Kafka has not answered yet."""

    def record(self, lane: Lane) -> ProgressRecord:
        """The record of a lane as it stands now."""
        return ProgressRecord(
            self._progress(lane),
            uid=lane.uid,
            topic_id=self._spec.topic_id,
            run=lane.writer,
            at=int(self._clock.now() * 1000),
            parked=self._parked(lane),
        )

    def know(self, lane: Lane, record: ProgressRecord) -> None:
        """What is stored for a lane already."""
        self._written[lane.uid] = self._stored[lane.uid] = (record.progress, record.parked, 0)

    def leave(self, partition: int, lane: Lane) -> None:
        """A lane is gone: what it has done since the last time is written, and then nothing more."""
        record = self.record(lane)
        before = self._written.get(lane.uid)
        if before is not None and before[0] != record.progress:
            state = self.leaving[lane.uid] = record.progress, record.parked, 0
            self._write(partition, lane, record, state)
        self._written.pop(lane.uid, None)
        self._stored.pop(lane.uid, None)
        self._idle_since.pop(lane.uid, None)

    def write(self, partition: int, lanes: Iterable[Lane], all_of_them: bool = False) -> None:
        """Write the lanes that have changed. `all_of_them`: also those that only moved on a little while ago."""
        listed = list(lanes)
        patience = len(listed) / _IDLE_LANES_PER_SECOND if not all_of_them else 0.0
        now = self._clock.monotonic()
        for lane in listed:
            record = self.record(lane)
            done = lane.counts.finished + lane.counts.failed
            before = self._written.get(lane.uid)
            state = (record.progress, record.parked, done)
            if before is not None and before[:2] == state[:2]:
                continue
            if before is not None and before[1:] == state[1:] and not lane.active:
                since = self._idle_since.setdefault(lane.uid, now)
                if now - since < patience - 1.0:
                    continue
            self._idle_since.pop(lane.uid, None)
            self._write(partition, lane, record, state)

    def stored(self, lane: Lane) -> bool:
        """Whether Kafka has the lane's progress as it stands now."""
        known = self._stored.get(lane.uid)
        return not self._doubts() and known is not None and known[:2] == (lane.progress(), self._parked(lane))

    def _progress(self, lane: Lane) -> Progress:
        """Where a lane stands; what is in doubt counts as not finished."""
        doubts = [(max(first, lane.begin), last) for first, last in self._doubts() if last >= lane.begin]
        return lane.progress().reopened(doubts) if doubts else lane.progress()

    def _write(self, partition: int, lane: Lane, record: ProgressRecord, state: tuple[Progress, bool, int]) -> None:
        uid = lane.uid
        self._written[uid] = state

        def answered(error: str, final: bool) -> None:
            self._post(lambda: self._answered(uid, state, error))

        key = progress_key(uid, partition).encode()
        self._publisher.publish(self._topic, record.encode(), answered, key=key, partition=0)

    def _answered(self, uid: str, state: tuple[Progress, bool, int], error: str) -> None:
        if self.leaving.get(uid) is state:
            del self.leaving[uid]
        if not error:
            if uid in self._written:
                self._stored[uid] = state
            return
        log.warning("Progress could not be written and is tried again", lane=uid, error=error)
        if self._written.get(uid) == state:
            self._written.pop(uid)

    def _parked(self, lane: Lane) -> bool:
        return self._spec.mode is Mode.CATCHUP or lane.state is not LaneState.LIVE
