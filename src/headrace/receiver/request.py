"""One request on its way from its header lines to its answer; `plain` has the common kind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol as Face

from confluent_kafka import KafkaError, Message

from headrace.receiver.answers import ACCEPTED, Answer, accept
from headrace.receiver.guard import Claims
from headrace.receiver.latencies import Latencies
from headrace.receiver.producer import KafkaProducer
from headrace.receiver.rsgi import Protocol
from headrace.receiver.table import Ingress

Pairs = list[tuple[str, str]]
Reading = dict["Arriving", Answer | None]
"""Requests whose body is on its way, with the answer that is already certain. Who takes one out of here goes on with it."""

GONE = Answer(0)
"""What taking a request out of a `Reading` gives where somebody else was faster."""


class Cancellable(Face):
    """Something that is being waited for."""

    def cancel(self) -> object:
        """Wait for it no more."""
        ...


class Arriving(Face):
    """A request whose body is being read."""

    started: float
    pending: Cancellable | None

    def finish(self, refusal: Answer) -> None:
        """Refuse it."""
        ...


class Request:
    """Any request. `finish` is to be called once, by whoever holds it."""

    __slots__ = (
        "_latencies",
        "_now",
        "_room",
        "_size",
        "claims",
        "event_type",
        "fields",
        "ingress",
        "items",
        "pending",
        "plain",
        "protocol",
        "started",
    )

    def __init__(
        self,
        protocol: Protocol,
        items: Pairs,
        fields: dict[str, str],
        ingress: Ingress | None,
        latencies: Latencies,
        now: Callable[[], float],
    ) -> None:
        self.protocol = protocol
        self.items = items
        self.fields = fields
        self.ingress = ingress
        self.claims: Claims = {}
        self.event_type = ""
        self.pending: Cancellable | None = None
        """The body, while it is being read."""
        self.started = now()
        """When it arrived, on the monotonic clock."""
        self._now = now
        self._latencies = latencies
        self._room = 0
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes that are reserved."""
        return self._size

    def reserve(self, size: int, events: int) -> Answer | None:
        """Reserve room at the producer, more each time; the refusal where there is none."""
        producer = self.ingress.producer if self.ingress is not None else None
        refusal = producer.admit(size, events) if producer is not None else None
        if refusal is None:
            self._size += size
            self._room += events
        return refusal

    def finish(self, refusal: Answer | None) -> None:
        """Give the room back, answer (202 without a refusal) and count."""
        producer = self.ingress.producer if self.ingress is not None else None
        if producer is not None:
            producer.release(self._size, self._room)
        if refusal is None:
            accept(self.protocol)
        else:
            refusal.send(self.protocol)
        status = ACCEPTED if refusal is None else refusal.status
        self._latencies.observe(self.event_type, status, self._now() - self.started)


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
