"""The engine: one thread that owns everything of one partition, and never waits for anything but all of it at once.

    STARTING --contract read to its end--> RUNNING --drain, or input ended--> STOPPING --nothing in flight, or grace over--> STOPPED
                                              |                                  ^
                                              |                                  |
                                              +--job: input ended--> FINISHING --+  (lanes done)
                                              |                        |         |
                                              +--its time is over------+-> LINGERING  (nothing in flight, or `linger` over)

Other threads (Spark's reader, the contract's reader, the publisher) only `post` calls to it. It never raises: an error inside is
logged, what can be written is written, and the process ends, since Spark would skip the partition's events without a word.
"""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Protocol

from headrace.base.clock import Clock
from headrace.base.log import get_logger
from headrace.core.contractlog import Change
from headrace.dispatcher.spec import LaneOrders, Mode, Task, WorkerSpec
from headrace.dispatcher.worker.courier import Courier, Outside
from headrace.dispatcher.worker.delivery import Delivery, Ending
from headrace.dispatcher.worker.feed import Feed
from headrace.dispatcher.worker.finder import Finder
from headrace.dispatcher.worker.gate import Gate
from headrace.dispatcher.worker.intake import Intake
from headrace.dispatcher.worker.lane import Lane
from headrace.dispatcher.worker.lookups import Lookups
from headrace.dispatcher.worker.outbox import Outbox
from headrace.dispatcher.worker.parking import Parking
from headrace.dispatcher.worker.publisher import Publisher
from headrace.dispatcher.worker.pulse import BEAT, Pulse
from headrace.dispatcher.worker.reading import Reading
from headrace.dispatcher.worker.ring import Ring
from headrace.dispatcher.worker.roster import Roster
from headrace.dispatcher.worker.scribe import Scribe
from headrace.dispatcher.worker.timers import Timers
from headrace.dispatcher.worker.tokens import FetchThread, Tokens
from headrace.dispatcher.worker.window import Window
from headrace.http.client import Client

log = get_logger(__name__)

_LAST_WRITES = 2.0
_LEAST_JOB = 1.0
"""Seconds that a task of a job has from its first event on, however late that comes."""

_STALLED = 3.0
"""A worker that stood still for so many seconds may have been replaced meanwhile (the driver waits a little longer for a heartbeat)."""

_LOOK = 0.02


class Phase(Enum):
    """See the picture."""

    STARTING = 0
    RUNNING = 1
    FINISHING = 2
    LINGERING = 3
    STOPPING = 4
    STOPPED = 5


class Contract(Protocol):
    """The contract topic's reader: whether it has got to the end that was there at its start, and up to where it has posted records."""

    @property
    def ready(self) -> bool: ...

    @property
    def position(self) -> int: ...


class Engine:
    """`exit` ends the process at once. `start`, then hand frames to `intake` and wait for `stopped`."""

    def __init__(self, spec: WorkerSpec, task: Task, clock: Clock, exit: Callable[[int], None] = os._exit) -> None:
        self._spec = spec
        self._task = task
        self._clock = clock
        self._exit = exit
        self._inbox: deque[Callable[[], None]] = deque()
        self._client = Client(spec.limits.in_flight)
        self._timers: Timers[Delivery | Lane] = Timers()
        body = spec.limits.response_bytes
        self._control = Publisher(spec.control, body)
        self._data = self._control if spec.kafka == spec.control else Publisher(spec.kafka, body)
        self._gate: Gate[Delivery] = Gate(spec.limits.host_in_flight, spec.limits.in_flight, clock)
        self._outbox = Outbox(spec, self._data, self._control, self.post, self._stored)
        self._fetching = FetchThread(spec.tokens, clock, self.post)
        self._courier = Courier(self._outside())
        self._lookups = Lookups(spec)
        self._feed = Feed(spec, exit)
        self._window = Window.open()
        if spec.mode is Mode.CATCHUP:
            self._window = Window(spec.limits.in_flight, spec.limits.lane_in_flight, clock.monotonic())
        self._roster = Roster(spec, self._window)
        self._reading = Reading(spec, self._roster, self._lookups, clock, self._bind, self.post)
        self._finder = Finder(spec, self._roster, self._lookups, clock, self.post, self._know, self._found_event)
        self._parking = Parking(spec, self._roster, clock)
        self._scribe = Scribe(spec, self._control, clock, lambda: self._reading.doubts, self.post)
        self._pulse = Pulse(spec, task, clock, self._control, self._feed, self._roster, self._reading, self._scribe)
        self._contract: Contract | None = None
        self._phase = Phase.STARTING
        self._stop_by = 0.0
        self._job_ends = math.inf
        self._fed = False
        self._worked_at = clock.monotonic()
        self._answers = 0
        self._stalls = 0
        self._unsure = False
        self._sure_from: int | None = None
        self._why = ""
        self._closing_range = False
        self._over = False
        self._final: list[tuple[str, int, bytes]] = []
        self.intake = Intake(self._client.wake)
        self.stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def _outside(self) -> Outside:
        limits = self._spec.limits
        return Outside(
            client=self._client,
            gate=self._gate,
            tokens=Tokens(self._fetching, self._clock),
            clock=self._clock,
            publish=self._outbox.publish,
            ended=self._ended,
            waits=self._waits,
            response_bytes=limits.response_bytes,
            replies_bytes=limits.budget_bytes // 4,
            hop_limit=self._spec.hop_limit,
        )

    # -- called by other threads ----------------------------------------------------------------------------------

    def start(self, contract: Contract) -> None:
        """Begin, once `contract` has been read to its end."""
        self._contract = contract
        self._thread.start()

    def post(self, call: Callable[[], None]) -> None:
        """Have the engine make a call."""
        self._inbox.append(call)
        self._client.wake()

    def contract_record(self, key: str, value: bytes | None, offset: int) -> None:
        """A record of the contract topic."""
        self._feed.watch(key, value)
        self.post(partial(self._contract_record, key, value, offset))

    def close(self) -> None:
        """Let go of everything; after `stopped`."""
        self.post(self._end)
        self._thread.join()
        self._fetching.close()
        self._lookups.close()
        for publisher in {self._control, self._data}:
            publisher.close(_LAST_WRITES)
        self._client.close()

    def final_records(self) -> list[tuple[str, int, bytes]]:
        """Lane uid, partition and progress record of each lane of a job as it came to rest; after `stopped`, whatever the contract says since."""
        return self._final

    # -- the loop -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._over:
                if not self._work():
                    self._client.wait(self._until_next(), self._has_work)
        except BaseException:
            log.exception(
                "A worker failed and ends", topic=self._spec.topic, partition=self._roster.partition, run=self._spec.owner
            )
            self._last_words()
            self._exit(1)

    def _work(self) -> bool:
        """One round; whether there is reason for another one at once."""
        now = self._clock.monotonic()
        if now - self._worked_at > _STALLED:
            self._doubt(now - self._worked_at)
        self._worked_at = now
        busy = bool(self._inbox)
        while self._inbox:
            self._inbox.popleft()()
        if self._unsure:
            self._try_to_be_sure()
        if self._phase is Phase.STARTING:
            busy |= self._try_to_begin()
        elif self._sending:
            if self._reading.take(self.intake):
                busy = True
                if not self._fed:
                    self._set_job_end()
            self._relieve()
        busy |= self._due()
        if self._roster.touched:
            self._pump()
        ended = self._client.poll()
        for exchange in ended:
            self._courier.ended(exchange)
        if self._roster.touched:
            self._pump()
        if self._sending:
            self._courier.start_waiting()
        if ended:
            self._client.push()
        if self._phase is not Phase.STOPPED:
            now = self._clock.monotonic()
            self._answers += len(ended)
            if self._sending and self._window.ready(now, self._answers):
                lanes = list(self._roster.live())
                self._window.tick(now, len(lanes), self._client.active, any(lane.held_back for lane in lanes))
            self._finder.tick(now)
            if self._pulse.tick(now):
                self._parking.tick(now)
            self._consider_the_end(now)
        return busy or bool(self._roster.touched)

    @property
    def _sending(self) -> bool:
        return (self._phase is Phase.RUNNING or self._phase is Phase.FINISHING) and not self._unsure

    def _has_work(self) -> bool:
        if self._inbox:
            return True
        ring = self._roster.ring
        return len(self.intake) > 0 and self._sending and (ring is None or ring.room)

    def _until_next(self) -> float:
        if self._phase is Phase.STOPPED:
            return BEAT
        now = self._clock.monotonic()
        until = min(self._pulse.due, now + BEAT)
        for due in (self._timers.next_due, self._finder.next_look, self._gate.next_probe if self._sending else None):
            if due is not None:
                until = min(until, due)
        if self._phase in (Phase.STOPPING, Phase.FINISHING, Phase.LINGERING):
            until = min(until, self._stop_by)
        elif self._phase is Phase.RUNNING:
            until = min(until, self._job_ends)
        if self._phase is Phase.STARTING or self._unsure or len(self.intake):
            until = min(until, now + _LOOK)
        return max(0.0, until - now)

    # -- being in charge ------------------------------------------------------------------------------------------

    def _doubt(self, seconds: float) -> None:
        """Nothing was done for a while (the process was stopped, or its host): send nothing until it is sure that no newer run exists."""
        if self._phase in (Phase.STARTING, Phase.STOPPED):
            return
        log.warning("A worker stood still and asks whether it was replaced", topic=self._spec.topic, seconds=round(seconds, 1))
        self._stalls += 1
        self._unsure, self._sure_from = True, None
        stall = self._stalls
        self._lookups.contract_end(lambda end: self.post(partial(self._contract_ends, stall, end)))

    def _contract_ends(self, stall: int, end: int) -> None:
        if stall == self._stalls:
            self._sure_from = end

    def _try_to_be_sure(self) -> None:
        assert self._contract is not None
        if self._sure_from is not None and self._contract.position >= self._sure_from and not self._inbox:
            self._unsure = False
            self._roster.touched = list(self._roster.live())

    # -- the contract and orders ----------------------------------------------------------------------------------

    def _contract_record(self, key: str, value: bytes | None, offset: int) -> None:
        news = self._feed.take(key, value, offset)
        self._pulse.changed = True
        if not self._feed.begun:
            return
        if isinstance(news, LaneOrders):
            self._follow(news)
        elif isinstance(news, Change):
            self._roster.apply(self._feed.state, news)
            self._after_roster()
            if self._feed.drained:
                self._stop("drain")

    def _try_to_begin(self) -> bool:
        if self._contract is None or not self._contract.ready or self._inbox:
            return False
        self._feed.begin()
        self._roster.apply_all(self._feed.state)
        self._phase = Phase.RUNNING
        self._pulse.changed = True
        if self._task.index < len(self._spec.partitions):
            self._bind(self._spec.partitions[self._task.index])
        self._follow(self._feed.orders)
        if self._feed.drained:
            self._stop("drain")
        return True

    def _follow(self, orders: LaneOrders) -> None:
        if self._spec.mode is not Mode.LIVE:
            return
        if self._roster.ring is None and self._task.index < len(orders.partitions):
            self._bind(orders.partitions[self._task.index])
        if self._roster.ring is not None:
            for lane, record in self._parking.follow(orders):
                self._scribe.know(lane, record)
            self._pulse.changed = True
            self._after_roster()

    def _bind(self, partition: int) -> None:
        floor = self._spec.starts.get(partition)
        if floor is None:
            raise RuntimeError(f"no start offset was given for partition {partition}")
        limits = self._spec.limits
        self._roster.bind(partition, Ring(floor, limits.ring_events, limits.ring_bytes))
        for lane in self._roster.lanes.values():
            self._know(lane)
        self._after_roster()

    def _know(self, lane: Lane) -> None:
        """What is stored of a lane that has begun. It may have moved on from there at once, past events that it does not want."""
        progress = self._roster.stored(lane.uid).progress
        self._scribe.know(lane, replace(self._scribe.record(lane), progress=progress))
        self._pulse.changed = True

    def _after_roster(self) -> None:
        """See to what a change of the lanes leaves to do: break off what is gone, find what is missing."""
        removed, self._roster.removed = self._roster.removed, []
        for lane in removed:
            self._break_off(lane)
            self._scribe.leave(self._roster.partition, lane)
        self._let_go()
        self._finder.look()

    # -- deliveries -----------------------------------------------------------------------------------------------

    def _relieve(self) -> None:
        ring = self._roster.ring
        if ring is not None and (ring.bytes_held > self._spec.limits.budget_bytes or (len(self.intake) and not ring.room)):
            spent = self._parking.relieve()
            self._let_go()
            if spent is not None:
                self._break_off(spent)
                self._pulse.hurry()

    def _break_off(self, lane: Lane) -> None:
        """Bring a lane that is not live to rest now; what it had in flight is not finished."""
        for delivery in list(lane.active.values()):
            self._courier.abandon(delivery)
        lane.settle()

    def _let_go(self) -> None:
        """Lanes that were parked do not begin any more what waits for its turn."""
        parked, self._roster.parked = self._roster.parked, []
        for lane in parked:
            for delivery in list(lane.active.values()):
                if self._courier.withdraw(delivery):
                    lane.let_go(delivery)
            if lane.at_rest:
                self._moved(lane)

    def _pump(self) -> None:
        """Send what the touched lanes may send now."""
        touched, self._roster.touched = self._roster.touched, []
        if not self._sending:
            return
        send = self._courier.send
        now = self._clock.monotonic()
        for lane in touched:
            delivery = lane.take(now)
            while delivery is not None:
                send(delivery)
                delivery = lane.take(now)
            if lane.held_until > now and not lane.timer_set:
                lane.timer_set = True
                self._timers.add(lane.held_until, lane)

    def _due(self) -> bool:
        now = self._clock.monotonic()
        item = self._timers.pop(now)
        found = item is not None
        while item is not None:
            if isinstance(item, Lane):
                item.timer_set = False
                self._roster.touched.append(item)
            elif item.lane.retry(item):
                self._roster.touched.append(item.lane)
            item = self._timers.pop(now)
        return found

    def _stored(self, delivery: Delivery, error: str, final: bool) -> None:
        self._courier.stored(delivery, error, final)

    def _ended(self, delivery: Delivery, how: Ending) -> None:
        lane = delivery.lane
        lane.finish(delivery)
        counts = lane.counts
        if how is Ending.DELIVERED:
            counts.delivered += 1
            lane.latencies.add(self._clock.now() * 1000 - delivery.record.timestamp)
        elif how is Ending.DEAD_LETTERED:
            counts.dead_lettered += 1
        elif how is Ending.KEPT:
            counts.kept += 1
        else:
            counts.dropped += 1
        self._moved(lane)

    def _waits(self, delivery: Delivery, seconds: float) -> None:
        self._timers.add(self._clock.monotonic() + seconds, delivery)
        delivery.lane.wait(delivery)
        self._moved(delivery.lane)

    def _found_event(self, delivery: Delivery) -> None:
        """A straggler from before this worker: its next attempt is when it would have been."""
        self._timers.add(self._clock.monotonic() + self._courier.time_left(delivery), delivery)

    def _moved(self, lane: Lane) -> None:
        """Something of the lane has ended: it may send more, or has come to rest."""
        if lane.at_rest:
            lane.settle()
            self._pulse.hurry()
        else:
            self._roster.touched.append(lane)

    # -- the end --------------------------------------------------------------------------------------------------

    def _consider_the_end(self, now: float) -> None:
        if self._phase is Phase.RUNNING and self.intake.ended:
            if self._spec.mode is Mode.LIVE:
                self._stop("input ended")
            elif not self._closing_range:
                self._closing_range = True
                self._reading.close_range(self._spec.ends.get(self._roster.partition, 0), self._range_closed)
        if self._phase is Phase.FINISHING and not self._more_to_do:
            self._stop("job done")
        if self._phase in (Phase.RUNNING, Phase.FINISHING) and now >= self._job_ends:
            self._linger()
        idle = not (self._client.unfinished or self._outbox.pending)
        if self._phase is Phase.LINGERING and (now >= self._stop_by or idle):
            self._stop("time is over")
        if self._phase is Phase.STOPPING and (now >= self._stop_by or idle):
            self._finish()

    @property
    def _more_to_do(self) -> bool:
        """Whether the lanes of a job have something left that they can do in its time."""
        if any(lane.unfinished for lane in self._roster.live()):
            return True
        if not self._spec.patient:
            return False
        due = self._timers.next_due
        waiting = due is not None and due < self._stop_by
        return waiting or any(lane.fetching or lane.in_flight for lane in self._roster.live())

    def _range_closed(self, whole: bool) -> None:
        """A job has had all its input; what is left of its time goes to what its lanes have still to do."""
        if not whole:
            self._stop("input cut off")
        elif self._phase is Phase.RUNNING:
            self._phase = Phase.FINISHING
            if not self._fed:
                self._set_job_end()
            self._stop_by = self._job_ends

    def _set_job_end(self) -> None:
        """The input has begun: a live worker goes on for as long as it lasts, a job until its time is over."""
        self._fed = True
        if self._spec.mode is Mode.CATCHUP:
            self._job_ends = self._clock.monotonic() + max(_LEAST_JOB, self._spec.due - self._clock.now())

    def _linger(self) -> None:
        """A job's time is over: no new attempt, but what is under way may end: broken off, it would be begun again by the next job."""
        self._phase = Phase.LINGERING
        self._stop_by = self._clock.monotonic() + self._spec.linger
        self.intake.discard()

    def _stop(self, why: str) -> None:
        """No new attempt from now on; what is under way may end within the grace."""
        if self._phase in (Phase.STOPPING, Phase.STOPPED):
            return
        self._phase = Phase.STOPPING
        self._why = why
        self._stop_by = self._clock.monotonic() + self._spec.grace
        self.intake.discard()

    def _finish(self) -> None:
        for exchange in self._client.poll():
            self._courier.ended(exchange)
        broken_off = self._client.active
        for lane in self._roster.lanes.values():
            for delivery in lane.active.values():
                if delivery.exchange is not None:
                    self._client.abort(delivery.exchange)
        self._pulse.write(all_of_them=True)
        written = self._control.flush(_LAST_WRITES)
        self._phase = Phase.STOPPED
        if self._spec.mode is Mode.CATCHUP:
            lanes = self._roster.lanes.values()
            self._final = [(lane.uid, self._roster.partition, self._scribe.record(lane).encode()) for lane in lanes]
        self._pulse.report(beat=True, goodbye=True)
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
            self._pulse.write(all_of_them=True)
            self._control.flush(_LAST_WRITES)
        except Exception:
            log.exception("The last progress of a worker could not be written", topic=self._spec.topic)
