"""One topic at the driver: a thread that keeps the topic's query running while somebody subscribes to it.

STOPPED --(a lane opens)--> STARTING --> RUNNING --(planned end)--> DRAINING --> STARTING or STOPPED
                               |            |
                               |            +--(query failed, worker silent or gone)--> FAILED --(0, 1, 2, 4 .. s)--> STARTING
                               +--(topic missing, slots short, Kafka away)----------> STARTING, with a problem, tried again
"""

from __future__ import annotations

import threading
from dataclasses import replace

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Retriable
from headrace.base.log import get_logger
from headrace.core.heartbeat import TopicReport, WorkerReport
from headrace.dispatcher.lanes import Lanes, log_facts
from headrace.dispatcher.live_run import Ending, LiveRun
from headrace.dispatcher.positions import LogFacts, start_offsets
from headrace.dispatcher.runs import Runs
from headrace.dispatcher.selection import TopicPlan
from headrace.dispatcher.services import Services
from headrace.dispatcher.spec import Limits, WorkerSpec
from headrace.kafka.settings import KafkaSettings

log = get_logger(__name__)

_TICK = 0.1
_CURRENT_SECONDS = 30.0
_HEALTHY_SECONDS = 60.0
_RESERVE_SECONDS = 15.0


class TopicRunner:
    """Serves `topic` from `start` to `close`; `update` gives it the lanes, `take` the reports of its workers."""

    def __init__(self, services: Services, plan: TopicPlan, settings: KafkaSettings) -> None:
        self._services = services
        self._plan = plan
        self._topic = plan.topic
        self._settings = settings
        config = services.config
        self._admin = services.admins.of(settings)
        self._lanes = Lanes(self._admin, services.table, services.clock)
        self._runs = Runs(config.kafka, config.contract.topic, services.names, plan.topic, services.clock)
        self._bell = threading.Event()
        self._closing = False
        self._live: LiveRun | None = None
        self._report = TopicReport(state="STOPPED")
        self._conditions: dict[str, dict[str, str]] = {}
        self._failures = 0
        self._described = 0.0
        self._facts: LogFacts | None = None
        self._thread = threading.Thread(target=self._run, name=f"topic {plan.topic}", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def update(self, plan: TopicPlan) -> None:
        """The contract changed. Lanes come and go without a restart: the workers read the contract themselves."""
        self._plan = plan
        self._bell.set()

    def take(self, report: WorkerReport) -> bool:
        """A worker's report; whether it was one of the run in force."""
        live = self._live
        return live is not None and live.take(report)

    def partition_of(self, index: int) -> int | None:
        """The Kafka partition of a task of the run in force, when it is known."""
        live = self._live
        return live.partitions[index] if live is not None and index < len(live.partitions) else None

    @property
    def plan(self) -> TopicPlan:
        """The lanes as last told."""
        return self._plan

    @property
    def settings(self) -> KafkaSettings:
        """The Kafka of the topic."""
        return self._settings

    @property
    def topic_id(self) -> str:
        """The topic's id as of the last start; empty before."""
        return self._facts.topic_id if self._facts is not None else ""

    @property
    def report(self) -> TopicReport:
        """How it stands with the topic."""
        return self._report

    @property
    def conditions(self) -> dict[str, dict[str, str]]:
        """Lane uid -> condition -> message, for what happened to lanes' positions when the run began."""
        return dict(self._conditions)

    def close(self) -> None:
        """Have it drain and end; `join` waits for that."""
        self._closing = True
        self._bell.set()

    def join(self, deadline: Deadline) -> bool:
        """Wait for the end; False at the deadline."""
        self._thread.join(deadline.remaining())
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._runs.take_over(self._services.drains())
            while not self._closing:
                if self._plan.lanes:
                    self._serve()
                else:
                    self._say("STOPPED")
                    self._pause(1.0)
        except BaseException as error:
            self._services.failed(error)
        finally:
            self._say("STOPPED")
            self._services.slots.release(self._topic)
            self._runs.close()

    def _serve(self) -> None:
        """One run, from its preparation to its end."""
        self._say("STARTING")
        try:
            live = self._begin()
        except Retriable as error:
            self._troubled(type(error).__name__, error)
            self._pause(error.after)
            return
        began = self._services.clock.monotonic()
        ending = self._watch(live)
        self._say("DRAINING" if ending.planned else "FAILED", problem=ending.reason, message=ending.message)
        if not ending.planned:
            log.warning("Run failed", topic=self._topic, run=live.spec.run, reason=ending.reason, message=ending.message)
        live.finish(ending)
        self._live = None
        if ending.planned:
            return
        self._failures = 1 if self._services.clock.monotonic() - began > _HEALTHY_SECONDS else self._failures + 1
        self._report = replace(self._report, restarts=self._report.restarts + 1)
        if self._failures > 1:
            self._pause(min(2.0 ** (self._failures - 2), self._services.config.timing.backoff_max))

    def _begin(self) -> LiveRun:
        services, config = self._services, self._services.config
        facts = log_facts(self._admin, self._topic)
        services.slots.claim(self._topic, facts.partitions)
        services.table.wait_current(Deadline(_CURRENT_SECONDS, services.clock))
        lanes = list(self._plan.lanes.values())
        positions = self._lanes.locate(self._topic, facts, lanes)
        self._conditions = {lane.uid: dict(lane.problems) for lane in positions if lane.problems}
        starts = start_offsets(positions, facts)
        spec = WorkerSpec(
            instance=config.instance,
            topic=self._topic,
            topic_id=facts.topic_id,
            kafka=self._settings,
            control=config.kafka,
            run=self._runs.begin(services.runs_in_force().get(self._topic, "")),
            workers=facts.partitions,
            starts=starts,
            positions={lane.uid: {p: record.encode() for p, record in lane.records.items()} for lane in positions},
            grace=config.timing.grace,
            due=services.clock.now() + config.timing.batch,
            limits=self._limits(),
            offset_extensions=config.offset_extensions,
            hop_limit=config.hop_limit,
            contract_topic=config.contract.topic,
            log_json=config.log_json,
            log_level=config.log_level,
        )
        live = LiveRun(services.spark, self._runs, config.timing, services.clock, spec)
        self._live = live
        try:
            live.start()
        except Retriable:
            self._live = None
            raise
        self._facts = facts
        log.info("Run started", topic=self._topic, run=spec.run, starts=starts, ends=facts.ends, lanes=len(lanes))
        return live

    def _watch(self, live: LiveRun) -> Ending:
        """Wait until the run has to end."""
        self._described = self._services.clock.monotonic()
        while True:
            live.learn_partitions()
            self._runs.check(self._services.runs_in_force())
            ending = self._planned(live) or live.trouble(self._services.dataplane.ear)
            if ending is not None:
                return ending
            if live.watch.complete and self._report.state != "RUNNING":
                self._say("RUNNING", run=live.spec.run)
            self._pause(_TICK)

    def _planned(self, live: LiveRun) -> Ending | None:
        if self._closing:
            return Ending("Stopping", planned=True)
        if not self._plan.lanes:
            return Ending("NoSubscribers", planned=True)
        now = self._services.clock.monotonic()
        if now > live.due - min(_RESERVE_SECONDS, self._services.config.timing.batch / 4):
            return Ending("BatchEnd", planned=True)
        if now - self._described < self._services.config.timing.describe:
            return None
        self._described = now
        return self._changed()

    def _changed(self) -> Ending | None:
        """Whether the topic is no longer what the run was started for. A Kafka that does not answer is no news."""
        try:
            facts = self._admin.describe(self._topic)
        except HeadraceError:
            return None
        if facts is None:
            return Ending("TopicDeleted", planned=True)
        if facts.topic_id != self.topic_id:
            return Ending("TopicMadeAnew", planned=True)
        if self._facts is not None and facts.partitions != self._facts.partitions:
            return Ending("PartitionsAdded", planned=True)
        return None

    def _limits(self) -> Limits:
        """The dispatcher's budget, divided among all workers that run."""
        limits = self._services.config.limits
        share = self._services.config.budget // max(1, self._services.slots.claimed)
        budget = min(limits.budget_bytes, max(share, 2 * limits.response_bytes))
        return replace(limits, budget_bytes=budget, ring_bytes=min(limits.ring_bytes, budget // 3))

    def _troubled(self, problem: str, error: HeadraceError) -> None:
        if self._report.problem != problem or self._report.message != str(error):
            log.warning("A topic can't be served at the moment", topic=self._topic, problem=problem, error=str(error))
        self._say("STARTING", problem=problem, message=str(error))

    def _say(self, state: str, run: str = "", problem: str = "", message: str = "") -> None:
        self._report = TopicReport(run or self._runs.run, state, problem, message, self._report.restarts)
        self._services.dataplane.beat()

    def _pause(self, seconds: float) -> None:
        self._bell.wait(seconds)
        self._bell.clear()
