"""Write to a compacted topic, durably, and learn when a newer writer has taken over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from enum import Enum

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Retriable, Terminal
from headrace.base.log import get_logger
from headrace.kafka.failures import kafka_error
from headrace.kafka.settings import LIBRARY_LOG, KafkaSettings

Record = tuple[str, bytes | None]
OnWritten = Callable[[HeadraceError | None, int], None]

log = get_logger(__name__)

_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_POLL = 0.2


class Fenced(Terminal):
    """A newer writer has taken over: this one must not write again, and its process should end."""


class _Unfinished(Enum):
    """What an earlier transaction still needs, because Kafka did not answer in time."""

    NOTHING = 0
    COMMIT = 1
    ABORT = 2


class TableWriter:
    """Writes records to partition 0 of `topic` and returns once all in-sync replicas have them. May be shared by threads.

    With a `transactional_id` there is one writer at a time: `init` fences the older ones, whose next write raises `Fenced`, and each
    `put` or `put_all` is one transaction, whole or not at all. Without it, writers are equal and records independent.

    A write that raised `Retriable` may still come through (its outcome is unknown), but never after a later write of this writer.
    `timeout` (seconds) bounds each call.
    """

    def __init__(self, settings: KafkaSettings, topic: str, transactional_id: str | None = None, timeout: float = 10.0) -> None:
        self._settings = settings
        self._topic = topic
        self._id = transactional_id
        self._timeout = timeout
        self._lock = threading.RLock()
        self._unfinished = _Unfinished.NOTHING
        self._fenced = False
        self._closing = False
        self._producer = self._connect()
        self._poller = threading.Thread(target=self._poll, name=f"writer {topic}", daemon=True)
        self._poller.start()

    def init(self) -> None:
        """Fence older writers of the same transactional id and finish what they left open; nothing to do without one."""
        if self._id is None:
            return
        with self._lock:
            self._patiently(self._producer.init_transactions, Deadline(self._timeout))

    def put(self, key: str, value: bytes | None) -> int:
        """Write one record (`value` None: a tombstone) and return its offset. Raises `Fenced`, `Retriable` or `Terminal`."""
        return self.put_all([(key, value)])

    def put_all(self, records: Iterable[Record]) -> int:
        """Write records in order and return the offset of the last one (-1 for none)."""
        batch = list(records)
        if not batch:
            return -1
        return self._independently(batch) if self._id is None else self._in_transaction(batch)

    def put_async(self, key: str, value: bytes | None, on_written: OnWritten) -> None:
        """Write one record without waiting; `on_written(error or None, offset)` is called on another thread.

        Raises `Retriable` when the queue is full. Not for writers with a transactional id.
        """
        if self._id is not None:
            raise ValueError("a transactional writer has no asynchronous writes")

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            failure = kafka_error(error, self._subject) if error else None
            on_written(failure, -1 if offset is None else offset)

        self._send(key, value, delivered)

    def close(self) -> None:
        """Send what is queued, within the timeout, and let go. The writer can't be used afterwards."""
        if not self._fenced:
            self._producer.flush(self._timeout)
        self._closing = True
        self._poller.join()

    @property
    def _subject(self) -> str:
        return f"topic {self._topic}"

    def _connect(self) -> Producer:
        conf: dict[str, object] = {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "message.timeout.ms": int(self._timeout * 1000),
            "reconnect.backoff.max.ms": 1000,
            "log_level": 2,
            "error_cb": self._client_error,
            "logger": LIBRARY_LOG,
        }
        if self._id is not None:
            conf |= {"transactional.id": self._id, "transaction.timeout.ms": max(60_000, int(self._timeout * 1000))}
        try:
            return Producer(self._settings.client(**conf))
        except KafkaException as error:
            raise kafka_error(error, self._subject) from error

    def _independently(self, batch: list[Record]) -> int:
        """Send all, wait for all; the first failure is raised."""
        written = threading.Semaphore(0)
        offsets: list[int] = []
        failures: list[HeadraceError] = []

        def on_written(error: HeadraceError | None, offset: int) -> None:
            failures.append(error) if error else offsets.append(offset)
            written.release()

        for key, value in batch:
            self.put_async(key, value, on_written)
        deadline = Deadline(self._timeout + 1.0)
        for _ in batch:
            if not written.acquire(timeout=deadline.remaining()):
                raise Retriable("Kafka did not confirm the write in time", subject=self._subject)
        if failures:
            raise failures[0]
        return max(offsets)

    def _in_transaction(self, batch: list[Record]) -> int:
        offsets: list[int] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None and offset is not None:
                offsets.append(offset)

        with self._lock:
            deadline = Deadline(self._timeout)
            self._finish(deadline)
            self._once(self._producer.begin_transaction)
            self._unfinished = _Unfinished.ABORT
            for key, value in batch:
                self._send(key, value, delivered)
            self._unfinished = _Unfinished.COMMIT
            self._finish(deadline)
            return max(offsets)

    def _finish(self, deadline: Deadline) -> None:
        """End the transaction that is open, if one is. A commit that Kafka turned down is aborted, then raised."""
        if self._unfinished is _Unfinished.ABORT:
            self._patiently(self._producer.abort_transaction, deadline)
        elif self._unfinished is _Unfinished.COMMIT:
            self._patiently(self._producer.commit_transaction, deadline)
        self._unfinished = _Unfinished.NOTHING

    def _patiently(self, call: Callable[[float], None], deadline: Deadline) -> None:
        """Make a transactional call again while Kafka says that this is possible and time is left."""
        while True:
            try:
                return call(max(0.1, deadline.remaining()))
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                if cause.txn_requires_abort():
                    self._unfinished = _Unfinished.ABORT
                    self._finish(deadline)
                if deadline.expired or not cause.retriable():
                    raise self._failure(cause) from error

    def _once(self, call: Callable[[], None]) -> None:
        try:
            call()
        except KafkaException as error:
            raise self._failure(error.args[0]) from error

    def _send(self, key: str, value: bytes | None, delivered: Callable[[KafkaError | None, Message], None]) -> None:
        try:
            self._producer.produce(self._topic, key=key.encode(), value=value, partition=0, on_delivery=delivered)
        except BufferError as error:
            raise Retriable("too many records wait for Kafka", subject=self._subject) from error
        except KafkaException as error:
            raise self._failure(error.args[0]) from error

    def _failure(self, error: KafkaError) -> HeadraceError:
        self._fenced |= error.code() in _FENCED
        if self._fenced:
            return Fenced(
                f"a newer writer has taken over the transactional id {self._id}",
                subject=self._subject,
                hint="Only one of its kind may run: this one ends",
            )
        failure = kafka_error(error, self._subject)
        if error.txn_requires_abort() and not isinstance(failure, Retriable):
            return Retriable(f"not written: {failure.message}", subject=self._subject, hint=failure.hint)
        return failure

    def _client_error(self, error: KafkaError) -> None:
        """Told by the library in the background. A fatal error of an idempotent producer is cured by a new producer."""
        self._fenced |= error.code() in _FENCED
        if error.fatal() and not self._fenced and self._id is None and not self._closing:
            log.error("The producer of a table failed and is replaced", topic=self._topic, error=error.str())
            self._producer = self._connect()

    def _poll(self) -> None:
        while not self._closing:
            try:
                self._producer.poll(_POLL)
            except KafkaException as error:
                # So the library reports a fatal error, beside the callback.
                self._client_error(error.args[0])
