"""Records as lines of text, in the form of Kafka's console consumer, or as JSON."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from headrace.kafka.console.consuming import Incoming

_NULL = "null"


def line(record: Incoming, *, wide: bool, value_only: bool = False) -> str:
    """`Partition:0<TAB>Offset:3<TAB>key<TAB>value`; `wide` puts the timestamp and the headers before the key."""
    if value_only:
        return _text(record.value)
    kind = "LogAppendTime" if record.append_time else "CreateTime"
    parts = [f"{kind}:{record.timestamp}"] if wide else []
    parts += [f"Partition:{record.partition}", f"Offset:{record.offset}"]
    if wide:
        parts.append(",".join(f"{name}:{_text(value)}" for name, value in record.headers) or "NO_HEADERS")
    return "\t".join([*parts, _text(record.key), _text(record.value)])


def as_data(record: Incoming) -> dict[str, Any]:
    """All of it; bytes that are not UTF-8 are `{"base64": ...}`, as `lines.json_record` reads them."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestampType": "LogAppendTime" if record.append_time else "CreateTime",
        "key": _plain(record.key),
        "value": _plain(record.value),
        "headers": [[name, _plain(value)] for name, value in record.headers],
    }


def _text(value: bytes | None) -> str:
    return _NULL if value is None else value.decode("utf-8", "replace")


def _plain(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}
