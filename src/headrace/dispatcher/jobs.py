"""The catch-up jobs of one topic: which run, what they have learnt, when the next may start.

Three run side by side at most: one for the lanes that get on, one for those that are stuck, one for those that are slow, so that a
subscriber that hangs costs the others nothing, and one that takes its time is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.base.errors import Retriable
from headrace.base.log import get_logger
from headrace.core.delivery import DEFAULT_TIMEOUT_MS, RetryPolicy
from headrace.core.heartbeat import WorkerReport
from headrace.core.progress import Progress, ProgressRecord
from headrace.dispatcher.catchup_plan import (
    JobPlan,
    Pace,
    Patience,
    Place,
    Waiting,
    events_missing,
    events_read,
    is_blocked,
    left_behind,
    plan_job,
    retry_of,
)
from headrace.dispatcher.gears import Throttle
from headrace.dispatcher.job_run import JobRun
from headrace.dispatcher.runs import Runs
from headrace.dispatcher.selection import Lane
from headrace.dispatcher.services import Services
from headrace.dispatcher.slots import InsufficientSlots
from headrace.dispatcher.spec import Mode, WorkerSpec
from headrace.spark.job import RangeJob
from headrace.spark.source import Source

log = get_logger(__name__)

ROWS = 250
"""Events per Arrow batch of a job, where their size allows. With 2,000, what the tasks of a job read as it begins made Java's collector stop
everything, live events too, for 110 to 180 ms at a time; now it is about 17."""

_RING_EVENTS = 2_048
"""How far the fastest lane of a job may be ahead of its slowest. No lane joins a job, so nothing has to be kept for one."""

_SHORT_SECONDS = 30.0
"""Jobs of other topics may take all slots for so long."""


class Track(StrEnum):
    """`MAIN`: lanes that get on. `STUCK`: lanes that their last job left far behind, and those that have only stragglers left.

    `SLOW`: lanes whose requests take longer than a job for stuck ones.
    """

    MAIN = "main"
    STUCK = "stuck"
    SLOW = "slow"


_LENGTH = {Track.MAIN: 1.0, Track.STUCK: 0.6, Track.SLOW: 6.0}
"""How long jobs send, in times of `Timing.job`."""

_FILLED = 0.9
"""How much of that time a range should fill: what is left over at its end was read for nothing."""

_GUESS = {Track.MAIN: 8_000.0, Track.STUCK: 1_000.0, Track.SLOW: 1_000.0}
"""Events per second that a first job is taken to be good for."""

_FEW = 5_000
"""So many events that are missing are one job beside live lanes, however many partitions they are in."""

_LONGEST_STRETCH = 3
"""Without a live query beside it a job of one lane, or one after jobs that left none behind, may last so many times as long: each costs a
second."""

_LINGER = {Track.MAIN: 5.0, Track.STUCK: 30.0, Track.SLOW: DEFAULT_TIMEOUT_MS / 1000 + 5.0}
"""Seconds that requests under way are waited for at the end: broken off, they would be repeated, and never end."""

_SLOW_SHARE = 4
"""Jobs of slow lanes last long: they get one in so many of the slots that jobs may have."""


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
        self._pace = {track: Pace(_GUESS[track]) for track in Track}
        self._smooth = 0  # main jobs in a row that left no lane behind
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

    def waiting(
        self, records: Mapping[Place, ProgressRecord], ends: Mapping[int, int], lanes: Mapping[str, Lane]
    ) -> list[Waiting]:
        """These places, none of which is served now, as `next_plan` wants them."""
        now_ms = int(self._services.clock.now() * 1000)
        policies = {uid: RetryPolicy.of(lane.egress.egress_config) for uid, lane in lanes.items()}
        found = []
        for place, record in records.items():
            (uid, partition), progress = place, record.progress
            at_end = progress.position >= ends.get(partition, 0)
            retry = retry_of(progress, policies[uid], now_ms) if at_end else None
            blocked = is_blocked(progress, policies[uid], lanes[uid].egress.order, self._base.limits.stragglers, now_ms)
            found.append(Waiting(uid, partition, progress.position, self._served.get(place, 0.0), retry, blocked))
        return found

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
        wanted: dict[Track, list[Waiting]] = {track: [] for track in Track if track not in self._running}
        if now < self._not_before:
            wanted.pop(Track.MAIN, None)
        for one in waiting:
            track = self._track(one)
            if track in wanted and self._patience.may_try(one.place, now):
                wanted[track].append(one)
        plans: dict[Track, JobPlan] = {}
        for track, some in wanted.items():
            most = max(1, slots // _SLOW_SHARE) if track is Track.SLOW else slots
            if track is Track.MAIN and track in own_slots and events_missing(some, ends) > _FEW:
                most = min(most, self.throttle.width)
            room = min(most, self._services.slots.free) if track in own_slots else most
            seconds = self._seconds(track, {one.uid for one in some}, own_slots=track in own_slots)
            plan = plan_job(some, ends, self._pace[track].size(seconds * _FILLED), max(1, room))
            if plan is not None and not room:
                self._short_since = self._short_since or now
            elif plan is not None:
                self._short_since = 0.0
                plans[track] = plan
        return plans

    def _seconds(self, track: Track, uids: Collection[str], *, own_slots: bool) -> float:
        """How long a job of these lanes may send. A main one without slots of its own has those of the query: none is live beside it."""
        stretch = 1
        if track is Track.MAIN and not own_slots:
            stretch = _LONGEST_STRETCH if len(uids) == 1 else min(1 + self._smooth, _LONGEST_STRETCH)
        return self._services.config.timing.job * _LENGTH[track] * stretch

    def _track(self, one: Waiting) -> Track:
        if self._patience.is_slow(one.place):
            return Track.SLOW
        return Track.STUCK if one.retry is not None or self._patience.is_stuck(one.place) else Track.MAIN

    @property
    def problem(self) -> str:
        """Why lanes that wait are not served, if that has lasted."""
        short = self._short_since and self._services.clock.monotonic() - self._short_since > _SHORT_SECONDS
        return "lanes that are behind wait for slots: none is free for a catch-up job" if short else ""

    def start(
        self,
        track: Track,
        plan: JobPlan,
        records: Mapping[Place, ProgressRecord],
        *,
        own_slots: bool,
        at_once: int | None = None,
    ) -> bool:
        """Start a job. False when it could not be started this time.

        `own_slots`: it needs slots beside those of a query; `at_once`: how many of its tasks run at first, all if None.
        """
        name = self._runs.new_job()
        services = self._services
        try:
            if own_slots:
                services.slots.claim(name, len(plan.ranges), job=True)
            seconds = self._seconds(track, {uid for uid, _ in plan.places}, own_slots=own_slots)
            job = self._make(track, name, plan, records, seconds)
            job.start(self._wake, len(plan.ranges) if at_once is None else at_once)
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

    def has_turns(self, track: Track) -> bool:
        """Whether a job has tasks that wait for their turn."""
        return track in self._running and self._running[track].has_turns

    def more_at_once(self, track: Track, tasks: int) -> None:
        """Let so many more tasks of a job run at once."""
        if tasks and track in self._running:
            self._running[track].more(tasks)

    def _make(self, track: Track, name: str, plan: JobPlan, records: Mapping[Place, ProgressRecord], seconds: float) -> JobRun:
        services, timing = self._services, self._services.config.timing
        base = self._base
        source = Source(base.topic, base.kafka.spark(), group_prefix=base.instance)
        range_job = RangeJob(services.spark.bulk_session(ROWS, self._arrow_bytes()), source, name, plan.ranges)
        partitions = range_job.partitions()
        positions: dict[str, dict[int, bytes]] = {}
        for uid, partition in sorted(plan.places):
            positions.setdefault(uid, {})[partition] = records[uid, partition].encode()
        spec = replace(
            base,
            mode=Mode.CATCHUP,
            job=name,
            contract=services.contract().of_topic(base.topic),
            workers=len(plan.ranges),
            partitions=partitions,
            starts={partition: start for partition, (start, _) in plan.ranges.items()},
            ends={partition: end for partition, (_, end) in plan.ranges.items()},
            positions=positions,
            due=services.clock.now() + seconds,
            patient=bool(plan.retries),
            linger=_LINGER[track],
            limits=replace(base.limits, ring_events=min(base.limits.ring_events, _RING_EVENTS)),
        )
        return JobRun(range_job, spec, plan, self._runs, timing, services.clock, seconds)

    def _arrow_bytes(self) -> int:
        """Spark holds two batches per task: together less than a quarter of its heap."""
        tasks = max(1, self._services.slots.claimed)
        return max(64 * 1024, self._services.config.heap_bytes // 4 // 2 // tasks)

    def _learn(self, track: Track, job: JobRun) -> Outcome:
        now, seconds = self._services.clock.monotonic(), job.seconds
        records = {place: record for place, record in job.records().items() if place in job.plan.places}
        before = {place: job.before(place) for place in records}
        did = {place: max(0, record.progress.position - before[place].position) for place, record in records.items()}
        stuck = self._stuck(track, job.plan, records, before, did)
        for place in job.tried:
            self._served[place] = now
            record = records.get(place)
            if record is None:
                self._patience.got_stuck(place, now)
            elif place in stuck:
                self._patience.got_stuck(place, now, before[place], record.progress)
            else:
                self._patience.got_through(place)
        self.lost_in_a_row = self.lost_in_a_row + 1 if job.failure else 0
        events = events_read(did)
        if records and not job.plan.retries:
            self._pace[track].note(events, seconds)
        if track is Track.MAIN:
            self._smooth = self._smooth + 1 if not (stuck or job.failure) else 0
            self._not_before = now + self.throttle.pause(seconds)
            self.throttle.job_over(len(job.plan.ranges), self._pace[track].seen(events, seconds))
        log.info(
            "Catch-up job over",
            topic=job.spec.topic,
            job=job.spec.job,
            track=track,
            seconds=round(seconds, 2),
            events=sum(did.values()),
            stuck=len(stuck),
            failure=job.failure,
        )
        return Outcome(track, job.plan, records)

    @staticmethod
    def _stuck(
        track: Track,
        plan: JobPlan,
        records: Mapping[Place, ProgressRecord],
        before: Mapping[Place, Progress],
        did: Mapping[Place, int],
    ) -> frozenset[Place]:
        """The places that a job was of little use for. Those that were stuck already have to get through; the others to keep up."""
        idle = {place for place in plan.retries if place in records and records[place].progress == before[place]}
        short = {place for place, record in records.items() if record.progress.position < plan.ranges[place[1]][1]}
        return frozenset(idle | (left_behind(did, short) if track is Track.MAIN else short))
