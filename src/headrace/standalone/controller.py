"""The controller process: store, REST API and control loop, wired together.

Start: 1. take the ports  2. wait for Kafka, make the internal topics  3. fence older controllers  4. read all tables to their end
5. claim the store  6. reconcile and serve. Stop: the same backwards.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.base.clock import Clock, Deadline, SystemClock
from headrace.base.errors import Retriable, Terminal
from headrace.base.log import get_logger
from headrace.control.model import Action, Failure, Observed
from headrace.control.settings import Settings
from headrace.core.internaltopics import PARTITIONS, internal_topics
from headrace.core.names import Internal
from headrace.core.resources.rules import Rules
from headrace.home.actions import Actions
from headrace.home.connections import Connections
from headrace.home.loop import ControlLoop, World
from headrace.home.tables import ContractTable, PositionTable, ReportTable
from headrace.home.topicwatch import TopicWatch
from headrace.http.ops import OpsServer
from headrace.http.server import AsgiServer
from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table import TableReader, TableWriter
from headrace.standalone.api import Backend, build_api
from headrace.standalone.contractwriter import ContractWriter
from headrace.standalone.issuer import TokenIssuer
from headrace.standalone.metrics import ControllerMetrics
from headrace.standalone.registry import Registry
from headrace.standalone.store import Store
from headrace.standalone.watching import Watches

log = get_logger(__name__)
_TABLE_SECONDS = 120.0
_PAUSE_SECONDS = 1.0
_FORGET_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """One controller. Ports may be 0. `issuer_key`: file with the key of its issuer; None: a key for this run."""

    kafka: KafkaSettings
    home: Settings
    rules: Rules
    port: int = 8090
    ops_port: int = 9093
    host: str = "127.0.0.1"
    issuer_key: Path | None = None


class Controller:
    """`run` serves until `stop` is set. The parts that do not need Kafka are made at once, so that a taken port is told at once."""

    def __init__(self, config: ControllerConfig, clock: Clock | None = None) -> None:
        """Raises `Terminal` when a port is in use."""
        self._config = config
        self._clock = clock or SystemClock()
        self._names = Internal(config.home.instance)
        self._waiting_for = ["Kafka"]
        self._over = threading.Event()
        self._replaced_by: str | None = None
        kafka = config.kafka
        self._store_writer = TableWriter(kafka, self._names.resources, self._names.transactional("resources"))
        self._contract_writer = TableWriter(kafka, self._names.contract, self._names.transactional("contract"))
        self._progress_writer = TableWriter(kafka, self._names.progress, self._names.transactional("positions"))
        self.store = Store(self._store_writer, self._replaced)
        self.registry = Registry(self.store, config.rules, self._clock)
        self._connections = Connections(kafka, self.store.get)
        self._topics = TopicWatch(lambda topic: self._connections.admin(topic.kafka), self._changed, self._clock)
        self._contract = ContractTable(self._changed)
        self._positions = PositionTable(self._changed)
        self._reports = ReportTable(self._changed)
        self._readers = {
            self._names.resources: TableReader(kafka, self._names.resources, self.store.apply, self._store_lost),
            self._names.contract: TableReader(
                kafka, self._names.contract, self._contract.apply, self._contract.reset, skim=True
            ),
            self._names.progress: TableReader(kafka, self._names.progress, self._positions.apply, self._positions.reset),
            self._names.dataplane: TableReader(kafka, self._names.dataplane, self._reports.apply, self._reports.reset),
        }
        self._watches = Watches(self.store)
        self._loop = ControlLoop(self._world(), self._clock, lambda: self._replaced(""))
        self.metrics = ControllerMetrics(self.store, self._loop)
        issuer = TokenIssuer(config.issuer_key, lambda: self.api.url, self._clock)
        self.api = AsgiServer(
            build_api(Backend(self.store, self.registry, self._watches, self._clock, self._figures, self._missing, issuer)),
            what="controller",
            flag="--port",
            host=config.host,
            port=config.port,
            on_close=self._watches.close,
        )
        self.ops = OpsServer(self.metrics.registry, self._missing, port=config.ops_port, host=config.host)

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop`. Raises `Terminal` when another controller took over, or Kafka refuses us."""
        threading.Thread(target=self._relay, args=(stop,), name="stop", daemon=True).start()
        with ExitStack() as undo:
            self._step(undo, self.ops.start, self.ops.close)
            for writer in (self._store_writer, self._contract_writer, self._progress_writer):
                undo.callback(writer.close)
            self._patiently(self._make_topics, "internal topics")
            self._patiently(self._fence, "older controllers")
            for reader in self._readers.values():
                self._step(undo, reader.start, reader.close)
            self._read_tables()
            if not self._over.is_set():
                self._serve(undo)
                self._over.wait()
            log.info("Controller stops")
        if self._replaced_by is not None:
            raise Terminal(
                f"another controller has taken over{f' (at {self._replaced_by})' if self._replaced_by else ''}: this one ends",
                subject=f"instance {self._names.instance}",
                hint="One controller serves an instance; give a second Headrace on the same Kafka another --instance",
            )

    def _serve(self, undo: ExitStack) -> None:
        self.store.claim(self.api.url)
        self.registry.collect_garbage()
        self._step(undo, self._topics.start, self._topics.close)
        _, unsubscribe = self.store.subscribe(lambda event: self._changed())
        undo.callback(unsubscribe)
        self._step(undo, self._loop.start, self._loop.close)
        self._step(undo, self.api.start, self.api.close)
        self._waiting_for = []
        log.info("Controller serves", address=self.api.url, objects=len(self.store.all()), instance=self._names.instance)

    def _relay(self, stop: threading.Event) -> None:
        stop.wait()
        self._over.set()

    def _step(self, undo: ExitStack, begin: Callable[[], None], end: Callable[[], None]) -> None:
        begin()
        undo.callback(_guarded, end)

    def _patiently(self, step: Callable[[], None], what: str) -> None:
        """Do a step as soon as Kafka lets us."""
        told = ""
        while not self._over.is_set():
            try:
                step()
                return
            except Retriable as error:
                self._waiting_for = [str(error)]
                if str(error) != told:
                    log.warning("Waiting for Kafka", step=what, error=error)
                    told = str(error)
                self._over.wait(_PAUSE_SECONDS)

    def _make_topics(self) -> None:
        admin = Admin(self._config.kafka)
        for topic in internal_topics(self._names):
            admin.create_topic(topic.name, PARTITIONS, self._config.home.replication, topic.config)

    def _fence(self) -> None:
        for writer in (self._store_writer, self._contract_writer, self._progress_writer):
            writer.init()

    def _read_tables(self) -> None:
        self._waiting_for = ["the tables are being read"]
        for reader in self._readers.values():
            deadline = Deadline(_TABLE_SECONDS, self._clock)
            reader.wait_ready(deadline)
        self._reports.caught_up()

    def _world(self) -> World:
        writer = ContractWriter(self._contract_writer, self._readers[self._names.contract], self._contract)
        actions = Actions(
            self._connections,
            self._topics,
            self.registry,
            self._positions,
            (self._readers[self._names.progress], self._progress_writer),
            self._clock,
        )
        return World(
            observe=self._observe,
            write_contract=writer.write,
            write_statuses=self.registry.write_statuses,
            follow=lambda plan: self._topics.follow(plan.topics),
            act=actions.run,
        )

    def _observe(self, failures: Mapping[Action, Failure]) -> Observed:
        now = self._clock.now()
        self._reports.forget_older_than(int(now * 1000) - _FORGET_MS)
        written = self._contract.written()
        return Observed(
            now=now,
            settings=self._config.home,
            objects=self.store.all(),
            topics=self._topics.states(),
            positions=self._positions.topic_ids(),
            contract=written.records,
            dropped=written.dropped,
            contract_end=written.end,
            runs=written.runs,
            receivers=self._reports.receivers(),
            workers=self._reports.workers(),
            drivers=self._reports.drivers(),
            failures=failures,
        )

    def _figures(self) -> dict[str, Any]:
        """What the data plane last said of itself."""
        return {
            "at": int(self._clock.now() * 1000),
            "receivers": [asdict(report) for report in self._reports.receivers()],
            "workers": [asdict(report) for report in self._reports.workers()],
            "drivers": [asdict(report) for report in self._reports.drivers()],
        }

    def _missing(self) -> list[str]:
        missing = list(self._waiting_for)
        if self._replaced_by is not None:
            missing.append("another controller has taken over")
        return missing + ([self._loop.problem] if self._loop.problem else [])

    def _changed(self) -> None:
        self._loop.changed()

    def _replaced(self, by: str) -> None:
        self._replaced_by = by
        self._over.set()

    def _store_lost(self) -> None:
        log.error("The topic of the store was made anew: this controller ends, the next one reads what there is")
        self._over.set()


def _guarded(end: Callable[[], None]) -> None:
    """One step of stopping: what goes wrong in it is logged and keeps nothing else from being stopped."""
    try:
        end()
    except Exception:
        log.exception("A step of stopping failed")
