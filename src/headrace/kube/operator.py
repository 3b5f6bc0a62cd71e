"""The operator: webhooks at once, decisions while it leads.

Start: 1. metrics and health  2. webhooks and their certificate  3. wait for the lease  4. wait for Kafka, make the internal topics, fence
an older writer of positions  5. read Kafka's tables and the cluster's objects to their end  6. reconcile. Stop: the same backwards; the
lease is given up last. A lost lease ends the process: what it knew may be old by then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from prometheus_client import CollectorRegistry, Counter, Gauge

from headrace.base.clock import Clock, Deadline, SystemClock
from headrace.base.errors import HeadraceError, Retriable, Terminal
from headrace.base.log import get_logger
from headrace.control.model import ObjectKey
from headrace.core.internaltopics import PARTITIONS, internal_topics
from headrace.core.names import Internal
from headrace.core.resources.rules import Rules
from headrace.home.actions import Actions
from headrace.home.connections import Connections
from headrace.home.loop import ControlLoop, World
from headrace.home.tables import ContractTable, PositionTable, ReportTable
from headrace.home.topicwatch import TopicWatch
from headrace.http.ops import OpsServer
from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table import TableReader, TableWriter
from headrace.kube import labels
from headrace.kube.api import Api
from headrace.kube.contractmaps import ContractMaps
from headrace.kube.corefeatures import CoreFeatures
from headrace.kube.lease import LeaderElection
from headrace.kube.mirror import Mirror, Mirrors
from headrace.kube.objects import KubeObjects
from headrace.kube.places import CONFIG_MAP, DEPLOYMENT, DISRUPTION_BUDGET, OURS, SECRET, SERVICE, Places
from headrace.kube.settings import OperatorSettings
from headrace.kube.upkeep import Upkeep
from headrace.kube.webhooks import CertificateKeeper, WebhookServer
from headrace.kube.world import KubeWorld, Tables

log = get_logger(__name__)
LEASE_NAME = "headrace-controller"
CORE_CONTROLLER = "system:serviceaccount:{namespace}:eventing-controller"
_SYNC_SECONDS = 120.0
_PAUSE_SECONDS = 1.0
_NOT_HELM = {"fieldSelector": "type!=helm.sh/release.v1"}


class Operator:
    """`run` serves until `stop` is set."""

    def __init__(self, api: Api, kafka: KafkaSettings, settings: OperatorSettings, clock: Clock | None = None) -> None:
        self._api = api
        self._kafka = kafka
        self._settings = settings
        self._clock = clock or SystemClock()
        self._names = Internal(settings.home.instance)
        self._over = threading.Event()
        self._failure: HeadraceError | None = None
        self._waiting_for: list[str] = []
        self._loop: ControlLoop | None = None
        registry = CollectorRegistry()
        self._leading = Gauge("headrace_operator_leading", "Whether this operator leads", registry=registry)
        self._rounds = Counter("headrace_operator_rounds", "Rounds of the control loop", registry=registry)
        self._features = CoreFeatures(api, settings.namespace, settings.home.features, self._changed)
        self._webhooks = WebhookServer(settings.webhook, self._rules)
        self._keeper = CertificateKeeper(api, settings.namespace, settings.webhook, self._clock, self._webhooks.use)
        self.ops = OpsServer(registry, self._missing, port=settings.ops_port, host=settings.ops_host)
        self._election = LeaderElection(
            api, settings.namespace, LEASE_NAME, settings.identity, self._clock, lambda: self._end("the lease is lost")
        )

    def run(self, stop: threading.Event) -> None:
        """Raises `Terminal` when the lease was lost, or another operator took over the positions."""
        threading.Thread(target=self._relay, args=(stop,), name="stop", daemon=True).start()
        with ExitStack() as undo:
            self._step(undo, self.ops.start, self.ops.close)
            self._step(undo, self._features.start, self._features.close)
            self._step(undo, self._webhooks.start, self._webhooks.close)
            self._step(undo, self._keeper.start, self._keeper.close)
            log.info("Operator started", namespace=self._settings.namespace, webhooks=self._webhooks.port)
            undo.callback(_guarded, self._election.release)
            if self._election.acquire(self._over):
                self._leading.set(1)
                self._lead(undo)
                self._over.wait()
            log.info("Operator stops")
        if self._failure is not None:
            raise self._failure

    def _rules(self) -> Rules:
        settings = self._settings
        controllers = frozenset({settings.account, CORE_CONTROLLER.format(namespace=settings.namespace)})
        return Rules(controllers=controllers, features=self._features.current)

    def _lead(self, undo: ExitStack) -> None:
        kafka, names = self._kafka, self._names
        self._patiently(self._make_topics)
        writer = TableWriter(kafka, names.progress, names.transactional("positions"))
        undo.callback(_guarded, writer.close)
        self._patiently(writer.init)
        tables = Tables(ContractTable(self._changed), PositionTable(self._changed), ReportTable(self._changed))
        positions = TableReader(kafka, names.progress, tables.positions.apply, tables.positions.reset)
        readers = (
            TableReader(kafka, names.contract, tables.contract.apply, tables.contract.reset, skim=True),
            positions,
            TableReader(kafka, names.dataplane, tables.reports.apply, tables.reports.reset),
        )
        for reader in readers:
            self._step(undo, reader.start, reader.close)
        places = Places(self._api)
        mirrors = Mirrors(self._api, places, self._changed, self._mirrors())
        self._step(undo, mirrors.start, mirrors.close)
        connections = Connections(kafka, mirrors.get)
        topics = TopicWatch(lambda topic: connections.admin(topic.kafka), self._changed, self._clock)
        self._step(undo, topics.start, topics.close)
        objects = KubeObjects(self._api, places, mirrors, self._clock)
        undo.callback(_guarded, objects.close)
        world = self._world(places, mirrors, tables, topics)
        actions = Actions(connections, topics, objects, tables.positions, (positions, writer), self._clock)
        self._loop = ControlLoop(
            World(
                observe=world.observe,
                write_contract=world.write_contract,
                write_statuses=objects.write_statuses,
                follow=world.follow,
                act=actions.run,
                tell=objects.tell,
            ),
            self._clock,
            lambda: self._end("another operator writes positions"),
        )
        self._synced(mirrors, tables, readers)
        if not self._over.is_set():
            self._step(undo, self._loop.start, self._loop.close)
            self._waiting_for = []

    def _world(self, places: Places, mirrors: Mirrors, tables: Tables, topics: TopicWatch) -> KubeWorld:
        settings = self._settings
        upkeep = Upkeep(self._api, places, mirrors, settings.namespace, settings.deployment)
        maps_mirror = mirrors.of(ObjectKey("", "ConfigMap", "", ""))
        if maps_mirror is None:
            raise Terminal("ConfigMaps are not followed", subject="operator")
        maps = ContractMaps(self._api, maps_mirror, settings.namespace, self._clock, upkeep.owners)
        features = self._features
        return KubeWorld(
            settings,
            lambda: replace(settings.home, features=features.current),
            mirrors,
            maps,
            upkeep,
            tables,
            topics,
            self._clock,
            self._check_leading,
            self._changed,
        )

    def _mirrors(self) -> list[Mirror]:
        api, namespace = self._api, self._settings.namespace
        managed = {"labelSelector": ",".join(f"{name}={value}" for name, value in labels.MANAGED.items())}
        return [
            *(Mirror(api, place, self._changed) for place in OURS),
            Mirror(api, SECRET, self._changed, _NOT_HELM),
            Mirror(api, CONFIG_MAP, self._changed),
            Mirror(api, SERVICE, self._changed),
            Mirror(api, DEPLOYMENT, self._changed, managed, namespace),
            Mirror(api, DISRUPTION_BUDGET, self._changed, managed, namespace),
        ]

    def _synced(self, mirrors: Mirrors, tables: Tables, readers: tuple[TableReader, ...]) -> None:
        deadline = Deadline(_SYNC_SECONDS, self._clock)
        for reader in readers:
            reader.wait_ready(deadline)
        tables.reports.caught_up()
        while (missing := mirrors.unsynced()) and not self._over.is_set():
            self._waiting_for = [f"not read yet: {', '.join(missing)}"]
            self._over.wait(0.05)

    def _make_topics(self) -> None:
        admin = Admin(self._kafka)
        for topic in internal_topics(self._names):
            admin.create_topic(topic.name, PARTITIONS, self._settings.home.replication, topic.config)

    def _patiently(self, step: Callable[[], None]) -> None:
        """Do a step as soon as Kafka lets us."""
        while not self._over.is_set():
            try:
                step()
                return
            except Retriable as error:
                if self._waiting_for != [str(error)]:
                    log.warning("Waiting for Kafka", error=error)
                self._waiting_for = [str(error)]
                self._over.wait(_PAUSE_SECONDS)

    def _check_leading(self) -> None:
        self._rounds.inc()
        if self._over.is_set():
            raise Terminal("does not lead any more", subject=self._settings.identity)

    def _changed(self) -> None:
        if self._loop is not None:
            self._loop.changed()

    def _missing(self) -> list[str]:
        problem = self._loop.problem if self._loop is not None else ""
        return [text for text in (*self._waiting_for, self._keeper.problem, problem) if text]

    def _relay(self, stop: threading.Event) -> None:
        stop.wait()
        self._over.set()

    def _end(self, reason: str) -> None:
        self._failure = Terminal(f"{reason}: this operator ends", subject=self._settings.identity)
        self._over.set()

    def _step(self, undo: ExitStack, begin: Callable[[], object], end: Callable[[], None]) -> None:
        begin()
        undo.callback(_guarded, end)


def _guarded(end: Callable[[], None]) -> None:
    """One step of stopping: what goes wrong in it is logged and keeps nothing else from being stopped."""
    try:
        end()
    except Exception:
        log.exception("A step of stopping failed")
