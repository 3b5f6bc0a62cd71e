"""The common request turned into a Kafka record in one pass: binary mode, nothing that needs decoding.

What is not common is left to `core.events`, which decides alone what is valid; here only a part of the valid is recognised.
Where this module gives a record it is the record that `core.events` gives (a property test holds the two together).
"""

from __future__ import annotations

from headrace.core.events.attributes import NAME, RESERVED, is_media_type, is_timestamp, is_uri_reference
from headrace.core.events.http import is_cloudevents
from headrace.core.events.model import TRACING, VERSIONS

Pairs = list[tuple[str, str]]

_IGNORED = ""
_LEARNED_LIMIT = 4096
_LEARNED_LENGTH = 64
_OTHER = frozenset({"ce_dataschema", "ce_schemaurl"})
"""Attributes whose values have a form that is not looked at here."""

_names: dict[str, str] = {}
"""HTTP header name in lower case -> Kafka header name, `_IGNORED` where the header is no part of an event."""


def to_record(items: Pairs) -> dict[str, str] | None:
    """The headers of the record of a binary-mode event, or None where `core.events` has to look at it.

    `items` are the header lines of a request: names in lower case, each once, values in visible ASCII, spaces and tabs. The record's
    value is the request's body, null where it is empty.
    """
    names = _names
    try:
        record = {names[name]: value for name, value in items}
    except KeyError:
        known = [(_learn(name), value) for name, value in items]
        if None in [name for name, _ in known]:
            return None
        record = {name: value for name, value in known if name is not None}
    record.pop(_IGNORED, None)
    get = record.get
    text = "".join(record.values())
    if "%" in text or '"' in text or "\t" in text or "" in record.values() or not _OTHER.isdisjoint(record):
        return None
    if not ("ce_id" in record and "ce_type" in record and get("ce_specversion") in VERSIONS):
        return None
    if not is_uri_reference(get("ce_source", "")):
        return None
    media_type = get("content-type")
    if media_type is not None and (is_cloudevents(media_type) or not is_media_type(media_type)):
        return None
    time = get("ce_time")
    return record if time is None or is_timestamp(time) else None


def _learn(name: str) -> str | None:
    """The Kafka header of an HTTP header; None where that is for `core.events` to say. Names are remembered, up to a limit."""
    if not name.startswith("ce-"):
        found = name if name in ("content-type", *TRACING) else _IGNORED
    else:
        attribute = name[3:]
        if attribute in ("datacontenttype", RESERVED) or NAME.fullmatch(attribute) is None:
            return None
        found = "ce_" + attribute
    if len(_names) < _LEARNED_LIMIT and len(name) <= _LEARNED_LENGTH:
        _names[name] = found
    return found
