"""Says what a worker is doing: its heartbeat."""

from __future__ import annotations

from headrace.base.clock import Clock
from headrace.base.log import get_logger
from headrace.core.heartbeat import LaneReport, WorkerReport, encode_report
from headrace.core.names import Internal
from headrace.dispatcher.spec import Mode, Task, WorkerSpec
from headrace.dispatcher.worker.lane import Lane, LaneState
from headrace.dispatcher.worker.publisher import Publisher
from headrace.dispatcher.worker.reading import Reading
from headrace.dispatcher.worker.roster import Roster
from headrace.dispatcher.worker.scribe import Scribe

log = get_logger(__name__)

_TELLING = 500
"""With more lanes than these a heartbeat leaves out their last errors: it has to stay well within a message."""


class Reporter:
    """Figures per second are those since the last report that was `beat`."""

    def __init__(self, spec: WorkerSpec, task: Task, publisher: Publisher, clock: Clock) -> None:
        self._spec = spec
        self._task = task
        self._publisher = publisher
        self._clock = clock
        self._topic = Internal(spec.instance).dataplane
        self._rates: dict[str, _Rate] = {}

    def report(
        self, roster: Roster, reading: Reading, scribe: Scribe, contract_offset: int, beat: bool = True, goodbye: bool = False
    ) -> None:
        """Send the heartbeat. `beat`: a regular one, which begins a new interval for the figures."""
        ring = roster.ring
        now = self._clock.now()
        telling = len(roster.lanes) <= _TELLING
        if beat:
            self._rates = {uid: rate for uid, rate in self._rates.items() if uid in roster.lanes}
        report = WorkerReport(
            topic=self._spec.topic,
            topic_id=self._spec.topic_id,
            run=self._spec.owner,
            index=self._task.index,
            workers=self._spec.workers,
            at=int(now * 1000),
            mode=str(self._spec.mode),
            contract_offset=contract_offset,
            head=-1 if ring is None else ring.head,
            events=reading.events,
            discarded=reading.discarded,
            ring_events=0 if ring is None else len(ring),
            ring_bytes=0 if ring is None else ring.size,
            lanes={lane.uid: self._lane(lane, scribe, now, beat, telling) for lane in roster.lanes.values()},
            closed=dict(roster.closed),
            goodbye=goodbye,
        )
        key, value = encode_report(report)
        self._publisher.publish(self._topic, value, _told, key=key.encode(), partition=0)

    def _lane(self, lane: Lane, scribe: Scribe, now: float, beat: bool, telling: bool) -> LaneReport:
        counts = lane.counts
        progress = lane.progress()
        rate = self._rates.setdefault(lane.uid, _Rate(now))
        if beat:
            rate.measure(lane, now)
        oldest = lane.oldest
        live = lane.state is LaneState.LIVE
        # Until its progress is stored nobody else may take a lane over, so it must not look idle.
        settled = live or lane.in_flight or scribe.stored(lane)
        return LaneReport(
            state=str(LaneState.CATCHING_UP if live and self._spec.mode is Mode.CATCHUP else lane.state),
            position=progress.position,
            lag=max(0, lane.ring.head - lane.cursor) + len(lane.active),
            in_flight=lane.in_flight if settled else 1,
            retrying=lane.retrying,
            delivered=counts.delivered,
            failed=counts.failed,
            dead_lettered=counts.dead_lettered,
            dropped=counts.dropped,
            kept=counts.kept,
            lost=counts.lost,
            rate=rate.rate,
            p50_ms=rate.p50,
            p99_ms=rate.p99,
            oldest_ms=max(0, int(now * 1000) - oldest) if oldest else 0,
            last_error=counts.last_error[:200] if telling else "",
            blocked=counts.blocked[: 400 if telling else 40] if lane.in_flight else "",
        )


class _Rate:
    """Events per second and percentiles of the last interval."""

    __slots__ = ("_done", "_since", "p50", "p99", "rate")

    def __init__(self, now: float) -> None:
        self._since = now
        self._done = 0
        self.rate = self.p50 = self.p99 = 0.0

    def measure(self, lane: Lane, now: float) -> None:
        done = lane.counts.finished
        if now > self._since:
            self.rate = round((done - self._done) / (now - self._since), 1)
        self.p50, self.p99 = (round(value, 2) for value in lane.latencies.drain(0.5, 0.99))
        self._since, self._done = now, done


def _told(error: str, final: bool) -> None:
    """A heartbeat that is lost is followed by the next one; one that Kafka refuses is not, and the driver takes the worker for dead."""
    if final:
        log.error("A heartbeat is refused by Kafka", error=error)
