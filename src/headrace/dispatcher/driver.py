"""The dispatcher's process: contract in, one `TopicRunner` per topic, positions mirrored, reports and metrics out.

It ends by itself only when going on would do harm or nothing: another driver took a topic over, the JVM is gone, a part of it failed in a
way that nobody foresaw. Whoever supervises it starts it again; the progress topic says where it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from headrace.base.clock import Clock, Deadline, SystemClock
from headrace.base.errors import HeadraceError, Retriable, Terminal
from headrace.base.log import get_logger
from headrace.core.contract import Egress, Resource
from headrace.core.contractlog import ContractState
from headrace.core.heartbeat import DriverReport, TopicReport, WorkerReport
from headrace.core.internaltopics import PARTITIONS, internal_topics
from headrace.core.names import Internal
from headrace.dispatcher.config import DispatcherConfig
from headrace.dispatcher.dataplane import Dataplane
from headrace.dispatcher.identities import Identities
from headrace.dispatcher.metrics import DriverMetrics, LaneLabels
from headrace.dispatcher.mirror import Mirror, Target
from headrace.dispatcher.openness import Openness
from headrace.dispatcher.progress_table import ProgressTable
from headrace.dispatcher.republish import Republisher
from headrace.dispatcher.selection import TopicPlan, select
from headrace.dispatcher.services import Admins, Services
from headrace.dispatcher.slots import SlotBook
from headrace.dispatcher.topic import TopicRunner
from headrace.http.ops import OpsServer
from headrace.kafka.contracts import FileContract, TopicContract
from headrace.spark.session import SparkRuntime
from headrace.spark.settings import SparkSettings
from headrace.spark.shipment import shipment

log = get_logger(__name__)

DAEMON = "headrace.dispatcher.daemon"

_TICK = 1.0
_GATHER_TICK = 0.2
_START_SECONDS = 60.0
_CURRENT_SECONDS = 30.0
_EXECUTORS_SECONDS = 120.0
"""Time for a cluster to find room for executors, and to fetch their image."""
_JVM_SECONDS = 2.0
"""A JVM that dies shows first as a failed call to it."""


class Driver:
    """Made by `build`; `run` blocks until `stop` is set or something failed, which it raises."""

    def __init__(self, config: DispatcherConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._changed = threading.Event()
        self._started = False
        self._gathering = ""
        self._stopping = False
        self._failure: BaseException | None = None
        self._runners: dict[str, TopicRunner] = {}
        self._plans: Mapping[str, TopicPlan] = {}
        self._openness = Openness(tokens=config.tokens is not None)
        self._identities = Identities(config.secrets, clock)
        names = Internal(config.instance)
        admins = Admins()
        self._contract = TopicContract(config.kafka, config.instance, self._changed.set, config.contract.topic)
        table = ProgressTable(config.kafka, names.progress, admins.of(config.kafka), self._moved)
        self._mirror = Mirror(table, admins, clock, config.mirror_rate)
        self._services = Services(
            config=config,
            clock=clock,
            names=names,
            spark=SparkRuntime(_spark_settings(config)),
            admins=admins,
            slots=SlotBook(0, config.job_slots),
            table=table,
            dataplane=Dataplane(config.kafka, names.dataplane, config.identity, clock, self._take, self._report),
            contract=lambda: self._contract.state,
            contract_now=self._contract_now,
            failed=self._fail,
        )
        self._republisher = Republisher(self._services, self._contract, self._select) if config.contract.file else None
        self._file = FileContract(config.contract.file, self._file_changed) if config.contract.file else None
        self._metrics = DriverMetrics(config.instance, self._labels, self._topic_reports)
        self._ops = OpsServer(
            self._metrics.registry(), self._missing, port=config.ops_port, host=config.ops_host, live=self._dead
        )

    @property
    def ops_port(self) -> int:
        """The port of the operations endpoint."""
        return self._ops.port

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set. Raises what made it impossible to go on."""
        try:
            self._start(stop)
            while not stop.is_set() and self._failure is None:
                self._changed.wait(_TICK)
                self._changed.clear()
                self._reconcile()
        except BaseException as error:
            self._fail(error)
        finally:
            self._stop()
        if self._failure is not None:
            raise self._failure

    # Start and stop

    def _start(self, stop: threading.Event) -> None:
        config, services = self._config, self._services
        self._ops.start()
        admin = services.admins.of(config.kafka)
        for topic in internal_topics(services.names):
            admin.create_topic(topic.name, PARTITIONS, config=topic.config)
        services.table.start()
        self._contract.start()
        services.dataplane.start()
        services.spark.start()
        self._gather(stop)
        services.slots.resize(services.spark.slots())
        self._contract.wait_ready(Deadline(_START_SECONDS, self._clock))
        services.table.wait_current(Deadline(_START_SECONDS, self._clock))
        self._mirror.start()
        if self._republisher is not None and self._file is not None:
            self._republisher.start()
            self._file.start()
        self._started = True
        log.info("Dispatcher started", instance=config.instance, slots=services.slots.total, ops_port=self.ops_port)

    def _gather(self, stop: threading.Event) -> None:
        """Wait for the executors in pods, so that partitions spread over all of them. Those that stay away are done without: topics that
        lack slots say so, and wait.
        """
        pods, spark = self._config.pods, self._services.spark
        if pods is None:
            return
        deadline = Deadline(_EXECUTORS_SECONDS, self._clock)
        while (there := spark.executors) < pods.count and not stop.is_set():
            if deadline.expired:
                log.warning("Going on without executors that did not come", wanted=pods.count, there=there)
                break
            self._gathering = f"{there} of {pods.count} executors have come"
            stop.wait(_GATHER_TICK)
        self._gathering = ""

    def _stop(self) -> None:
        """Steps in order, each whatever became of the one before: topics drain, what they wrote is mirrored, the rest lets go."""
        self._stopping = True
        services, deadline = self._services, Deadline(self._config.timing.stop, self._clock)
        steps: list[tuple[str, Callable[[], None]]] = [
            ("contract file", self._close_file),
            ("topics", lambda: self._close_topics(deadline)),
            ("mirror", self._mirror.close),
            ("reports", services.dataplane.close),
            ("Spark", lambda: services.spark.stop(max(2.0, deadline.remaining()))),
            ("progress", services.table.close),
            ("contract", self._contract.close),
            ("operations endpoint", self._ops.close),
        ]
        for name, step in steps:
            try:
                step()
            except Exception:
                log.exception("A step of stopping failed", step=name)
        log.info("Dispatcher stopped", instance=self._config.instance)

    def _close_file(self) -> None:
        if self._file is not None and self._republisher is not None:
            self._file.close()
            self._republisher.close()

    def _close_topics(self, deadline: Deadline) -> None:
        for runner in self._runners.values():
            runner.close()
        for topic, runner in self._runners.items():
            if not runner.join(deadline):
                log.warning("A topic did not stop in time", topic=topic)

    def _fail(self, error: BaseException) -> None:
        spark = self._services.spark
        if not isinstance(error, HeadraceError) and spark.pid > 0 and spark.gone(_JVM_SECONDS):
            error = self._jvm_gone()
        if self._failure is None:
            self._failure = error
            log.error("The dispatcher can't go on", error=str(error) or repr(error))
        self._changed.set()

    def _jvm_gone(self) -> Retriable:
        return Retriable("the JVM is gone", subject="Spark", hint=f"Look into {self._services.spark.settings.log}")

    def _contract_now(self) -> ContractState:
        end = self._services.admins.of(self._config.kafka).end_offsets(self._config.contract.topic)[0]
        if end > 0:
            self._contract.wait_applied(end - 1, Deadline(_CURRENT_SECONDS, self._clock))
        return self._contract.state

    # Contract to topics

    def _reconcile(self) -> None:
        services = self._services
        if not services.spark.alive:
            raise self._jvm_gone()
        services.slots.resize(services.spark.slots())
        contract = self._contract.state
        self._plans = self._select(contract.resources.values())
        for topic in list(self._runners):
            self._release(topic)
        for topic, plan in self._plans.items():
            runner = self._runners.get(topic)
            if runner is not None:
                runner.update(plan)
            elif plan.lanes and plan.settings is not None:
                self._runners[topic] = TopicRunner(services, plan, plan.settings)
                self._runners[topic].start()
        self._mirror.keep(self._targets(), contract.offset)

    def _release(self, topic: str) -> None:
        """End the runner of a topic that has no egress any more, or is to be reached in another way."""
        runner, plan = self._runners[topic], self._plans.get(topic)
        if plan is None or (plan.settings is not None and plan.settings != runner.settings):
            runner.close()
        if runner.closing and runner.ended:
            del self._runners[topic]
            self._metrics.forget(topic)

    def _select(self, resources: Iterable[Resource]) -> dict[str, TopicPlan]:
        config = self._config
        return select(resources, config.only, config.kafka, self._identities, self._closed_reason)

    def _closed_reason(self, resource: Resource, egress: Egress) -> str:
        return self._openness.reason(resource, egress)

    def _file_changed(self) -> None:
        if self._file is not None and self._republisher is not None:
            self._republisher.publish(self._file.contract)

    def _targets(self) -> dict[str, Target]:
        return {
            uid: Target(uid, lane.egress.consumer_group, topic, runner.topic_id, runner.settings)
            for topic, runner in self._runners.items()
            for uid, lane in runner.plan.lanes.items()
            if runner.topic_id and lane.egress.consumer_group
        }

    # Reports

    def _moved(self, uid: str, partition: int) -> None:
        self._mirror.moved(uid, partition)

    def _take(self, report: WorkerReport) -> None:
        runner = self._runners.get(report.topic)
        if runner is not None and runner.take(report):
            self._metrics.take(report, runner.partition_of(report))

    def _report(self) -> DriverReport:
        conditions: dict[str, dict[str, str]] = {uid: dict(why) for uid, why in self._mirror.conditions.items()}
        for runner in list(self._runners.values()):
            for uid, why in runner.conditions.items():
                conditions.setdefault(uid, {}).update(why)
        return DriverReport(
            instance=self._config.identity,
            at=int(self._clock.now() * 1000),
            contract_offset=self._mirror.applied,
            topics=self._topic_reports(),
            lanes=conditions,
            waiting={uid: events for runner in list(self._runners.values()) for uid, events in runner.waiting.items()},
            stopping=self._stopping,
        )

    def _topic_reports(self) -> dict[str, TopicReport]:
        reports = {topic: _unserved(plan) for topic, plan in self._plans.items()}
        for topic, runner in list(self._runners.items()):
            refused = reports.get(topic)
            if runner.report.state != "STOPPED" or refused is None or not refused.problem:
                reports[topic] = runner.report
        return reports

    def _labels(self) -> dict[str, LaneLabels]:
        return {
            uid: LaneLabels(
                lane.egress.reference.kind or lane.resource.reference.kind,
                lane.egress.reference.namespace or lane.resource.reference.namespace,
                lane.egress.reference.name or lane.resource.reference.name,
                lane.egress.consumer_group,
            )
            for plan in self._plans.values()
            for uid, lane in plan.lanes.items()
        }

    def _missing(self) -> list[str]:
        """What keeps this dispatcher from being ready."""
        missing = []
        if not self._started:
            missing.append(self._gathering or "Spark starts, and the contract is read to its end")
        if self._stopping:
            missing.append("it stops")
        if self._republisher is not None and not self._republisher.current:
            missing.append("the contract file was not republished yet")
        for topic, report in self._topic_reports().items():
            if report.state in ("STARTING", "FAILED"):
                missing.append(f"topic {topic}: {report.problem or 'its query starts'}")
        return missing

    def _dead(self) -> list[str]:
        return [str(self._failure)] if self._failure is not None else []


def _unserved(plan: TopicPlan) -> TopicReport:
    """What is said of a topic without a runner: all its egresses are refused."""
    reason = next(iter(plan.closed.values()), "")
    return TopicReport(state="STOPPED", problem="EgressClosed" if reason else "", message=reason)


def _spark_settings(config: DispatcherConfig) -> SparkSettings:
    settings = SparkSettings(
        java_home=config.java_home,
        connector=config.connector,
        work=config.work,
        log=config.logs / "spark.log",
        daemon=DAEMON,
        master=config.master,
        memory=config.memory,
        python=config.python,
        pods=config.pods,
        classes=config.classes,
        conf=config.spark_conf,
    )
    if settings.local_slots is not None or settings.pods is not None:
        return settings
    return replace(settings, archive=shipment(DAEMON, "headrace", config.work.parent / "executors"))


def build(config: DispatcherConfig, clock: Clock | None = None) -> Driver:
    """Everything a dispatcher consists of, not started."""
    return Driver(config, clock or SystemClock())


def run(config: DispatcherConfig, stop: threading.Event) -> None:
    """Run a dispatcher until `stop` is set (by a signal handler of the command). Raises `HeadraceError` when it can't go on."""
    try:
        build(config).run(stop)
    except HeadraceError:
        raise
    except Exception as error:
        raise Terminal(
            f"the dispatcher failed: {error!r}", subject="dispatcher", hint="This is a fault of ours: report it"
        ) from error
