"""What a receiver says of itself: which contract it has applied, what it serves, what it refuses and why."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message

from headrace.base.clock import Clock
from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.core.heartbeat import ReceiverReport, encode_report
from headrace.core.names import Internal
from headrace.receiver.config import ReceiverConfig
from headrace.receiver.pool import ProducerPool
from headrace.receiver.table import IngressTable

log = get_logger(__name__)


class Heartbeat:
    """Sends reports through the producer that events to the same Kafka take. One that does not get through is not repeated."""

    def __init__(self, config: ReceiverConfig, pool: ProducerPool, clock: Clock) -> None:
        self._kafka = config.kafka
        self._topic = Internal(config.instance).dataplane
        self._name = config.name
        self._tls = config.tls is not None
        self._pool = pool
        self._clock = clock
        self._failing = False

    def send(self, offset: int, table: IngressTable, *, stopping: bool = False) -> None:
        """Report the state now: `offset` is that of the last contract record applied."""
        if self._kafka is None:
            return
        report = ReceiverReport(
            instance=self._name,
            at=int(self._clock.now() * 1000),
            contract_offset=offset,
            ingresses=table.serving,
            closed=table.closed,
            stopping=stopping,
            tls=self._tls,
        )
        key, value = encode_report(report)
        try:
            self._pool.get(self._kafka).send(self._topic, value, key, {}, self._sent)
        except HeadraceError as error:
            self._note(str(error))

    def _sent(self, error: KafkaError | None, message: Message) -> None:
        self._note(error.str() if error is not None else "")

    def _note(self, error: str) -> None:
        if error and not self._failing:
            log.warning("A heartbeat did not get through", topic=self._topic, error=error)
        self._failing = bool(error)
