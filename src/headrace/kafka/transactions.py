"""One writer at a time: a transactional producer that is fenced by a newer one and survives what does not fence it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from enum import Enum

from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Retriable, Terminal
from headrace.base.log import get_logger
from headrace.kafka.deliveries import Deliveries
from headrace.kafka.failures import kafka_error

Record = tuple[str, bytes | None]

log = get_logger(__name__)

_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


class Fenced(Terminal):
    """A newer writer has taken over: this one must not write again, and its process should end."""


class _Broken(Terminal):
    """The producer is beyond use, though nobody fenced it."""


class _Unfinished(Enum):
    """What an earlier transaction still needs, because Kafka did not answer in time."""

    NOTHING = 0
    COMMIT = 1
    ABORT = 2


class Transactions:
    """Writes each batch as one transaction to partition 0 of `topic`. `connect()` makes a producer with the transactional id.

    A fenced writer stays fenced. A producer that breaks otherwise (its broker crashed within a transaction) is replaced at once: a
    newer writer can't have come in between, since that would have been `Fenced`; done later, it could fence a newer writer.
    """

    def __init__(self, connect: Callable[[], Producer], topic: str, timeout: float) -> None:
        self._connect = connect
        self._topic = topic
        self._timeout = timeout
        self._lock = threading.Lock()
        self._unfinished = _Unfinished.NOTHING
        self._over: HeadraceError | None = None
        self._begun = False
        self.producer = connect()

    def init(self) -> None:
        """Fence older writers and finish what they left open. Done once; nothing more when it is called again."""
        with self._lock:
            if not self._begun:
                self._patiently(self.producer.init_transactions, Deadline(self._timeout))
                self._begun = True

    def write(self, batch: Sequence[Record]) -> int:
        """Write all or nothing; returns the last offset. Raises `Fenced`; `Retriable` (outcome unknown); `Terminal`: no more writes."""
        with self._lock:
            if self._over is not None:
                raise self._over
            deadline = Deadline(self._timeout)
            try:
                return self._write(batch, deadline)
            except Fenced as error:
                self._over = error
                raise
            except _Broken as error:
                self._replace(error)
                raise Retriable(error.message, subject=self._subject) from error

    @property
    def over(self) -> bool:
        """This writer will never write again."""
        return self._over is not None

    @property
    def _subject(self) -> str:
        return f"topic {self._topic}"

    def _write(self, batch: Sequence[Record], deadline: Deadline) -> int:
        deliveries = Deliveries(len(batch), self._subject)
        self._finish(deadline)
        try:
            self.producer.begin_transaction()
            self._unfinished = _Unfinished.ABORT
            for key, value in batch:
                self.producer.produce(self._topic, key=key.encode(), value=value, partition=0, on_delivery=deliveries.report)
        except KafkaException as error:
            raise self._failure(error.args[0]) from error
        except BufferError as error:
            raise Retriable("too many records for one transaction", subject=self._subject) from error
        self._unfinished = _Unfinished.COMMIT
        self._finish(deadline)
        return deliveries.last_offset(Deadline(self._timeout))

    def _finish(self, deadline: Deadline) -> None:
        """End the transaction that is open, if one is. A commit that Kafka turned down is aborted, then raised."""
        try:
            if self._unfinished is _Unfinished.COMMIT:
                self._patiently(self.producer.commit_transaction, deadline)
            elif self._unfinished is _Unfinished.ABORT:
                self._patiently(self.producer.abort_transaction, deadline)
        except _TurnedDown as error:
            self._unfinished = _Unfinished.ABORT
            self._finish(deadline)
            raise Retriable(f"not written: {error.message}", subject=self._subject, hint=error.hint) from error
        self._unfinished = _Unfinished.NOTHING

    def _patiently(self, call: Callable[[float], None], deadline: Deadline) -> None:
        """Make a transactional call again while Kafka says that this is possible and time is left."""
        while True:
            try:
                return call(max(0.1, deadline.remaining()))
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                if deadline.expired or not cause.retriable():
                    raise self._failure(cause) from error

    def _failure(self, error: KafkaError) -> HeadraceError:
        known = kafka_error(error, self._subject)
        if error.code() in _FENCED:
            return Fenced(
                "a newer writer with the same transactional id has taken over",
                subject=self._subject,
                hint="Only one of its kind may run: this one ends",
            )
        if error.fatal():
            return _Broken(known.message, subject=known.subject, hint=known.hint)
        if error.txn_requires_abort():
            return _TurnedDown(known.message, subject=known.subject, hint=known.hint)
        return known

    def _replace(self, broken: _Broken) -> None:
        log.warning("A transactional producer is beyond use and is replaced", topic=self._topic, error=broken.message)
        self.producer, self._unfinished = self._connect(), _Unfinished.NOTHING
        try:
            self._patiently(self.producer.init_transactions, Deadline(self._timeout))
        except HeadraceError as error:
            self._over = Terminal(
                f"the writer broke and could not be replaced: {error.message}",
                subject=self._subject,
                hint="Start its process anew",
            )
            raise self._over from error


class _TurnedDown(Terminal):
    """Kafka did not take the transaction; it has to be aborted."""
