"""What a worker writes to Kafka: replies and reports. Outcomes come back through the engine's inbox, never on a foreign thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.base.log import get_logger
from headrace.kafka.settings import KafkaSettings

log = get_logger(__name__)

TIMEOUT_MS = 5_000
"""As long as the receiver waits for Kafka."""

_POLL = 0.25
_REPORT_BYTES = 8 * 1024 * 1024
"""A heartbeat with thousands of lanes."""

_ROOM = 256 * 1024
_FINAL = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError._INVALID_ARG,
    }
)
Headers = Sequence[tuple[str, bytes]]
OnWritten = Callable[[str, bool], None]
"""Called on the publisher's thread, with an empty text or what went wrong, and whether it would go wrong again."""


class Publisher:
    """One idempotent producer, `acks=all`; replaced when it fails for good. `pending`: records not answered for yet.

    `body`: bytes of the largest event that is written.
    """

    def __init__(self, settings: KafkaSettings, body: int) -> None:
        self._settings = settings
        self._largest = max(_REPORT_BYTES, body + _ROOM)
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
            if error is None:
                on_written("", False)
            else:
                on_written(error.str(), error.code() in _FINAL)

        with self._count:
            self.pending += 1
        try:
            self._producer.produce(topic, value, key, partition, headers=list(headers), on_delivery=delivered)
        except (BufferError, KafkaException) as error:
            with self._count:
                self.pending -= 1
            on_written(str(error), self._note(error) in _FINAL)

    def flush(self, seconds: float) -> bool:
        """Wait until all is written; False when `seconds` were not enough."""
        try:
            return int(self._producer.flush(seconds)) == 0
        except KafkaException as error:
            self._note(error)
            return False

    def close(self, seconds: float) -> None:
        """Write what is queued, within `seconds`, and let go. The thread ends a moment later: it has nothing left to tell."""
        self.flush(seconds)
        self._closing = True

    def _connect(self) -> Producer:
        return Producer(
            self._settings.client(
                **{
                    "acks": "all",
                    "enable.idempotence": True,
                    "linger.ms": 0,
                    "partitioner": "murmur2_random",
                    "message.timeout.ms": TIMEOUT_MS,
                    "message.max.bytes": self._largest,
                    "reconnect.backoff.max.ms": 1000,
                    "log_level": 2,
                }
            )
        )

    def _note(self, error: BaseException) -> int | None:
        """The code of what the client library raised. A fatal one it tells only in this way: that producer does nothing any more."""
        cause = error.args[0] if error.args else None
        if not isinstance(cause, KafkaError):
            return None
        self._failed |= cause.fatal()
        return cause.code()

    def _poll(self) -> None:
        while not self._closing:
            try:
                self._producer.poll(_POLL)
            except KafkaException as error:
                self._note(error)
            if self._failed:
                self._replace()

    def _replace(self) -> None:
        """What the failed producer still held fails, and is tried again with the new one by whoever wanted it."""
        failed, self._producer = self._producer, self._connect()
        self._failed = False
        log.error("A producer failed for good and was replaced", pending=self.pending)
        failed.purge()
        with suppress(KafkaException):
            failed.flush(1.0)
