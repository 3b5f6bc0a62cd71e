"""The two ways in which a topic is served, behind one face; `topic` decides which and until when."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Protocol

from headrace.base.clock import Deadline
from headrace.base.log import get_logger
from headrace.base.processors import IdleShare, processors
from headrace.core.contract import DeliveryOrder
from headrace.core.heartbeat import WorkerReport
from headrace.core.progress import ProgressRecord
from headrace.dispatcher.catchup import CatchUp
from headrace.dispatcher.catchup_plan import JobPlan, Place
from headrace.dispatcher.gears import Gathering, SpareTime, backlog
from headrace.dispatcher.jobs import Jobs, Track
from headrace.dispatcher.live_run import Ending, LiveRun
from headrace.dispatcher.preparation import Preparation, serving
from headrace.dispatcher.selection import Lane

log = get_logger(__name__)

_POLL = 0.05
_THROTTLE_SECONDS = 1.0
_LOOK_SECONDS = 0.2
_BESIDE = (Track.STUCK, Track.SLOW)
_PER_PROCESSOR = 2
"""So many tasks of a job in bulk gear run at first. Ten workers on two processors take each other's caches, and twice the memory, to do
no more than four."""

_SHARED = frozenset({"maxRate", "maxInFlight"})
"""Limits of a lane that are divided among the partitions of a job."""

_LOST_JOBS = 3
"""After so many in a row everything is looked at anew."""


class Server(Protocol):
    """Serves a topic from `begin` to `finish`. `state` as `TopicReport` has it, once it serves; `run` in force."""

    state: str
    run: str

    def begin(self) -> None:
        """Put a run in force. Raises `Retriable` (nothing was started) or `Fenced`."""

    def tick(self, lanes: Mapping[str, Lane]) -> Ending | None:
        """Move on with the open `lanes`; why it has to end by itself, if it has."""

    def finish(self, ending: Ending) -> None:
        """End; returns when the workers are gone, or late."""

    def take(self, report: WorkerReport) -> bool:
        """A worker's report, on another thread; whether it is one of ours."""

    def partition_of(self, report: WorkerReport) -> int | None:
        """The Kafka partition that its worker serves, when known."""

    def backlog(self) -> int:
        """Events between the best lane and the end."""

    @property
    def waiting(self) -> Mapping[str, int]:
        """Events that lanes miss, by uid, in partitions of which no worker tells."""

    @property
    def problem(self) -> str:
        """Why lanes that are behind have to wait, if they have to for long."""


class RealTime:
    """The streaming query, with catch-up jobs beside it."""

    def __init__(self, prepared: Preparation, wake: Callable[[], None]) -> None:
        self._prepared = prepared
        self._context = prepared.context
        self._wake = wake
        self._next_throttle = 0.0
        self.state = "STARTING"
        self.run = ""

    def begin(self) -> None:
        context, services = self._context, self._context.services
        self.run = context.runs.begin()
        spec = self._prepared.spec(self.run)
        self._live = LiveRun(services.spark, context.runs, services.config.timing, services.clock, spec)
        self._jobs = Jobs(services, context.runs, spec, self._wake)
        self._catchup = CatchUp(context, self._live, self._jobs)
        self._live.start()
        ends = dict(self._prepared.facts.ends)
        log.info("Run started", topic=context.topic, run=self.run, starts=dict(spec.starts), ends=ends)

    def tick(self, lanes: Mapping[str, Lane]) -> Ending | None:
        live, services = self._live, self._context.services
        live.learn_partitions()
        ending = live.trouble(services.dataplane.ear)
        if ending is not None:
            return ending
        now = services.clock.monotonic()
        if live.ends_soon(now):
            return Ending("BatchEnd", planned=True)
        if live.complete:
            self.state = "RUNNING"
            self._catchup.tick(serving(lanes))
            if now >= self._next_throttle:
                self._next_throttle = now + _THROTTLE_SECONDS
                self._jobs.throttle.note(live.p99, bool(self._jobs.running))
        return None

    def finish(self, ending: Ending) -> None:
        self._jobs.stop(ending.reason)
        self._live.finish(ending)
        _until_over(self._jobs, self._context.services.config.timing.grace + 2.0)

    def take(self, report: WorkerReport) -> bool:
        return self._live.take(report) or self._jobs.take(report)

    def partition_of(self, report: WorkerReport) -> int | None:
        partitions = self._live.partitions if report.run == self.run else self._jobs.partitions_of(report.run)
        return partitions[report.index] if report.index < len(partitions) else None

    def backlog(self) -> int:
        positions: dict[str, dict[int, int]] = {}
        for index, report in self._live.reports.items():
            if index < len(self._live.partitions):
                for uid, lane in report.lanes.items():
                    positions.setdefault(uid, {})[self._live.partitions[index]] = lane.position
        return backlog(positions.values(), self._context.admin.end_offsets(self._context.topic))

    @property
    def waiting(self) -> Mapping[str, int]:
        return {}  # live workers tell of lanes that are parked, too

    @property
    def problem(self) -> str:
        return self._jobs.problem


class Bulk:
    """Jobs in a row for all lanes together, no streaming query: half the cost per event, seconds of latency.

    `interval`: seconds between the starts of two jobs (0: as soon as there is something to do). `idle`: of the processors.
    """

    def __init__(
        self, prepared: Preparation, wake: Callable[[], None], interval: float = 0.0, idle: Callable[[], float] | None = None
    ) -> None:
        self._prepared = prepared
        self._context = prepared.context
        self._wake = wake
        self._interval = interval
        self._next = 0.0
        self._gathering = Gathering()
        self._spare = SpareTime(idle or IdleShare().since, _PER_PROCESSOR * processors())
        self._waiting: dict[str, int] = {}
        self._backlog = prepared.backlog
        self.state = "STARTING"
        self.run = ""

    def begin(self) -> None:
        context, services = self._context, self._context.services
        self.run = context.runs.begin()
        spec = self._prepared.spec(self.run)
        self._jobs = Jobs(services, context.runs, spec, self._wake)
        self._gathering.note({lane.uid for lane in self._prepared.positions}, services.clock.monotonic())
        self.state = "BULK"
        log.info("Bulk gear", topic=context.topic, run=self.run, backlog=self._backlog)

    def tick(self, lanes: Mapping[str, Lane]) -> Ending | None:
        over = self._jobs.poll()
        if self._jobs.lost_in_a_row >= _LOST_JOBS:
            return Ending("JobsFail", planned=False, message=f"{self._jobs.lost_in_a_row} jobs in a row were lost")
        now = self._now()
        self._jobs.more_at_once(Track.MAIN, self._spare.more(now, self._jobs.has_turns(Track.MAIN)))
        if now >= self._next or (over and not self._interval):
            self._next = now + (self._interval or _LOOK_SECONDS)
            if self._plan(serving(lanes)):
                self._next = now + _LOOK_SECONDS
        return None

    def _plan(self, lanes: Mapping[str, Lane]) -> bool:
        """Begin what may begin; whether a job has to wait a moment for lanes that are coming."""
        busy = self._jobs.places
        records, ends = self._context.located(lanes, self._prepared.facts.topic_id, busy)
        positions: dict[str, dict[int, int]] = {}
        for (uid, partition), record in records.items():
            positions.setdefault(uid, {})[partition] = record.progress.position
        self._backlog = backlog(positions.values(), ends)
        idle = {place: record for place, record in records.items() if place not in busy}
        waiting = self._jobs.waiting(idle, ends, lanes)
        slots = self._prepared.facts.partitions
        gathering, held_back = self._gathering.note(lanes.keys(), self._now()), False
        for track, plan in self._jobs.next_plan(waiting, ends, slots, own_slots=_BESIDE).items():
            beside = track in _BESIDE
            if gathering and not beside:
                held_back = True
                continue
            at_once = None if beside else self._at_once(plan, lanes)
            self._jobs.start(track, plan, records, own_slots=beside, at_once=at_once)
        if not self._interval:
            self._waiting = self._without_a_worker(records, ends)
        return held_back

    def _at_once(self, plan: JobPlan, lanes: Mapping[str, Lane]) -> int | None:
        """How many tasks of a job run at first; None: all, as on a cluster.

        Lanes in order need all, since each task has one request under way for them; and so do those with limits of their own, of which each
        task has its part.
        """
        egresses = [lanes[uid].egress for uid in {uid for uid, _ in plan.places}]
        if any(one.order is DeliveryOrder.ORDERED or one.headrace.keys() & _SHARED for one in egresses):
            return None
        return None if self._context.services.spark.executors else self._spare.job_starts(self._now())

    def _without_a_worker(self, records: Mapping[Place, ProgressRecord], ends: Mapping[int, int]) -> dict[str, int]:
        served = {place for job in self._jobs.running for place in job.under_way}
        waiting: dict[str, int] = defaultdict(int)
        for (uid, partition), record in records.items():
            if (uid, partition) not in served:
                waiting[uid] += max(0, ends.get(partition, 0) - record.progress.position)
        return dict(waiting)

    def _now(self) -> float:
        return self._context.services.clock.monotonic()

    def finish(self, ending: Ending) -> None:
        self._jobs.stop(ending.reason)
        _until_over(self._jobs, self._context.services.config.timing.grace + 2.0)
        log.info("Run over", topic=self._context.topic, run=self.run, reason=ending.reason)

    def take(self, report: WorkerReport) -> bool:
        return self._jobs.take(report)

    def partition_of(self, report: WorkerReport) -> int | None:
        partitions = self._jobs.partitions_of(report.run)
        return partitions[report.index] if report.index < len(partitions) else None

    def backlog(self) -> int:
        return self._backlog

    @property
    def waiting(self) -> Mapping[str, int]:
        return self._waiting

    @property
    def problem(self) -> str:
        return self._jobs.problem


def _until_over(jobs: Jobs, seconds: float) -> None:
    """Wait until no job is left; what is left at the end is given up."""
    deadline = Deadline(seconds)
    pause = threading.Event()
    while jobs.running and not deadline.expired:
        jobs.poll()
        pause.wait(_POLL)
    jobs.abandon()
