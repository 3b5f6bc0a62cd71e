"""The producers of a receiver: one per distinct Kafka connection, kept as long as an ingress uses it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from headrace.base.clock import Clock, Deadline
from headrace.base.log import get_logger
from headrace.kafka.settings import KafkaSettings
from headrace.receiver.config import Limits, Production
from headrace.receiver.producer import KafkaProducer

log = get_logger(__name__)

_GRACE_SECONDS = 60.0
"""A request may hold a table of ingresses that is no longer in force: its producer goes on for this long."""

Make = Callable[[KafkaSettings, Production, Limits, Clock], KafkaProducer]


class ProducerPool:
    """Hands out producers by connection. Two settings that differ in anything, the identity included, are two connections."""

    def __init__(self, production: Production, limits: Limits, clock: Clock, make: Make = KafkaProducer) -> None:
        self._clock = clock
        self._production = production
        self._limits = limits
        self._make = make
        self._producers: dict[KafkaSettings, KafkaProducer] = {}
        self._retired: list[tuple[float, KafkaProducer]] = []
        self._lock = threading.Lock()

    def get(self, settings: KafkaSettings) -> KafkaProducer:
        """The producer of that connection, made where there is none. Raises `HeadraceError` when the settings are refused."""
        with self._lock:
            producer = self._producers.get(settings)
            if producer is None:
                producer = self._make(settings, self._production, self._limits, self._clock)
                producer.start()
                self._producers[settings] = producer
            return producer

    def keep(self, wanted: Iterable[KafkaProducer]) -> None:
        """Let go of all others, after a while and once the events they hold have been reported about."""
        keep = set(wanted)
        now = self._clock.monotonic()
        with self._lock:
            self._retired += [(now, producer) for producer in self._producers.values() if producer not in keep]
            self._producers = {settings: producer for settings, producer in self._producers.items() if producer in keep}

    def tidy(self) -> None:
        """Close the producers that were let go of and are done; to be called now and then."""
        past = self._clock.monotonic() - _GRACE_SECONDS
        with self._lock:
            done = [producer for since, producer in self._retired if since <= past and not producer.held_events]
            self._retired = [(since, producer) for since, producer in self._retired if producer not in done]
        for producer in done:
            producer.close(Deadline(0))

    @property
    def producers(self) -> list[KafkaProducer]:
        """Those in use."""
        with self._lock:
            return list(self._producers.values())

    def close(self, deadline: Deadline) -> None:
        """Wait for all reports, until the deadline."""
        with self._lock:
            producers = [*self._producers.values(), *(producer for _, producer in self._retired)]
            self._producers, self._retired = {}, []
        for producer in producers:
            left = producer.close(deadline)
            if left:
                log.error("Events were left without a report", bootstrap=producer.settings.bootstrap_servers, events=left)
