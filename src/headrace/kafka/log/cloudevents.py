"""Records as CloudEvents, for people who look at a topic's files."""

from __future__ import annotations

import json
from typing import Any

from headrace.core.events.attributes import is_json
from headrace.core.events.kafka import decode_record
from headrace.core.events.model import Event, InvalidEvent
from headrace.kafka.log.decoders import Decoded, Headers

_FIRST = ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema")


def cloudevent_decoder(offset: int, key: bytes | None, value: bytes | None, headers: Headers) -> Decoded:
    """A decoder (`decoders.Decoder`): the event of a record, an attribute a line; what is no event is said and shown as it is."""
    key_text = None if key is None else key.decode("utf-8", "replace")
    try:
        event = decode_record(headers, value, key)
    except InvalidEvent as error:
        plain = "" if value is None else value.decode("utf-8", "replace")
        return Decoded(key_text, f"(no CloudEvent: {error.message}) {plain}", None, {"error": str(error), "data": plain})
    data = _data(event)
    lines = [f"{name}: {event.attributes[name]}" for name in _order(event)]
    lines += [f"{name}: {text} (tracing)" for name, text in event.passthrough]
    if event.data is not None:
        shown = data if isinstance(data, str) else json.dumps(data, indent=2, ensure_ascii=False)
        lines += ["data:", *(f"  {line}" for line in shown.splitlines())]
    return Decoded(key_text, "".join(f"\n    {line}" for line in lines), None, {**event.attributes, "data": data})


def _order(event: Event) -> list[str]:
    return [name for name in _FIRST if name in event.attributes] + sorted(set(event.attributes) - set(_FIRST))


def _data(event: Event) -> Any:
    """JSON data as what it is, other data as text."""
    if event.data is None:
        return None
    if is_json(event.attributes.get("datacontenttype", "application/json")):
        try:
            return json.loads(event.data)
        except ValueError:
            pass
    return event.data.decode("utf-8", "replace")
