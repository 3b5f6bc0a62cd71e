"""The confirmations of a batch of records, counted as they come in on whatever thread serves them."""

from __future__ import annotations

import threading

from confluent_kafka import KafkaError, Message

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Retriable
from headrace.kafka.failures import kafka_error


class Deliveries:
    """Give `report` to each produce call of the batch, then ask for the last offset."""

    def __init__(self, count: int, subject: str) -> None:
        self._count = count
        self._subject = subject
        self._reported = threading.Semaphore(0)
        self._offsets: list[int] = []
        self._failures: list[HeadraceError] = []

    def report(self, error: KafkaError | None, message: Message) -> None:
        """The delivery callback."""
        offset = message.offset()
        if error is not None:
            self._failures.append(kafka_error(error, self._subject))
        elif offset is not None:
            self._offsets.append(offset)
        self._reported.release()

    def last_offset(self, deadline: Deadline) -> int:
        """Wait for all confirmations and return the highest offset. Raises the first failure, or `Retriable` at the deadline."""
        for _ in range(self._count):
            if not self._reported.acquire(timeout=deadline.remaining()):
                raise Retriable("Kafka did not confirm the write in time", subject=self._subject)
        if self._failures:
            raise self._failures[0]
        return max(self._offsets)
