"""Producing records one by one, each acknowledged by all in-sync replicas, to the partitions where any Kafka client would put them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.base.errors import HeadraceError, Retriable, Terminal
from headrace.kafka.console.lines import Header, Outgoing
from headrace.kafka.failures import kafka_error
from headrace.kafka.settings import KafkaSettings

_LINGER_MS = 5
_POLL = 0.1


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Where a record is now."""

    number: int
    partition: int
    offset: int
    key: bytes | None


@dataclass(slots=True)
class Produced:
    """What came of it all; `failure` is the first error."""

    acknowledged: int = 0
    failed: int = 0
    failure: HeadraceError | None = None


class Sender:
    """Produces to one topic. `on_ack` is called, in another thread, for each record that Kafka has; `timeout` bounds the wait for
    one, in seconds.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        *,
        compression: str = "none",
        timeout: float = 120.0,
        on_ack: Callable[[Acknowledged], None] = lambda _: None,
    ) -> None:
        self._topic = topic
        self._on_ack = on_ack
        self._timeout = timeout
        self._produced = Produced()
        try:
            self._producer = Producer(
                settings.client(
                    **{
                        "partitioner": "murmur2_random",
                        "enable.idempotence": True,
                        "compression.type": compression,
                        "linger.ms": _LINGER_MS,
                        "delivery.timeout.ms": int(timeout * 1000),
                        "topic.metadata.refresh.interval.ms": 10_000,
                        "log_level": 2,
                    }
                )
            )
        except KafkaException as error:
            raise kafka_error(error, f"topic {topic}") from error

    def send(self, records: Iterable[Outgoing], headers: Iterable[Header] = (), partition: int | None = None) -> Produced:
        """Produce them all, with `headers` added and to `partition` if that is given, and wait until each is acknowledged or has failed.

        Ends early only when a record can't be handed over at all; raises what `records` raises, after having waited for the others.
        """
        extra = list(headers)
        done = threading.Event()
        # Acknowledgements are told while the next record is still awaited.
        poller = threading.Thread(target=self._poll, args=(done,), name="acknowledgements", daemon=True)
        poller.start()
        try:
            for number, record in enumerate(records, 1):
                chosen = record if partition is None else replace(record, partition=partition)
                self._hand_over(number, chosen, [*chosen.headers, *extra])
        finally:
            done.set()
            poller.join()
            left = self._producer.flush(self._timeout + 5)
            if left:
                self._fail(Retriable(f"{left} records were not acknowledged in time", subject=f"topic {self._topic}"), left)
        return self._produced

    def _poll(self, done: threading.Event) -> None:
        while not done.is_set():
            self._producer.poll(_POLL)

    def _hand_over(self, number: int, record: Outgoing, headers: list[tuple[str, str | bytes | None]]) -> None:
        options: dict[str, Any] = {}
        if record.partition is not None:
            options["partition"] = record.partition
        if record.timestamp is not None:
            options["timestamp"] = record.timestamp

        def done(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._fail(kafka_error(error, f"record {number} to topic {self._topic}"), 1)
                return
            self._produced.acknowledged += 1
            self._on_ack(Acknowledged(number, message.partition() or 0, message.offset() or 0, record.key))

        while True:
            try:
                self._producer.produce(
                    self._topic, value=record.value, key=record.key, headers=headers or None, on_delivery=done, **options
                )
            except BufferError:
                time.sleep(_POLL)
            except KafkaException as error:
                self._fail(kafka_error(error, f"record {number} to topic {self._topic}"), 1)
                return
            except (ValueError, TypeError) as error:
                raise Terminal(str(error), subject=f"record {number} to topic {self._topic}") from error
            else:
                return

    def _fail(self, error: HeadraceError, count: int) -> None:
        self._produced.failed += count
        self._produced.failure = self._produced.failure or error
