"""Events that a worker writes to Kafka: replies to the topic, undeliverable ones to where they are kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headrace.core.contract import ContentMode
from headrace.core.events.kafka import encode_record, record_key
from headrace.core.events.model import Event
from headrace.core.names import Internal
from headrace.dispatcher.spec import WorkerSpec
from headrace.dispatcher.worker.delivery import Delivery, Stage
from headrace.dispatcher.worker.publisher import Publisher


class Outbox:
    """`stored(delivery, error, final)` is told, on the engine's thread, what Kafka answered. `pending`: answers that are still to come."""

    def __init__(
        self,
        spec: WorkerSpec,
        data: Publisher,
        control: Publisher,
        post: Callable[[Callable[[], None]], None],
        stored: Callable[[Delivery, str, bool], None],
    ) -> None:
        self._topic = spec.topic
        self._undeliverable = Internal(spec.instance).undeliverable
        self._data = data
        self._control = control
        self._post = post
        self._stored = stored
        self.pending = 0

    def publish(self, event: Event, delivery: Delivery) -> None:
        """Write `event`; where to is decided by the delivery's stage."""
        headers, value = encode_record(event, ContentMode.BINARY)

        def answered(error: str, final: bool) -> None:
            self._post(partial(self._answered, delivery, error, final))

        self.pending += 1
        if delivery.stage is Stage.KEEP:
            key = delivery.lane.uid.encode()
            self._control.publish(self._undeliverable, value, answered, key=key, headers=headers, partition=0)
        else:
            self._data.publish(self._topic, value, answered, key=record_key(event), headers=headers)

    def _answered(self, delivery: Delivery, error: str, final: bool) -> None:
        self.pending -= 1
        if delivery.lane.active.get(delivery.record.offset) is delivery:
            self._stored(delivery, error, final)
