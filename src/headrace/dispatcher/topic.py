"""One topic at the driver: a thread that keeps the topic served while somebody subscribes to it.

STOPPED --(a lane opens)--> STARTING --> RUNNING or BULK --(planned end)--> DRAINING --> STARTING or STOPPED
                               |            | |            +--(query failed, worker silent or gone)--> FAILED --(0, 1, 2, 4
                               .. s)--> STARTING +--(topic missing, slots short, Kafka away)----------> STARTING, with a
                               problem, tried again
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Retriable
from headrace.base.log import get_logger
from headrace.core.heartbeat import TopicReport, WorkerReport
from headrace.dispatcher.gears import Gear, GearBox
from headrace.dispatcher.live_run import Ending
from headrace.dispatcher.positions import LogFacts
from headrace.dispatcher.preparation import TopicContext, prepare, serving
from headrace.dispatcher.runs import Runs
from headrace.dispatcher.selection import TopicPlan
from headrace.dispatcher.services import Services
from headrace.dispatcher.serving import Bulk, RealTime, Server
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table import Fenced

log = get_logger(__name__)

_TICK = 0.1
_HEALTHY_SECONDS = 60.0
_GEAR_SECONDS = 2.0
_SPREAD_SECONDS = 30.0
"""A run lasts so long at least before it ends for executors that have come: they come one by one, and one may die again and again."""
_HOPELESS_SECONDS = 15.0


class TopicRunner:
    """Serves `topic` from `start` to `close`; `update` gives it the lanes, `take` the reports of its workers."""

    def __init__(self, services: Services, plan: TopicPlan, settings: KafkaSettings) -> None:
        config = services.config
        self._services = services
        self._plan = plan
        self._topic = plan.topic
        self._settings = settings
        self._runs = Runs(config.kafka, config.contract.topic, services.names, plan.topic, services.clock)
        self._context = TopicContext(services, plan.topic, settings, services.admins.of(settings), self._runs)
        self._gears = GearBox(
            rate=config.real_time_rate,
            gear=Gear.BULK if config.batch_interval else Gear.REAL_TIME,
            fixed=config.batch_interval > 0,
            least=config.timing.bulk,
        )
        self._bell = threading.Event()
        self._closing = False
        self._took_over = False
        self._server: Server | None = None
        self._facts: LogFacts | None = None
        self._report = TopicReport(state="STOPPED")
        self._failures = 0
        self._told = ""
        self._next_look = 0.0
        self._next_gear = 0.0
        self._growths = 0
        self._began = 0.0
        self._thread = threading.Thread(target=self._run, name=f"topic {plan.topic}", daemon=True)

    # What the driver sees

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def update(self, plan: TopicPlan) -> None:
        """The contract changed. Lanes come and go without a restart: the workers read the contract themselves."""
        self._plan = plan
        self._bell.set()

    def take(self, report: WorkerReport) -> bool:
        """A worker's report; whether it was one of the run in force."""
        server = self._server
        return server is not None and server.take(report)

    def partition_of(self, report: WorkerReport) -> int | None:
        """The Kafka partition of the worker that reports, when it is known."""
        server = self._server
        return server.partition_of(report) if server is not None else None

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
    def waiting(self) -> Mapping[str, int]:
        """Events that lanes miss, by uid, in partitions of which no worker tells."""
        server = self._server
        return server.waiting if server is not None else {}

    @property
    def conditions(self) -> dict[str, dict[str, str]]:
        """Lane uid -> condition -> message, for what happened to lanes' positions."""
        return self._context.notices.of(self._plan.lanes)

    def close(self) -> None:
        """Have it drain and end; `join` waits for that."""
        self._closing = True
        self._bell.set()

    @property
    def closing(self) -> bool:
        """Whether it was told to end."""
        return self._closing

    @property
    def ended(self) -> bool:
        """Whether its thread has ended."""
        return not self._thread.is_alive()

    def join(self, deadline: Deadline) -> bool:
        """Wait for the end; False at the deadline."""
        self._thread.join(deadline.remaining())
        return not self._thread.is_alive()

    # The thread

    def _run(self) -> None:
        try:
            while not self._closing:
                if serving(self._plan.lanes):
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
        self._say("STARTING", self._report.problem, self._report.message)
        try:
            server = self._begin()
        except Fenced:
            raise
        except HeadraceError as error:
            self._server = None
            self._services.slots.release(self._topic)
            self._troubled(type(error).__name__, error)
            self._pause(error.after if isinstance(error, Retriable) else _HOPELESS_SECONDS)
            return
        began = self._now()
        ending = self._watch(server)
        if ending.planned:
            self._say("DRAINING", message=ending.reason)
        else:
            self._say("FAILED", problem=ending.reason, message=ending.message)
            log.warning("Run failed", topic=self._topic, run=server.run, reason=ending.reason, message=ending.message)
        server.finish(ending)
        self._server = None
        self._services.slots.release(self._topic)
        if not ending.planned:
            self._failed(self._now() - began)

    def _begin(self) -> Server:
        if not self._took_over:
            self._runs.take_over(self._services.contract_now)
            self._took_over = True
        self._growths = self._services.slots.growths
        self._began = self._now()
        prepared = prepare(self._context, self._plan)
        self._facts = prepared.facts
        self._gears.take(self._gears.wants(prepared.backlog, self._now()), self._now())
        server: Server
        if self._gears.gear is Gear.BULK:
            server = Bulk(prepared, self._bell.set, self._services.config.batch_interval)
        else:
            server = RealTime(prepared, self._bell.set)
        server.begin()
        self._server = server
        self._next_look = self._now() + self._services.config.timing.describe
        self._next_gear = self._now() + _GEAR_SECONDS
        return server

    def _watch(self, server: Server) -> Ending:
        """Wait until the run has to end."""
        while True:
            self._runs.check(self._services.contract().runs)
            ending = self._planned(server) or self._tick(server)
            if ending is not None:
                return ending
            self._say(server.state, "InsufficientSlots" if server.problem else "", server.problem)
            self._pause(_TICK)

    def _tick(self, server: Server) -> Ending | None:
        """Let the server move on. A Kafka that is away, or refuses, does not end a run: what runs goes on, and is tried again."""
        try:
            ending = server.tick(self._plan.lanes)
        except Fenced:
            raise
        except HeadraceError as error:
            if str(error) != self._told:
                log.warning("Something has to wait", topic=self._topic, error=str(error))
            self._told = str(error)
            return None
        self._told = ""
        return ending

    def _planned(self, server: Server) -> Ending | None:
        if self._closing:
            return Ending("Stopping", planned=True)
        if not serving(self._plan.lanes):
            return Ending("NoSubscribers", planned=True)
        if self._services.slots.overdrawn(self._topic):
            return Ending("InsufficientSlots", planned=True, message="executors are gone")
        now = self._now()
        if now >= self._next_look:
            self._next_look = now + self._services.config.timing.describe
            return self._topic_changed()
        if now >= self._next_gear and server.state != "STARTING":
            self._next_gear = now + _GEAR_SECONDS
            return self._executors_came() or self._gear_changed(server)
        return None

    def _topic_changed(self) -> Ending | None:
        """Whether the topic is no longer what the run was started for. A Kafka that does not answer is no news."""
        try:
            facts = self._context.admin.describe(self._topic)
        except HeadraceError:
            return None
        if facts is None:
            return Ending("TopicDeleted", planned=True)
        if facts.topic_id != self.topic_id:
            return Ending("TopicMadeAnew", planned=True)
        if self._facts is not None and facts.partitions != self._facts.partitions:
            return Ending("PartitionsAdded", planned=True)
        return None

    def _executors_came(self) -> Ending | None:
        """Whether a live query could spread over more executors: Spark moves none of its tasks by itself. A job is soon over anyway."""
        if self._gears.gear is Gear.BULK or self._services.slots.growths == self._growths:
            return None
        if self._now() - self._began < _SPREAD_SECONDS:
            return None
        return Ending("ExecutorsCame", planned=True)

    def _gear_changed(self, server: Server) -> Ending | None:
        try:
            wanted = self._gears.wants(server.backlog(), self._now())
        except HeadraceError:
            return None
        return None if wanted is self._gears.gear else Ending("GearChange", planned=True, message=f"to {wanted}")

    def _failed(self, lasted: float) -> None:
        self._failures = 1 if lasted > _HEALTHY_SECONDS else self._failures + 1
        self._report = replace(self._report, restarts=self._report.restarts + 1)
        if self._failures > 1:
            self._pause(min(2.0 ** (self._failures - 2), self._services.config.timing.backoff_max))

    def _troubled(self, problem: str, error: HeadraceError) -> None:
        if self._report.problem != problem or self._report.message != str(error):
            log.warning("A topic can't be served at the moment", topic=self._topic, problem=problem, error=str(error))
        self._say("STARTING", problem=problem, message=str(error))

    def _say(self, state: str, problem: str = "", message: str = "") -> None:
        report = TopicReport(self._runs.run, state, problem, message, self._report.restarts)
        if report != self._report:
            self._report = report
            self._services.dataplane.beat()

    def _now(self) -> float:
        return self._services.clock.monotonic()

    def _pause(self, seconds: float) -> None:
        self._bell.wait(seconds)
        self._bell.clear()
