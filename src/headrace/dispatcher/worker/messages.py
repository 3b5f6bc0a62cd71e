"""What goes out for a delivery, by its stage: where to, header lines, body. And what a response says of itself."""

from __future__ import annotations

from headrace.core.delivery import FailedDelivery, dead_letter, dead_letter_extensions, with_extensions
from headrace.core.events.http import attribute_line, encode_binary, encode_structured
from headrace.core.events.model import Event
from headrace.dispatcher.worker.delivery import Delivery, Stage
from headrace.dispatcher.worker.record import without
from headrace.dispatcher.worker.subscription import Target

KEPT_FOR = "headracelane"
"""Extension of an event in the topic of undeliverable events: the lane's uid, without hyphens."""

Message = tuple[list[str], bytes]
"""Header lines and body."""


def target_of(delivery: Delivery) -> Target:
    """Where the present stage sends to. A sink or reply URL that was taken away in mid-delivery: the subscriber."""
    subscription = delivery.lane.subscription
    target: Target | None = None
    if delivery.stage is Stage.DEAD_LETTER:
        target = subscription.dead_letter
    elif delivery.stage is Stage.REPLY_URL:
        target = subscription.reply
    return target or subscription.subscriber


def message_of(delivery: Delivery) -> Message:
    """What the present stage sends."""
    subscription = delivery.lane.subscription
    record = delivery.record
    if delivery.stage is Stage.SUBSCRIBER:
        if not subscription.structured:
            return record.head + subscription.lines, record.body
        lines, body = encode_structured(record.event())
        return lines + subscription.lines, body
    if delivery.stage is Stage.DEAD_LETTER:
        lines, body = _dead_letter(delivery)
    else:
        reply = delivery.reply
        assert reply is not None
        lines, body = encode_structured(reply) if subscription.structured else encode_binary(reply)
    return lines + subscription.other_lines, body


def kept_event(delivery: Delivery) -> Event:
    """An undeliverable event as it is kept: as a dead letter, with the lane that it was for."""
    letter = dead_letter(delivery.record.event(), _failure(delivery))
    return with_extensions(letter, {KEPT_FOR: delivery.lane.uid.replace("-", "")})


def has_event(header_lines: list[bytes]) -> bool:
    """Whether a response says that it carries a CloudEvent: `ce-specversion`, or a content type `application/cloudevents...`."""
    for line in header_lines:
        if line[:1] in (b"c", b"C"):
            lower = line.lower()
            if lower.startswith(b"ce-specversion:"):
                return True
            if lower.startswith(b"content-type:") and lower[13:].lstrip().startswith(b"application/cloudevents"):
                return True
    return False


def _dead_letter(delivery: Delivery) -> Message:
    record, failed = delivery.record, _failure(delivery)
    if delivery.lane.subscription.structured:
        return encode_structured(dead_letter(record.event(), failed))
    extensions = dead_letter_extensions(failed)
    lines = without(record.lines, tuple(extensions))
    return lines + [attribute_line(name, value) for name, value in extensions.items()], record.body


def _failure(delivery: Delivery) -> FailedDelivery:
    assert delivery.failed is not None
    return delivery.failed
