"""The common request: one event in binary mode, plain header lines, a body of known length, for an ingress without a guard.

This is the hot path: what an event costs is decided here and in `binary` (see the decision on the receiver's hot path). All other
requests take the general path of `request`, `reading` and `acceptance`, with the same answers.
"""

from __future__ import annotations

from asyncio import CancelledError

from confluent_kafka import KafkaError, Message

from headrace.receiver.answers import ACCEPTED, CUT_OFF, Answer
from headrace.receiver.producer import KafkaProducer
from headrace.receiver.reading import BodyReader
from headrace.receiver.request import GONE, Cancellable
from headrace.receiver.rsgi import Pending, Protocol
from headrace.receiver.table import Ingress

_NO_LINES: list[tuple[str, str]] = []


class PlainRequest:
    """A request that has been found good by its header lines, and has its room reserved: for one event of `size` bytes."""

    __slots__ = ("_bodies", "_ingress", "_producer", "_protocol", "_record", "_size", "pending", "started")

    def __init__(
        self,
        protocol: Protocol,
        record: dict[str, str],
        size: int,
        ingress: Ingress,
        producer: KafkaProducer,
        bodies: BodyReader,
    ) -> None:
        self._protocol = protocol
        self._record = record
        self._size = size
        self._ingress = ingress
        self._producer = producer
        self._bodies = bodies
        self.started = bodies.now()
        self.pending: Cancellable | None = None

    def start(self) -> None:
        """Read the body."""
        if self._size:
            self._bodies.reading[self] = None
            self.pending = pending = self._protocol()
            pending.add_done_callback(self._arrived)
        else:
            self._send(None)

    def finish(self, refusal: Answer) -> None:
        """Refuse."""
        self._producer.release(self._size)
        refusal.send(self._protocol)
        self._ingress.latencies.observe(self._record["ce_type"], refusal.status, self._bodies.now() - self.started)

    def _arrived(self, pending: Pending) -> None:
        self.pending = None
        if self._bodies.reading.pop(self, GONE) is GONE:
            return
        try:
            body = pending.result()
        except (Exception, CancelledError):
            self.finish(CUT_OFF)
            return
        if len(body) == self._size:
            self._send(body)
        else:
            self.finish(CUT_OFF)

    def _send(self, body: bytes | None) -> None:
        record, ingress = self._record, self._ingress
        key = record.get("ce_partitionkey") or record.get("ce_subject")
        refusal = self._producer.send(ingress.topic, body, key, record, self._delivered)
        if refusal is not None:
            self.finish(refusal)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        producer = self._producer
        if error is not None:
            self.finish(producer.refusal(error))
            return
        self._protocol.response_empty(ACCEPTED, _NO_LINES)
        producer.confirmed_events += 1
        producer.confirmed_bytes += self._size
        producer.delivered()
        self._ingress.latencies.accepted(self._record["ce_type"], self._bodies.now() - self.started)
