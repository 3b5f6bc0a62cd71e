"""One request on its way from its header lines to its answer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from typing import Protocol as Face

from confluent_kafka import KafkaError, Message

from headrace.receiver.answers import ACCEPTED, Answer, accept
from headrace.receiver.producer import KafkaProducer
from headrace.receiver.rsgi import Protocol
from headrace.receiver.table import Ingress, Labels

if TYPE_CHECKING:
    from headrace.receiver.guard import Claims
    from headrace.receiver.metrics import Metrics

Pairs = list[tuple[str, str]]


class Cancellable(Face):
    """Something that is being waited for."""

    def cancel(self) -> object:
        """Wait for it no more."""
        ...


class Request:
    """What is known of a request, and what it has reserved. `finish` is to be called once, by whoever holds it."""

    __slots__ = (
        "_metrics",
        "admitted",
        "bytes",
        "claims",
        "event_type",
        "fields",
        "ingress",
        "items",
        "pending",
        "plain",
        "producer",
        "protocol",
        "started",
    )

    def __init__(
        self,
        protocol: Protocol,
        items: Pairs,
        fields: dict[str, str],
        ingress: Ingress | None,
        started: float,
        metrics: Metrics,
    ) -> None:
        self.protocol = protocol
        self.items = items
        self.fields = fields
        self.ingress = ingress
        self.started = started
        """When it arrived, on the monotonic clock."""
        self._metrics = metrics
        self.producer: KafkaProducer | None = None
        """Where room is reserved: for `admitted` events and `bytes`."""
        self.admitted = 0
        self.bytes = 0
        self.plain = True
        """Each header once, and all of them ASCII."""
        self.claims: Claims | None = None
        self.event_type = ""
        self.pending: Cancellable | None = None
        """The body, while it is being read."""

    def reserve(self, size: int, events: int) -> Answer | None:
        """Reserve more room at the producer; the refusal where there is none."""
        producer = self.producer
        if producer is None:
            return None
        refusal = producer.admit(size, events)
        if refusal is None:
            self.bytes += size
            self.admitted += events
        return refusal

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """The delivery report of a request with one event."""
        producer = self.producer
        if producer is None:
            return
        if error is None:
            producer.delivered()
            self.finish(None)
        else:
            self.finish(producer.refusal(error))

    def finish(self, refusal: Answer | None) -> None:
        """Give the room back, answer (202 without a refusal) and count."""
        if self.producer is not None:
            self.producer.release(self.bytes, self.admitted)
        if refusal is None:
            accept(self.protocol)
        else:
            refusal.send(self.protocol)
        labels: Labels | None = self.ingress.labels if self.ingress is not None else None
        self._metrics.observe(labels, self.event_type, refusal.status if refusal is not None else ACCEPTED, self.started)


class Batch:
    """The delivery reports of a request with several events: it is accepted when Kafka has all of them."""

    def __init__(self, request: Request, producer: KafkaProducer, events: int) -> None:
        self._request = request
        self._producer = producer
        self._left = events
        self._refusal: Answer | None = None
        self._lock = threading.Lock()

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """The report of one event."""
        if error is None:
            self._producer.delivered()
        self.settle(1, None if error is None else self._producer.refusal(error))

    def settle(self, events: int, refusal: Answer | None) -> None:
        """Count `events` as reported about; the last one finishes the request."""
        with self._lock:
            self._refusal = self._refusal or refusal
            self._left -= events
            done = not self._left
        if done:
            self._request.finish(self._refusal)
