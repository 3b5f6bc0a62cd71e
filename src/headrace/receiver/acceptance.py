"""A whole body becomes events, and the events go to Kafka."""

from __future__ import annotations

from headrace.base.log import get_logger
from headrace.core.contract import ContentMode
from headrace.core.events.http import decode_request
from headrace.core.events.kafka import encode_record, record_key
from headrace.core.events.model import InvalidEvent
from headrace.receiver.answers import FAILED, Answer, bad_request
from headrace.receiver.producer import KafkaProducer
from headrace.receiver.request import Batch, Request
from headrace.receiver.table import Ingress

log = get_logger(__name__)

_Record = tuple[bytes | None, list[tuple[str, bytes]], bytes | None]
"""Key, headers, value."""


def take(request: Request, body: bytes) -> None:
    """Give the event or events of `request` to Kafka; the request is finished by their delivery reports, or refused at once."""
    ingress = request.ingress
    if ingress is None or ingress.producer is None:
        return
    try:
        records, refusal = _records(request, ingress, body)
    except InvalidEvent as error:
        records, refusal = [], bad_request(str(error))
    except Exception:
        log.exception("An event could not be read", ingress=ingress.uid)
        records, refusal = [], FAILED
    if refusal is not None or not records:
        request.finish(refusal)
    else:
        _send(request, ingress.producer, ingress.topic, records)


def _records(request: Request, ingress: Ingress, body: bytes) -> tuple[list[_Record], Answer | None]:
    """What is to be written for a body of any kind: structured, a batch (maybe empty), with encoded headers, for any ingress."""
    events = decode_request(request.items, body)
    if not events:
        return [], None
    request.event_type = events[0].attributes["type"]
    refusal = ingress.guard.permit(request.claims, events) if ingress.guard is not None else None
    refusal = refusal or request.reserve(0, len(events) - 1)
    if refusal is not None:
        return [], refusal
    mode = ContentMode.STRUCTURED if ingress.structured else ContentMode.BINARY
    return [(record_key(event), *encode_record(event, mode)) for event in events], None


def _send(request: Request, producer: KafkaProducer, topic: str, records: list[_Record]) -> None:
    """All or none: what librdkafka did not even queue makes the whole request fail, whatever becomes of the rest."""
    batch = Batch(request, producer, len(records))
    for number, (key, headers, value) in enumerate(records):
        refusal = producer.send(topic, value, key, headers, batch.delivered)
        if refusal is not None:
            batch.settle(len(records) - number, refusal)
            return
