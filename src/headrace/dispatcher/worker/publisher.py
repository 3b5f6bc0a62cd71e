"""What a worker writes to Kafka: replies and reports. Outcomes come back through the engine's inbox, never on a foreign thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.base.log import get_logger
from headrace.kafka.settings import KafkaSettings

log = get_logger(__name__)

TIMEOUT_MS = 5_000
"""As long as the receiver waits for Kafka."""

_POLL = 0.25
Headers = Sequence[tuple[str, bytes]]
OnWritten = Callable[[str], None]
"""Called on the publisher's thread, with an empty text or what went wrong."""


class Publisher:
    """One idempotent producer, `acks=all`; replaced when it fails for good. `pending`: records not answered for yet."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._closing = False
        self._failed = False
        self.pending = 0
        self._count = threading.Lock()
        self._producer = self._connect()
        self._thread = threading.Thread(target=self._poll, name="publisher", daemon=True)
        self._thread.start()

    def publish(
        self,
        topic: str,
        value: bytes | None,
        on_written: OnWritten,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int = -1,
    ) -> None:
        """Write one record; with `partition` -1 the key decides, as with any Kafka client."""

        def delivered(error: KafkaError | None, message: Any) -> None:
            with self._count:
                self.pending -= 1
            on_written("" if error is None else error.str())

        with self._count:
            self.pending += 1
        try:
            self._producer.produce(topic, value, key, partition, headers=list(headers), on_delivery=delivered)
        except (BufferError, KafkaException) as error:
            with self._count:
                self.pending -= 1
            on_written(str(error))

    def flush(self, seconds: float) -> bool:
        """Wait until all is written; False when `seconds` were not enough."""
        return int(self._producer.flush(seconds)) == 0

    def close(self, seconds: float) -> None:
        """Write what is queued, within `seconds`, and let go."""
        self.flush(seconds)
        self._closing = True
        self._thread.join()

    def _connect(self) -> Producer:
        return Producer(
            self._settings.client(
                **{
                    "acks": "all",
                    "enable.idempotence": True,
                    "linger.ms": 0,
                    "partitioner": "murmur2_random",
                    "message.timeout.ms": TIMEOUT_MS,
                    "reconnect.backoff.max.ms": 1000,
                    "log_level": 2,
                    "error_cb": self._client_error,
                }
            )
        )

    def _client_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._failed = True

    def _poll(self) -> None:
        while not self._closing:
            self._producer.poll(_POLL)
            if self._failed:
                self._replace()

    def _replace(self) -> None:
        """What the failed producer still held fails, and is tried again with the new one by whoever wanted it."""
        failed, self._producer = self._producer, self._connect()
        self._failed = False
        log.error("A producer failed for good and was replaced", pending=self.pending)
        failed.purge()
        failed.flush(1.0)
