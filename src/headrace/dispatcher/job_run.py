"""One catch-up job: from its start until its workers are gone.

RUNNING --(Spark says it is done)--------------------------------------> OVER, with a row per lane of tasks that began
   |
   +--(failed, or later than its time allows: drain, cancel)--> LEAVING --(goodbyes, or 2 s)--> OVER, its range still missing
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from enum import Enum

from headrace.base.clock import Clock
from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.core.heartbeat import WorkerReport
from headrace.core.progress import Progress, ProgressRecord
from headrace.dispatcher.catchup_plan import JobPlan, Place
from headrace.dispatcher.config import Timing
from headrace.dispatcher.runs import Runs
from headrace.dispatcher.spec import WorkerSpec, parse_catchup_row
from headrace.dispatcher.tasks import task_function
from headrace.dispatcher.watch import Watch
from headrace.spark.job import RangeJob

log = get_logger(__name__)

_SLACK_SECONDS = 15.0
"""What starting and ending a job may take beyond the time its workers may send."""


class Phase(Enum):
    """See the picture."""

    RUNNING = 0
    LEAVING = 1
    OVER = 2


class JobRun:
    """A job that was started. `seconds`: how long its workers may send. Belongs to the topic's thread, but for `take`."""

    def __init__(
        self,
        job: RangeJob,
        spec: WorkerSpec,
        plan: JobPlan,
        runs: Runs,
        timing: Timing,
        clock: Clock,
        seconds: float,
    ) -> None:
        self._job = job
        self._runs = runs
        self._timing = timing
        self._clock = clock
        self.spec = spec
        self.plan = plan
        self.began = clock.monotonic()
        self._begin_by = self.began + seconds
        self._end_by = self.began + seconds + spec.linger + timing.grace + _SLACK_SECONDS
        self._watch = Watch(spec.owner, spec.workers, self.began, timing.silence, timing.patience)
        self._lock = threading.Lock()
        self.phase = Phase.RUNNING
        self.failure = ""

    def start(self, on_done: Callable[[], None], at_once: int) -> None:
        """Start it with so many tasks at once; `on_done` is called, on another thread, when Spark is through with it."""
        self._job.start(task_function(self.spec), on_done, at_once)

    def more(self, tasks: int) -> None:
        """Let so many more of its tasks run at once."""
        self._job.more(tasks)

    def take(self, report: WorkerReport) -> bool:
        """A worker's report; whether it is one of ours."""
        with self._lock:
            return self._watch.take(report, self._clock.monotonic())

    def poll(self) -> bool:
        """Move on; whether it is over."""
        now = self._clock.monotonic()
        if self.phase is Phase.RUNNING:
            if now > self._begin_by and self._job.begun:
                self._job.begin_no_more()
            if self._job.done and not self._job.failure:
                self.phase = Phase.OVER
            elif self._job.done:
                self._leave(self._job.failure)
            elif now > self._end_by:
                self._leave("it did not end in time")
        elif self.phase is Phase.LEAVING:
            under_way = bool(self._job.under_way)
            if under_way:
                self._job.cancel()
            with self._lock:
                gone = self._watch.all_known_gone
            if (gone and not under_way) or now > self._end_by:
                self.phase = Phase.OVER
        return self.phase is Phase.OVER

    def stop(self, reason: str) -> None:
        """Have its workers finish what is in flight and end, as planned; `poll` tells when they have."""
        if self.phase is Phase.RUNNING:
            self._end_by = self._clock.monotonic() + self._timing.grace + 1.0
            self._job.begin_no_more()
            self._drain(reason)

    @property
    def under_way(self) -> frozenset[Place]:
        """The places that a task works on now."""
        return self._of(self._job.under_way)

    @property
    def has_turns(self) -> bool:
        """Whether tasks of it wait for their turn."""
        return len(self._job.begun) < len(self.plan.ranges)

    @property
    def tried(self) -> frozenset[Place]:
        """The places of which a task has begun."""
        return self._of(self._job.begun)

    def _of(self, partitions: Collection[int]) -> frozenset[Place]:
        return frozenset(place for place in self.plan.places if place[1] in partitions)

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return self._clock.monotonic() - self.began

    def records(self) -> Mapping[Place, ProgressRecord]:
        """Where its lanes stand, as far as it told; nothing after a failure."""
        if self.failure:
            return {}
        rows = [parse_catchup_row(row) for row in self._job.rows]
        return {(uid, partition): ProgressRecord.decode(record) for uid, partition, record in rows}

    def before(self, place: Place) -> Progress:
        """Where a lane stood at its start."""
        uid, partition = place
        return ProgressRecord.decode(self.spec.positions[uid][partition]).progress

    def cancel(self) -> None:
        """Have Spark give it up."""
        self._job.cancel()

    def _leave(self, failure: str) -> None:
        self.failure = failure
        self.phase = Phase.LEAVING
        self._end_by = self._clock.monotonic() + self._timing.abort
        log.warning("A catch-up job is lost", topic=self.spec.topic, job=self.spec.job, reason=failure)
        self._drain("JobLost")
        self._job.cancel()

    def _drain(self, reason: str) -> None:
        try:
            self._runs.drain(self.spec.owner, reason)
        except HeadraceError as error:
            log.warning("The drain was not written", topic=self.spec.topic, job=self.spec.job, error=str(error))
