"""The engine: one thread that owns everything of one partition, and never waits for anything but all of it at once.

    STARTING --contract read to its end--> RUNNING --drain, or input ended--> STOPPING --nothing in flight, or grace over--> STOPPED
                                              |                                  ^
                                              +--job: input ended--> FINISHING --+  (lanes done, or the job's time is over)

Other threads (Spark's reader, the contract's reader, the publisher) only `post` calls to it. It never raises: an error inside is
logged, what can be written is written, and the process ends, since Spark would skip the partition's events without a word.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial

from headrace.base.clock import Clock
from headrace.base.log import get_logger
from headrace.core.contract import ContentMode
from headrace.core.contractlog import ContractState, What, run_record
from headrace.core.events.kafka import encode_record, record_key
from headrace.core.events.model import Event, InvalidEvent
from headrace.core.frame import Frame, parse_frame
from headrace.dispatcher.spec import LaneOrders, Mode, Task, WorkerSpec, lanes_key
from headrace.dispatcher.worker.courier import Courier, Outside
from headrace.dispatcher.worker.delivery import Delivery, Ending
from headrace.dispatcher.worker.gate import Gate
from headrace.dispatcher.worker.intake import Intake
from headrace.dispatcher.worker.lane import Lane
from headrace.dispatcher.worker.lookups import Lookups
from headrace.dispatcher.worker.publisher import Publisher
from headrace.dispatcher.worker.record import Record
from headrace.dispatcher.worker.reporter import Reporter
from headrace.dispatcher.worker.ring import Ring
from headrace.dispatcher.worker.roster import Roster
from headrace.dispatcher.worker.scribe import Scribe
from headrace.dispatcher.worker.timers import Timers
from headrace.http.client import Client

log = get_logger(__name__)

_FRAMES_AT_ONCE = 64
_BEAT = 1.0
_CHANGE_PAUSE = 0.05
"""Reports about changes are not sent more often."""
_LAST_WRITES = 2.0
_LOOK_AGAIN = 1.0
_LOOK_AGAIN_LATEST = 15.0


class Phase(Enum):
    """See the picture."""

    STARTING = 0
    RUNNING = 1
    FINISHING = 2
    STOPPING = 3
    STOPPED = 4


class Engine:
    """`exit` ends the process at once. `start`, then hand frames to `intake` and wait for `stopped`."""

    def __init__(self, spec: WorkerSpec, task: Task, clock: Clock, exit: Callable[[int], None] = os._exit) -> None:
        self._spec = spec
        self._task = task
        self._clock = clock
        self._exit = exit
        self._inbox: deque[Callable[[], None]] = deque()
        self._client = Client(spec.limits.in_flight)
        self._timers: Timers[Delivery] = Timers()
        self._control = Publisher(spec.control)
        self._data = self._control if spec.kafka == spec.control else Publisher(spec.kafka)
        self._courier = Courier(
            Outside(
                client=self._client,
                timers=self._timers,
                gate=Gate(spec.limits.host_in_flight, spec.limits.in_flight),
                clock=clock,
                publish=self._publish,
                ended=self._ended,
                waits=self._waits,
                response_bytes=spec.limits.response_bytes,
                hop_limit=spec.hop_limit,
            )
        )
        self._contract = ContractState()
        self._contract_ready: Callable[[], bool] = bool
        self._run_key, _ = run_record(spec.topic, spec.run, 0)
        self._run_mark = f'"{spec.run}"'.encode()
        self._roster = Roster(spec)
        self._scribe = Scribe(spec, self._control, clock, self.post)
        self._reporter = Reporter(spec, task, self._control, clock)
        self._lookups = Lookups(spec)
        self._looking = False
        self._look_again_at = 0.0
        self._look_pause = _LOOK_AGAIN
        self._phase = Phase.STARTING
        self._orders = LaneOrders()
        self._publishing = 0
        self._next_beat = 0.0
        self._changed = False
        self._changed_at = 0.0
        self._stop_by = 0.0
        self._why = ""
        self._over = False
        self.intake = Intake(self._client.wake)
        self.stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    # -- called by other threads ----------------------------------------------------------------------------------

    def start(self, contract_ready: Callable[[], bool]) -> None:
        """Begin. `contract_ready` tells whether the contract has been read to its end (and its records were posted)."""
        self._contract_ready = contract_ready
        self._thread.start()

    def post(self, call: Callable[[], None]) -> None:
        """Have the engine make a call."""
        self._inbox.append(call)
        self._client.wake()

    def contract_record(self, key: str, value: bytes | None, offset: int) -> None:
        """A record of the contract topic. A newer run ends the process here and now, even if the engine should hang."""
        if (
            key == self._run_key
            and value is not None
            and self._phase is not Phase.STARTING
            and self._spec.run.encode() not in value
        ):
            log.info(
                "A newer run has taken over", topic=self._spec.topic, run=self._spec.run, record=value.decode(errors="replace")
            )
            self._exit(0)
        self.post(partial(self._contract_record, key, value, offset))

    def close(self) -> None:
        """Let go of everything; after `stopped`."""
        self.post(self._end)
        self._thread.join()
        self._lookups.close()
        for publisher in {self._control, self._data}:
            publisher.close(_LAST_WRITES)
        self._client.close()

    def final_records(self) -> list[tuple[str, int, bytes]]:
        """Lane uid, partition and progress record of each lane; after `stopped`."""
        return [(lane.uid, self._roster.partition, self._scribe.record(lane).encode()) for lane in self._roster.lanes.values()]

    # -- the loop -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._over:
                if not self._work():
                    self._client.wait(self._until_next(), self._has_work)
        except BaseException:
            log.exception(
                "A worker failed and ends", topic=self._spec.topic, partition=self._roster.partition, run=self._spec.run
            )
            self._last_words()
            self._exit(1)

    def _work(self) -> bool:
        """One round; whether anything was done."""
        busy = bool(self._inbox)
        while self._inbox:
            self._inbox.popleft()()
        phase = self._phase
        if phase is Phase.STARTING:
            busy |= self._try_to_begin()
        elif phase is Phase.RUNNING or phase is Phase.FINISHING:
            busy |= self._take_frames()
        busy |= self._due_retries()
        ended = self._client.poll()
        for exchange in ended:
            self._courier.ended(exchange)
        if self._roster.touched:
            busy = True
            self._pump()
        self._tick()
        if phase is not Phase.STOPPED:
            self._consider_the_end()
        return busy or bool(ended)

    def _has_work(self) -> bool:
        return bool(self._inbox) or self._can_take()

    def _until_next(self) -> float:
        now = self._clock.monotonic()
        due = self._timers.next_due
        until = min(self._next_beat, now + _BEAT) if due is None else min(self._next_beat, due)
        if self._changed:
            until = min(until, self._changed_at + _CHANGE_PAUSE)
        if self._phase in (Phase.STOPPING, Phase.FINISHING):
            until = min(until, self._stop_by)
        if self._phase is Phase.STARTING:
            until = min(until, now + 0.02)
        return max(0.0, until - now)

    # -- the contract and orders ----------------------------------------------------------------------------------

    def _contract_record(self, key: str, value: bytes | None, offset: int) -> None:
        if key.startswith("@lanes/"):
            self._contract.offset = offset
            if key == lanes_key(self._spec.run) and value is not None:
                self._take_orders(value)
            return
        change = self._contract.apply(key, value, offset)
        self._changed = True
        if change.error is not None:
            log.error("A contract record can't be read; the one before stays in force", key=key, error=str(change.error))
        elif self._phase is not Phase.STARTING:
            if change.what is What.DRAIN and self._spec.owner in self._contract.drains:
                self._stop("drain", self._spec.grace)
            self._roster.apply(self._contract, change)
            self._after_roster()

    def _take_orders(self, value: bytes) -> None:
        try:
            self._orders = LaneOrders.parse(value)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            log.error("Orders can't be read", run=self._spec.run, error=repr(error))
            return
        if self._phase is Phase.RUNNING:
            self._follow_orders()

    def _follow_orders(self) -> None:
        if self._roster.ring is None and self._task.index < len(self._orders.partitions):
            self._bind(self._orders.partitions[self._task.index])

    def _try_to_begin(self) -> bool:
        if not self._contract_ready() or self._inbox:
            return False
        current = self._contract.runs.get(self._spec.topic)
        if current != self._spec.run:
            log.info("A newer run is in force already", topic=self._spec.topic, run=self._spec.run, newer=current)
            self._exit(0)
        self._roster.apply_all(self._contract)
        self._phase = Phase.RUNNING
        if self._task.index < len(self._spec.partitions):
            self._bind(self._spec.partitions[self._task.index])
        self._follow_orders()
        self._after_roster()
        self._changed = True
        if self._spec.owner in self._contract.drains:
            self._stop("drain", self._spec.grace)
        return True

    def _bind(self, partition: int) -> None:
        floor = self._spec.starts.get(partition)
        if floor is None:
            raise RuntimeError(f"no start offset was given for partition {partition}")
        limits = self._spec.limits
        self._roster.bind(partition, Ring(floor, limits.ring_events, limits.ring_bytes))
        for lane in self._roster.lanes.values():
            self._scribe.know(lane, self._scribe.record(lane))
        self._after_roster()

    def _after_roster(self) -> None:
        """See to what a change of the lanes leaves to do: break off what is gone, find what is missing."""
        removed, self._roster.removed = self._roster.removed, []
        for lane in removed:
            self._scribe.forget(lane)
            for delivery in list(lane.active.values()):
                self._courier.abandon(delivery)
            lane.settle()
        if removed:
            self._changed = True
        for lane in self._roster.lanes.values():
            if lane.fetching and not lane.fetch_begun:
                self._fetch(lane)
        self._look_pause = _LOOK_AGAIN
        self._find_places()

    def _find_places(self) -> None:
        """Look up the positions of lanes that can't start without."""
        lost = self._roster.lost_places
        if lost and not self._looking and self._spec.mode is Mode.LIVE:
            self._looking = True
            self._lookups.positions(self._roster.partition, lost, lambda found: self.post(partial(self._places_found, found)))

    def _places_found(self, found: dict[str, bytes]) -> None:
        self._looking = False
        self._roster.locate(found)
        for uid in found:
            lane = self._roster.lanes.get(uid)
            if lane is not None:
                self._scribe.know(lane, self._scribe.record(lane))
        if self._roster.lost_places:
            self._look_again_at = self._clock.monotonic() + self._look_pause
            self._look_pause = min(2 * self._look_pause, _LOOK_AGAIN_LATEST)
        self._changed = True

    def _fetch(self, lane: Lane) -> None:
        """Get the events of stragglers that are behind the reader."""
        lane.fetch_begun = True

        def found(offset: int, frame: Frame | None) -> None:
            self.post(partial(self._fetched, lane, offset, frame))

        self._lookups.events(self._roster.partition, lane.fetching, found)

    def _fetched(self, lane: Lane, offset: int, frame: Frame | None) -> None:
        record = None
        if frame is not None:
            try:
                record = Record(frame, len(frame.value or b""), self._spec.offset_extensions)
            except InvalidEvent as error:
                log.warning("An event that waited for a retry can't be read any more", offset=offset, reason=str(error))
        if record is None:
            lane.lose(offset)
        else:
            delivery = lane.adopt(record)
            if delivery is not None:
                wait = lane.subscription.policy.wait_ms(max(1, delivery.attempts)) or 0
                self._timers.add(self._clock.monotonic() + min(wait / 1000, _BEAT), delivery)
        self._roster.touched.append(lane)

    # -- events ---------------------------------------------------------------------------------------------------

    def _can_take(self) -> bool:
        if not len(self.intake) or self._phase not in (Phase.RUNNING, Phase.FINISHING):
            return False
        ring = self._roster.ring
        return ring is None or ring.room

    def _take_frames(self) -> bool:
        taken = 0
        while taken < _FRAMES_AT_ONCE and self._can_take():
            raw = self.intake.take()
            if raw is None:
                break
            taken += 1
            self._take(parse_frame(raw), len(raw))
        return taken > 0

    def _take(self, frame: Frame, size: int) -> None:
        ring = self._roster.ring
        if ring is None:
            self._bind(frame.partition)
            ring = self._roster.ring
            assert ring is not None
        if frame.partition != self._roster.partition:
            raise RuntimeError(f"task {self._task.index} reads partition {frame.partition}, not {self._roster.partition}")
        if frame.offset < ring.head:
            log.warning("An event came twice from Spark", partition=frame.partition, offset=frame.offset, head=ring.head)
            return
        self._reporter.events += 1
        try:
            record = Record(frame, size, self._spec.offset_extensions)
            lanes = self._roster.index.match(record.attributes)
        except InvalidEvent as error:
            self._discard(frame, str(error))
            return
        except Exception:
            log.exception(
                "A record could not be matched", topic=self._spec.topic, partition=frame.partition, offset=frame.offset
            )
            self._discard(frame, "internal error")
            return
        ring.append(record)
        for lane in lanes:
            lane.offer(record)
        self._roster.touched += lanes

    def _discard(self, frame: Frame, reason: str) -> None:
        assert self._roster.ring is not None
        self._roster.ring.skip_to(frame.offset + 1)
        self._reporter.discarded += 1
        log.warning(
            "A record holds no event and is skipped",
            topic=self._spec.topic,
            partition=frame.partition,
            offset=frame.offset,
            reason=reason,
        )

    # -- deliveries -----------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Send what the touched lanes may send now."""
        touched, self._roster.touched = self._roster.touched, []
        if self._phase not in (Phase.RUNNING, Phase.FINISHING):
            return
        send = self._courier.send
        for lane in touched:
            delivery = lane.take()
            while delivery is not None:
                send(delivery)
                delivery = lane.take()

    def _due_retries(self) -> bool:
        now = self._clock.monotonic()
        delivery = self._timers.pop(now)
        found = delivery is not None
        while delivery is not None:
            if delivery.lane.retry(delivery):
                self._roster.touched.append(delivery.lane)
            delivery = self._timers.pop(now)
        return found

    def _publish(self, event: Event, delivery: Delivery) -> None:
        headers, value = encode_record(event, ContentMode.BINARY)

        def answered(error: str) -> None:
            self.post(partial(self._published, delivery, error))

        self._publishing += 1
        self._data.publish(self._spec.topic, value, answered, key=record_key(event), headers=headers)

    def _published(self, delivery: Delivery, error: str) -> None:
        self._publishing -= 1
        if delivery.lane.active.get(delivery.record.offset) is delivery:
            self._courier.stored(delivery, error)

    def _ended(self, delivery: Delivery, how: Ending) -> None:
        lane = delivery.lane
        lane.finish(delivery)
        counts = lane.counts
        if how is Ending.DELIVERED:
            counts.delivered += 1
            lane.latencies.add(self._clock.now() * 1000 - delivery.record.timestamp)
        elif how is Ending.DEAD_LETTERED:
            counts.dead_lettered += 1
        else:
            counts.dropped += 1
        self._roster.touched.append(lane)

    def _waits(self, delivery: Delivery) -> None:
        delivery.lane.wait(delivery)
        self._roster.touched.append(delivery.lane)

    # -- the clock ------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        now = self._clock.monotonic()
        if self._phase is Phase.STOPPED:
            return
        if self._look_again_at and now >= self._look_again_at:
            self._look_again_at = 0.0
            self._find_places()
        if now >= self._next_beat:
            self._next_beat = now + _BEAT
            if self._roster.ring is not None:
                self._scribe.write(self._roster.partition, self._roster.lanes.values())
            self._report(beat=True)
        elif self._changed and now >= self._changed_at + _CHANGE_PAUSE:
            self._report(beat=False)

    def _report(self, beat: bool, goodbye: bool = False) -> None:
        self._changed = False
        self._changed_at = self._clock.monotonic()
        offset = self._contract.offset if self._phase is not Phase.STARTING else -1
        self._reporter.report(self._roster, self._scribe, offset, beat, goodbye)

    # -- the end --------------------------------------------------------------------------------------------------

    def _consider_the_end(self) -> None:
        now = self._clock.monotonic()
        if self._phase is Phase.RUNNING and self.intake.ended:
            if self._spec.mode is Mode.LIVE:
                self._stop("input ended", self._spec.grace)
            else:
                self._phase = Phase.FINISHING
                self._stop_by = now + max(0.0, self._spec.due - self._clock.now())
        if self._phase is Phase.FINISHING and (now >= self._stop_by or not self._unfinished()):
            self._stop("job done", self._spec.grace)
        if self._phase is Phase.STOPPING and (now >= self._stop_by or not (self._client.active or self._publishing)):
            self._finish()

    def _unfinished(self) -> bool:
        return any(lane.unfinished for lane in self._roster.live())

    def _stop(self, why: str, grace: float) -> None:
        """No new attempt from now on; what is under way may end within `grace` seconds."""
        if self._phase in (Phase.STOPPING, Phase.STOPPED):
            return
        self._phase = Phase.STOPPING
        self._why = why
        self._stop_by = self._clock.monotonic() + grace
        self.intake.discard()

    def _finish(self) -> None:
        broken_off = self._client.active
        for lane in self._roster.lanes.values():
            for delivery in lane.active.values():
                if delivery.exchange is not None:
                    self._client.abort(delivery.exchange)
        if self._roster.ring is not None:
            self._scribe.write(self._roster.partition, self._roster.lanes.values(), all_of_them=True)
        written = self._control.flush(_LAST_WRITES)
        self._phase = Phase.STOPPED
        self._report(beat=True, goodbye=True)
        self._control.flush(_LAST_WRITES)
        log.info(
            "Worker stopped",
            topic=self._spec.topic,
            partition=self._roster.partition,
            run=self._spec.owner,
            reason=self._why,
            broken_off=broken_off,
            progress_written=written,
        )
        self.stopped.set()

    def _end(self) -> None:
        self._over = True

    def _last_words(self) -> None:
        """Write what can be written, whatever state things are in."""
        try:
            if self._roster.ring is not None:
                self._scribe.write(self._roster.partition, self._roster.lanes.values(), all_of_them=True)
            self._control.flush(_LAST_WRITES)
        except Exception:
            log.exception("The last progress of a worker could not be written", topic=self._spec.topic)
