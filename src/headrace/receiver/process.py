"""The receiver as a process: its parts put together, its start, its beat, its stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry

from headrace.base.clock import Clock, Deadline
from headrace.base.log import get_logger
from headrace.http.ops import OpsServer
from headrace.receiver.applying import Applier, source_of
from headrace.receiver.config import ReceiverConfig, Secrets
from headrace.receiver.doors import Doors
from headrace.receiver.heartbeat import Heartbeat
from headrace.receiver.identity import OidcGatekeeper
from headrace.receiver.intake import Intake
from headrace.receiver.metrics import Metrics
from headrace.receiver.opening import Opener
from headrace.receiver.pool import ProducerPool
from headrace.receiver.producer import KafkaProducer
from headrace.receiver.table import IngressTable

log = get_logger(__name__)

_BEAT_SECONDS = 1.0
_PROBE_SECONDS = 2.0
_STALLED_SECONDS = 30.0
_STOPPING_BODY_SECONDS = 3.0
"""How long a client may take for a body once the process is to stop."""
_LOOK_SECONDS = 0.2


class Receiver:
    """One receiver, from `start` to `stop`. Any number may run, in one process or many: they share nothing."""

    def __init__(self, config: ReceiverConfig, secrets: Secrets, clock: Clock) -> None:
        """Binds its ports. Raises `HeadraceError`: a port is taken, a file can't be used, a setting is wrong."""
        self._config = config
        self._now = clock.monotonic
        self._offset = -1
        self._stopping = False
        self._ended = threading.Event()
        self._pool = ProducerPool(config.production, config.limits, clock)
        registry = CollectorRegistry()
        self._metrics = Metrics(registry, lambda: self._pool.producers)
        self._intake = Intake(config.limits, self._metrics.nobody, clock)
        self._gatekeeper = OidcGatekeeper(config.issuer, clock) if config.issuer is not None else None
        opener = Opener(config.kafka, self._pool, secrets, clock, self._metrics.latencies, self._gatekeeper)
        self._applier = Applier(partial(source_of, config), opener, self._apply)
        self._heartbeat = Heartbeat(config, self._pool, clock)
        self._doors = Doors(config, self._intake.serve)
        self._ops = OpsServer(registry, self.missing, port=config.ops_port, host=config.ops_host, live=self.stalled)
        self._turns: dict[str, float] = {}
        self._threads = [
            threading.Thread(target=self._repeat, args=(name, step), name=name, daemon=True)
            for name, step in (("heartbeat", self._beat), ("housekeeping", self._keep_house), ("reach", self._reach))
        ]

    def start(self) -> None:
        """Take requests: they are answered 503 until the contract is there."""
        self._ops.start()
        if self._config.kafka is not None:
            self._pool.get(self._config.kafka)
        self._applier.start()
        self._intake.start()
        self._doors.open()
        for thread in self._threads:
            thread.start()

    @property
    def table(self) -> IngressTable:
        """What is served."""
        return self._intake.table or IngressTable()

    @property
    def held(self) -> tuple[int, int]:
        """Events, and their bytes, that are being read or wait for Kafka."""
        producers = self._pool.producers
        return sum(one.held_events for one in producers), sum(one.held_bytes for one in producers)

    @property
    def url(self) -> str:
        """Where events are taken."""
        return self._doors.url

    @property
    def tls_url(self) -> str:
        """The same with TLS, where that has a port of its own; else empty."""
        return self._doors.tls_url

    @property
    def ops_url(self) -> str:
        """Where metrics and health are."""
        return f"http://{self._ops.host}:{self._ops.port}"

    def missing(self) -> list[str]:
        """Why this receiver is not ready; empty when it is."""
        missing = []
        if self._stopping:
            missing.append("it is stopping")
        if not self._applier.loaded:
            missing.append(f"the contract is not there yet: {self._applier.problem or 'it is being read'}")
        for producer in self._essential():
            if not producer.reachable:
                missing.append(f"Kafka {producer.settings.bootstrap_servers} does not answer")
        return missing

    def stalled(self) -> list[str]:
        """Which part of this process does not work any more; empty when all do."""
        late = self._now() - _STALLED_SECONDS
        dead = [f"the thread {name} has stopped" for name, turn in self._turns.items() if turn < late]
        return dead if self._applier.alive else [*dead, "the contract is not followed any more"]

    def stop(self, deadline: Deadline) -> bool:
        """Stop without losing a request; whether all were answered by the deadline.

        1. Say so: not ready, and a heartbeat. 2. Let load balancers notice. 3. Accept no more. 4. Answer what has arrived: bodies get
        little time, Kafka its usual. 5. Wait for Kafka's reports. 6. Say goodbye, end the rest.
        """
        self._stopping = True
        self._guarded("heartbeat", self._beat)
        self._ended.wait(min(self._config.linger_seconds, deadline.remaining()))
        self._guarded("listeners", self._doors.close)
        answered = self._answer_all(deadline)
        self._ended.set()
        self._guarded("contract", self._applier.close)
        self._guarded("producers", partial(self._pool.close, deadline))
        self._guarded("requests", self._intake.close)
        self._guarded("operations", self._ops.close)
        return answered

    def _answer_all(self, deadline: Deadline) -> bool:
        body_seconds = min(_STOPPING_BODY_SECONDS, deadline.remaining() / 2)
        while not self._doors.wait(_LOOK_SECONDS):
            self._intake.expire(body_seconds)
            if deadline.expired:
                log.error("Some requests are cut off")
                return False
        return True

    def _apply(self, table: IngressTable, offset: int) -> None:
        """A new table is in force, on the thread of the contract."""
        self._intake.table = table
        self._offset = offset
        self._metrics.keep({ingress.latencies.labels for ingress in table.ingresses.values()})
        self._beat()

    def _beat(self) -> None:
        if self._applier.loaded or self._offset >= 0:
            self._heartbeat.send(self._offset, self.table, stopping=self._stopping)

    def _keep_house(self) -> None:
        limits = self._config.limits
        self._intake.expire(limits.body_seconds)
        self._doors.keep(limits.idle_seconds)
        self._pool.tidy()

    def _reach(self) -> None:
        """Ask those whose answer may take long: the issuer, and the Kafkas that have not shown by taking events that they are there."""
        if self._gatekeeper is not None:
            self._gatekeeper.refresh()
        for producer in self._pool.producers:
            self._turns["reach"] = self._now()
            if not producer.reachable or producer.failing:
                producer.probe(_PROBE_SECONDS)

    def _essential(self) -> list[KafkaProducer]:
        """The producers without which this receiver is of no use: that of its own Kafka, else all."""
        return [one for one in self._pool.producers if self._config.kafka in (None, one.settings)]

    def _repeat(self, name: str, step: Callable[[], None]) -> None:
        while not self._ended.is_set():
            self._turns[name] = self._now()
            self._guarded(name, step)
            self._ended.wait(_BEAT_SECONDS)

    def _guarded(self, name: str, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception:
            log.exception("A part of the receiver failed", part=name)
