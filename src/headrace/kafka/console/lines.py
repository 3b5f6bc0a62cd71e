"""What a line of input means: a value, a key and a value, a record in JSON, or a CloudEvent."""

from __future__ import annotations

import json
import time
import uuid
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.base.clock import Clock
from headrace.base.errors import UsageError
from headrace.core.contract import ContentMode
from headrace.core.events.jsonformat import decode
from headrace.core.events.kafka import encode_record, record_key
from headrace.core.events.model import Event, InvalidEvent

Header = tuple[str, bytes | None]
_FIELDS = {"key", "value", "headers", "partition", "timestamp"}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One record to produce; `partition` None: where its key belongs, `timestamp` (ms) None: now."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = field(default=())
    partition: int | None = None
    timestamp: int | None = None


Parser = Callable[[str, int], Outgoing]
"""A line without its end, and its number for errors -> the record. Raises `UsageError`."""


def plain(separator: str = "", null: str | None = None) -> Parser:
    """Values, or with `separator` keys and values. A key or value equal to `null` becomes a null one (a tombstone)."""

    def parse(line: str, number: int) -> Outgoing:
        key: str | None = None
        value = line
        if separator:
            key, found, value = line.partition(separator)
            if not found:
                raise UsageError(f"no key separator {separator!r} in {line[:40]!r}", subject=f"line {number}")
        raw = [None if part is None or part == null else part.encode() for part in (key, value)]
        return Outgoing(raw[0], raw[1])

    return parse


def json_record(line: str, number: int) -> Outgoing:
    """An object with `value`, `key`, `headers` (an object, or a list of pairs), `partition`, `timestamp`, all optional.

    Keys, values and headers are texts, null, `{"base64": ...}`, or other JSON, which is written as JSON.
    """
    try:
        raw = json.loads(line)
    except ValueError as error:
        raise UsageError(f"not JSON: {error}", subject=f"line {number}") from None
    if not isinstance(raw, dict) or not raw.keys() <= _FIELDS:
        raise UsageError(f"expected an object with {', '.join(sorted(_FIELDS))}", subject=f"line {number}")
    headers = raw.get("headers") or {}
    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    try:
        found = [(str(name), _content(value)) for name, value in pairs]
        partition, timestamp = (None if raw.get(name) is None else int(raw[name]) for name in ("partition", "timestamp"))
    except (ValueError, TypeError) as error:
        raise UsageError(f"headers, partition or timestamp are not as expected ({error})", subject=f"line {number}") from None
    return Outgoing(_content(raw.get("key")), _content(raw.get("value")), found, partition, timestamp)


def cloudevents(kind: str, source: str, mode: ContentMode, clock: Clock) -> Parser:
    """Events in the JSON format; with `kind` (their type) and `source` instead data, around which an event is made."""

    def parse(line: str, number: int) -> Outgoing:
        try:
            event = _around(line, kind, source, clock) if kind else decode(line.encode())
        except InvalidEvent as error:
            hint = "" if kind else "With --type, lines are data and the events are made around them"
            raise UsageError(f"not a CloudEvent: {error}", subject=f"line {number}", hint=hint) from None
        headers, value = encode_record(event, mode)
        return Outgoing(record_key(event), value, headers)

    return parse


def _around(data: str, kind: str, source: str, clock: Clock) -> Event:
    try:
        json.loads(data)
        media_type = "application/json"
    except ValueError:
        media_type = "text/plain"
    seconds = clock.now()
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"
    attributes = {"specversion": "1.0", "id": str(uuid.uuid4()), "source": source, "type": kind}
    return Event({**attributes, "time": moment, "datacontenttype": media_type}, data.encode())


def _content(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return b64decode(value["base64"], validate=True)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
