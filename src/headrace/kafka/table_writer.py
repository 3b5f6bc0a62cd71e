"""Write to a compacted topic, durably, and learn when a newer writer has taken over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Retriable
from headrace.base.log import get_logger
from headrace.kafka.deliveries import Deliveries
from headrace.kafka.failures import kafka_error
from headrace.kafka.settings import LIBRARY_LOG, KafkaSettings
from headrace.kafka.transactions import Record, Transactions

OnWritten = Callable[[HeadraceError | None, int], None]

log = get_logger(__name__)

_POLL = 0.2


class TableWriter:
    """Writes records to partition 0 of `topic` and returns once all in-sync replicas have them. May be shared by threads.

    With a `transactional_id` there is one writer at a time: `init` fences the older ones, whose next write raises `Fenced`, and each
    `put` or `put_all` is one transaction, whole or not at all. Without it, writers are equal and records independent.

    A write that raised `Retriable` may still come through (its outcome is unknown), but never after a later write of this writer.
    After `Terminal` the writer can't be used any more. `timeout` (seconds) bounds each call, or twice that in an outage.
    """

    def __init__(self, settings: KafkaSettings, topic: str, transactional_id: str | None = None, timeout: float = 10.0) -> None:
        self._settings = settings
        self._topic = topic
        self._id = transactional_id
        self._timeout = timeout
        self._closing = False
        self._transactions = Transactions(self._connect, topic, timeout) if transactional_id is not None else None
        self._independent = self._connect() if self._transactions is None else None
        self._poller = threading.Thread(target=self._poll, name=f"writer {topic}", daemon=True)
        self._poller.start()

    def init(self) -> None:
        """Fence older writers of the same transactional id and finish what they left open; nothing to do without one."""
        if self._transactions is not None:
            self._transactions.init()

    def put(self, key: str, value: bytes | None) -> int:
        """Write one record (`value` None: a tombstone) and return its offset. Raises `Fenced`, `Retriable` or `Terminal`."""
        return self.put_all([(key, value)])

    def put_all(self, records: Iterable[Record]) -> int:
        """Write records in order and return the offset of the last one (-1 for none). Errors as `put`."""
        batch = list(records)
        if not batch:
            return -1
        return self._transactions.write(batch) if self._transactions is not None else self._write(batch)

    def put_async(self, key: str, value: bytes | None, on_written: OnWritten) -> None:
        """Write one record without waiting; `on_written(error or None, offset)` is called on another thread.

        Raises `Retriable` when the queue is full. Not for writers with a transactional id.
        """

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            on_written(kafka_error(error, self._subject) if error else None, -1 if offset is None else offset)

        self._send(key, value, delivered)

    def close(self) -> None:
        """Send what is queued, within the timeout, and let go. The writer can't be used afterwards."""
        if self._transactions is None or not self._transactions.over:
            self._producer.flush(self._timeout)
        self._closing = True
        self._poller.join()

    @property
    def _subject(self) -> str:
        return f"topic {self._topic}"

    @property
    def _producer(self) -> Producer:
        if self._transactions is not None:
            return self._transactions.producer
        assert self._independent is not None
        return self._independent

    def _connect(self) -> Producer:
        milliseconds = int(self._timeout * 1000)
        conf: dict[str, object] = {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "message.timeout.ms": milliseconds,
            "reconnect.backoff.max.ms": 1000,
            "log_level": 2,
            "logger": LIBRARY_LOG,
            "error_cb": self._client_error,
        }
        if self._id is not None:
            conf |= {"transactional.id": self._id, "transaction.timeout.ms": max(60_000, milliseconds)}
        try:
            return Producer(self._settings.client(**conf))
        except KafkaException as error:
            raise kafka_error(error, self._subject) from error

    def _write(self, batch: Sequence[Record]) -> int:
        deliveries = Deliveries(len(batch), self._subject)
        for key, value in batch:
            self._send(key, value, deliveries.report)
        return deliveries.last_offset(Deadline(self._timeout + 1.0))

    def _send(self, key: str, value: bytes | None, delivered: Callable[[KafkaError | None, Message], None]) -> None:
        if self._independent is None:
            raise ValueError("a transactional writer has no independent writes")
        try:
            self._independent.produce(self._topic, key=key.encode(), value=value, partition=0, on_delivery=delivered)
        except BufferError as error:
            raise Retriable("too many records wait for Kafka", subject=self._subject) from error
        except KafkaException as error:
            raise kafka_error(error, self._subject) from error

    def _client_error(self, error: KafkaError) -> None:
        """Told by the library in the background. A fatal error of an independent producer is cured by a new producer."""
        if error.fatal() and self._independent is not None and not self._closing:
            log.error("The producer of a table failed and is replaced", topic=self._topic, error=error.str())
            self._independent = self._connect()

    def _poll(self) -> None:
        """Serve callbacks of the library, of whichever producer is in use."""
        while not self._closing:
            try:
                self._producer.poll(_POLL)
            except KafkaException as error:
                # So the library reports a fatal error, beside the callback.
                self._client_error(error.args[0])
