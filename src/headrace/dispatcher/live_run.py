"""One run of one topic: from the query's start until its workers are gone.

    begin --> RUNNING --(planned end: drain, goodbyes or grace + 1 s, stop)--> over
                 |
                 +--(query failed, worker silent: stop, goodbyes or 2 s)-----> over

A run is one batch of Real-Time Mode at most: every end that is planned starts with a drain, so a worker whose input ends without one
knows that something broke.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.base.clock import Clock, Deadline
from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.core.heartbeat import WorkerReport
from headrace.dispatcher.config import Timing
from headrace.dispatcher.runs import Runs
from headrace.dispatcher.spec import LaneOrders, WorkerSpec
from headrace.dispatcher.tasks import task_function
from headrace.dispatcher.watch import Ear, Watch
from headrace.spark.live import LiveQuery
from headrace.spark.session import SparkRuntime
from headrace.spark.source import Source

log = get_logger(__name__)

_PLAN_SECONDS = 10.0
_ASK_SECONDS = 1.0
_RESERVE_SECONDS = 15.0
_POLL = 0.05


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run is to end. `planned`: with a drain first."""

    reason: str
    planned: bool
    message: str = ""


class LiveRun:
    """A started query and its workers. All methods but `take` belong to the topic's thread."""

    def __init__(self, spark: SparkRuntime, runs: Runs, timing: Timing, clock: Clock, spec: WorkerSpec) -> None:
        self._runs = runs
        self._timing = timing
        self._clock = clock
        self.spec = spec
        self.watch = Watch(spec.run, spec.workers, clock.monotonic(), timing.silence, timing.patience)
        self._due = clock.monotonic() + timing.batch
        self.partitions: tuple[int, ...] = ()
        self._planned_by = 0.0
        self._next_ask = 0.0
        source = Source(spec.topic, spec.kafka.spark(), group_prefix=spec.instance)
        self._query = LiveQuery(spark.session, source, Path(spark.settings.work))
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the query. Raises `Retriable`."""
        self._query.start(self.spec.starts, task_function(self.spec), self._timing.batch)
        self._planned_by = self._clock.monotonic() + _PLAN_SECONDS

    def take(self, report: WorkerReport) -> bool:
        """A worker's report, on the dataplane reader's thread; whether it is one of ours."""
        with self._lock:
            return self.watch.take(report, self._clock.monotonic())

    def learn_partitions(self) -> None:
        """Tell the workers which partition each serves, as soon as Spark has planned it; an idle one can't know otherwise.

        Without that nothing that was parked can be served, so it is asked for until it is known.
        """
        now = self._clock.monotonic()
        if self.partitions or now < self._next_ask:
            return
        partitions = self._query.partitions()
        if partitions:
            self._runs.order(LaneOrders(partitions=partitions))
            self.partitions = partitions
        elif now > self._planned_by:
            if not self._next_ask:
                log.warning("Spark has not told yet which task reads which partition", topic=self.spec.topic, run=self.spec.run)
            self._next_ask = now + _ASK_SECONDS

    @property
    def reports(self) -> dict[int, WorkerReport]:
        """The last report of each task that was heard."""
        with self._lock:
            return self.watch.reports

    def order(self, orders: LaneOrders) -> int:
        """Give the workers their orders; the offset of the record, which they report once they have read it."""
        return self._runs.order(orders)

    @property
    def complete(self) -> bool:
        """Whether every worker was heard."""
        with self._lock:
            return self.watch.complete

    @property
    def p99(self) -> float:
        """The highest p99 (milliseconds) of the lanes that are served live."""
        lanes = (lane for report in self.reports.values() for lane in report.lanes.values() if lane.state == "LIVE")
        return max((lane.p99_ms for lane in lanes), default=0.0)

    def ends_soon(self, now: float) -> bool:
        """Whether the batch is near its end, which the run must not see."""
        return now > self._due - min(_RESERVE_SECONDS, self._timing.batch / 4)

    def trouble(self, ear: Ear) -> Ending | None:
        """What went wrong by itself, if anything."""
        if not self._query.active:
            return Ending("QueryFailed", planned=False, message=self._query.failure or "the query ended")
        now = self._clock.monotonic()
        with self._lock:
            silent = self.watch.silent(now, ear)
            leaving = self.watch.goodbyes
        if silent:
            return Ending("WorkerSilent", planned=False, message=f"no heartbeat from tasks {', '.join(map(str, silent))}")
        if leaving:
            return Ending("WorkerLeft", planned=False, message=f"{leaving} workers left without being asked")
        return None

    def finish(self, ending: Ending) -> None:
        """Stop the query in the way that `ending` asks for; returns when its workers are gone, or late."""
        if ending.planned:
            self._drain(ending)
            self._query.stop()
        else:
            self._query.stop()
            self._await(lambda: self.watch.all_known_gone, self._timing.abort)
        log.info(
            "Run over",
            topic=self.spec.topic,
            run=self.spec.run,
            reason=ending.reason,
            message=ending.message,
            goodbyes=self.watch.goodbyes,
            workers=self.spec.workers,
        )

    def _drain(self, ending: Ending) -> None:
        try:
            self._runs.drain(self.spec.owner, ending.reason)
        except HeadraceError as error:
            log.warning("The drain was not written", topic=self.spec.topic, run=self.spec.run, error=str(error))
            return
        self._await(lambda: self.watch.all_gone, self._timing.grace + 1.0)

    def _await(self, gone: Callable[[], bool], seconds: float) -> None:
        deadline = Deadline(seconds, self._clock)
        pause = threading.Event()
        while not deadline.expired:
            with self._lock:
                if gone():
                    return
            pause.wait(_POLL)
