"""The catch-up jobs of one topic: which run, what they have learnt, when the next may start.

Two run side by side at most: one for the lanes that get on, one for those that are stuck, so that a subscriber that hangs costs
the others nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.base.errors import Retriable
from headrace.base.log import get_logger
from headrace.core.heartbeat import WorkerReport
from headrace.core.progress import ProgressRecord
from headrace.dispatcher.catchup_plan import JobPlan, Pace, Patience, Place, Waiting, plan_job
from headrace.dispatcher.gears import Throttle
from headrace.dispatcher.job_run import JobRun
from headrace.dispatcher.runs import Runs
from headrace.dispatcher.services import Services
from headrace.dispatcher.slots import InsufficientSlots
from headrace.dispatcher.spec import Mode, WorkerSpec
from headrace.spark.job import RangeJob
from headrace.spark.source import Source

log = get_logger(__name__)

ROWS = 2_000
"""Events per Arrow batch of a job, where their size allows."""


_SHORT_SECONDS = 30.0
"""Jobs of other topics may take all slots for so long."""


class Track(StrEnum):
    """`MAIN`: lanes that get on. `STUCK`: lanes whose last job left them short, and those that have only stragglers left."""

    MAIN = "main"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A job that is over. `records`: where its lanes stand; empty when it was lost."""

    track: Track
    plan: JobPlan
    records: Mapping[Place, ProgressRecord]


class Jobs:
    """`base`: the run's spec, which those of its jobs are made from; `wake`: called when something happened.

    Belongs to the topic's thread, but for `take` and `partitions_of`.
    """

    def __init__(self, services: Services, runs: Runs, base: WorkerSpec, wake: Callable[[], None]) -> None:
        self._services = services
        self._runs = runs
        self._base = base
        self._wake = wake
        self._seconds = services.config.timing.job
        self._pace = {track: Pace(self._seconds * 0.6) for track in Track}
        self._patience = Patience()
        self._running: dict[Track, JobRun] = {}
        self._served: dict[Place, float] = {}
        self._not_before = 0.0
        self._short_since = 0.0
        self.throttle = Throttle()
        self.lost_in_a_row = 0
        """How many jobs were lost since the last one that was not."""

    @property
    def running(self) -> list[JobRun]:
        """Jobs under way."""
        return list(self._running.values())

    @property
    def places(self) -> set[Place]:
        """What they serve."""
        return {place for job in self._running.values() for place in job.plan.places}

    def take(self, report: WorkerReport) -> bool:
        """A worker's report; whether it is one of these jobs'."""
        return any(job.take(report) for job in list(self._running.values()))

    def partitions_of(self, owner: str) -> tuple[int, ...]:
        """Kafka's partition of each task of a job; empty when it does not run."""
        return next((job.spec.partitions for job in list(self._running.values()) if job.spec.job == owner), ())

    def served(self, place: Place) -> float:
        """When the last job that served it ended; 0 for never."""
        return self._served.get(place, 0.0)

    def is_live(self, place: Place) -> None:
        """A live worker serves it again."""
        self._patience.got_through(place)
        self._served.pop(place, None)

    def poll(self) -> list[Outcome]:
        """Jobs that are over since the last call."""
        outcomes = []
        for track, job in list(self._running.items()):
            if job.poll():
                del self._running[track]
                self._services.slots.release(job.spec.job)
                outcomes.append(self._learn(track, job))
        return outcomes

    def next_plan(
        self, waiting: list[Waiting], ends: Mapping[int, int], slots: int, own_slots: Collection[Track] = tuple(Track)
    ) -> dict[Track, JobPlan]:
        """What may start now, by track, of the lanes in `waiting` (none of which a job serves already).

        `own_slots`: the tracks whose jobs need slots beside those of a query; there may be none.
        """
        now = self._services.clock.monotonic()
        slow = {one for one in waiting if one.retry is not None or self._patience.is_stuck(one.place)}
        wanted: dict[Track, list[Waiting]] = {}
        if Track.MAIN not in self._running and now >= self._not_before:
            wanted[Track.MAIN] = [one for one in waiting if one not in slow]
        if Track.STUCK not in self._running:
            wanted[Track.STUCK] = [one for one in slow if self._patience.may_try(one.place, now)]
        plans: dict[Track, JobPlan] = {}
        for track, some in wanted.items():
            room = min(slots, self._services.slots.free) if track in own_slots else slots
            plan = plan_job(some, ends, self._pace[track].size, max(1, room))
            if plan is not None and not room:
                self._short_since = self._short_since or now
            elif plan is not None:
                self._short_since = 0.0
                plans[track] = plan
        return plans

    @property
    def problem(self) -> str:
        """Why lanes that wait are not served, if that has lasted."""
        short = self._short_since and self._services.clock.monotonic() - self._short_since > _SHORT_SECONDS
        return "lanes that are behind wait for slots: none is free for a catch-up job" if short else ""

    def start(self, track: Track, plan: JobPlan, records: Mapping[Place, ProgressRecord], *, own_slots: bool) -> bool:
        """Start a job. `own_slots`: it needs slots beside those of a query. False when it could not be started this time."""
        name = self._runs.new_job()
        services = self._services
        try:
            if own_slots:
                services.slots.claim(name, len(plan.ranges), job=True)
            job = self._make(name, plan, records)
            job.start(self._wake)
        except InsufficientSlots:
            return False
        except Retriable as error:
            services.slots.release(name)
            log.warning("A catch-up job did not start", job=name, error=str(error))
            return False
        self._running[track] = job
        log.info("Catch-up job started", topic=job.spec.topic, job=name, track=track, ranges=dict(plan.ranges))
        return True

    def stop(self, reason: str) -> None:
        """Have all of them finish, as planned; `poll` until none is left."""
        for job in self._running.values():
            job.stop(reason)

    def abandon(self) -> None:
        """Give up what still runs."""
        for job in self._running.values():
            job.cancel()
            self._services.slots.release(job.spec.job)
        self._running.clear()

    def _make(self, name: str, plan: JobPlan, records: Mapping[Place, ProgressRecord]) -> JobRun:
        services, timing = self._services, self._services.config.timing
        base = self._base
        source = Source(base.topic, base.kafka.spark(), group_prefix=base.instance)
        range_job = RangeJob(services.spark.bulk_session(ROWS, self._arrow_bytes()), source, name, plan.ranges)
        partitions = range_job.partitions()
        positions: dict[str, dict[int, bytes]] = {}
        for uid, partition in sorted(plan.places):
            positions.setdefault(uid, {})[partition] = records[uid, partition].encode()
        most = base.limits.lane_in_flight
        spec = replace(
            base,
            mode=Mode.CATCHUP,
            job=name,
            workers=len(plan.ranges),
            partitions=partitions,
            starts={partition: start for partition, (start, _) in plan.ranges.items()},
            ends={partition: end for partition, (_, end) in plan.ranges.items()},
            positions=positions,
            due=services.clock.now() + self._seconds,
            patient=bool(plan.retries),
            limits=replace(base.limits, lane_in_flight=self.throttle.in_flight(most)),
        )
        return JobRun(range_job, spec, plan, self._runs, timing, services.clock, self._seconds)

    def _arrow_bytes(self) -> int:
        """Spark holds two batches per task: together less than a quarter of its heap."""
        tasks = max(1, self._services.slots.claimed)
        return max(64 * 1024, self._services.config.heap_bytes // 4 // 2 // tasks)

    def _learn(self, track: Track, job: JobRun) -> Outcome:
        now, seconds = self._services.clock.monotonic(), job.seconds
        records = job.records()
        done: dict[int, int] = {}
        for place in job.plan.places:
            self._served[place] = now
            start, end = job.plan.ranges[place[1]]
            record = records.get(place)
            if (
                record is None
                or record.progress.position < end
                or (place in job.plan.retries and not job.changed(record, place))
            ):
                self._patience.got_stuck(place, now)
            else:
                self._patience.got_through(place)
            if record is not None:
                done[place[1]] = max(done.get(place[1], 0), min(record.progress.position, end) - start)
        self.lost_in_a_row = self.lost_in_a_row + 1 if job.failure else 0
        if records and not job.plan.retries:
            self._pace[track].note(max(done.values(), default=0), seconds)
        if track is Track.MAIN:
            self._not_before = now + self.throttle.pause(seconds)
        log.info(
            "Catch-up job over",
            topic=job.spec.topic,
            job=job.spec.job,
            track=track,
            seconds=round(seconds, 2),
            events=sum(done.values()),
            failure=job.failure,
        )
        return Outcome(track, job.plan, records)
