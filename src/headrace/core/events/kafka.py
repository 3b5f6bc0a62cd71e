"""CloudEvents in Kafka records (Kafka protocol binding 1.0.2): binary and structured, there is no batch.

Reading takes what others wrote: values of attributes need not have the form that the specification gives them (a `time`, a
`source`), but names, UTF-8 and the required attributes must be right. The record's key is no attribute and makes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headrace.core.contract import ContentMode
from headrace.core.events import http, jsonformat
from headrace.core.events.attributes import check_name, check_required, check_text
from headrace.core.events.model import TRACING, Event, InvalidEvent

Headers = Sequence[tuple[str, bytes | None]]

_STRUCTURED = [("content-type", f"{jsonformat.MEDIA_TYPE}; charset=UTF-8".encode())]
_CONTENT_TYPE = "datacontenttype"
_TRACING = "-"
_KNOWN_LIMIT = 4096
_known: dict[str | bytes, tuple[str, str]] = {}
"""Header names seen to (attribute, start of its HTTP header line); ("", "") is ignored, (`_TRACING`, start) is no attribute."""


class HttpEvent(NamedTuple):
    """An event on its way to a subscriber: what filters look at, the header lines in binary mode, the body."""

    attributes: dict[str, str]
    lines: list[str]
    body: bytes


def record_key(event: Event) -> bytes | None:
    """The key of an event's record: its `partitionkey`, else its `subject`, else none; empty counts as absent."""
    get = event.attributes.get
    key = get("partitionkey") or get("subject")
    return key.encode() if key else None


def encode_record(event: Event, mode: ContentMode = ContentMode.BINARY) -> tuple[list[tuple[str, bytes]], bytes | None]:
    """Headers and value of the record of `event`; the value of an event without data is None in binary mode."""
    value: bytes | None
    if mode is ContentMode.STRUCTURED:
        headers, value = list(_STRUCTURED), jsonformat.encode(event)
    else:
        headers = [
            ("content-type" if name == _CONTENT_TYPE else "ce_" + name, value.encode())
            for name, value in event.attributes.items()
        ]
        value = event.data
    for name, text in event.passthrough:
        headers.append((name, text.encode()))
    return headers, value


def decode_record(headers: Headers, value: bytes | None, key: bytes | None = None) -> Event:
    """The event of a record. A header that occurs twice counts as it stands last; one with a null value is absent.

    Raises `InvalidEvent` for a record that holds none: it is to be counted and skipped.
    """
    attributes: dict[str, str] = {}
    passthrough: tuple[tuple[str, str], ...] = ()
    for name, raw in headers:
        attribute, _ = _known.get(name) or _learn(name)
        if raw is None or not attribute:
            continue
        text = _decode(name, raw)
        if attribute == _TRACING:
            if text.isascii() and text.isprintable():
                passthrough += ((name.lower(), text),)
        else:
            attributes[attribute] = text
    media_type = attributes.get(_CONTENT_TYPE, "")
    if http.is_cloudevents(media_type):
        if value is not None:
            return _decode_structured(attributes, value, media_type, passthrough)
        del attributes[_CONTENT_TYPE]
    return _decode_binary(attributes, value, passthrough)


def record_to_http(headers: Iterable[tuple[str | bytes, bytes | None]], value: bytes | None) -> HttpEvent:
    """The event of a record, ready to be sent in binary mode: `decode_record` and `http.encode_binary` in one pass.

    Header names may be bytes, as they stand in a frame. Raises `InvalidEvent`.
    """
    attributes: dict[str, str] = {}
    lines: list[str] = []
    tracing: list[str] = []
    content_type = None
    headers = list(headers)
    try:
        for name, raw in headers:
            attribute, start = _known.get(name) or _learn(name)
            if not attribute:
                continue
            text = raw.decode("ascii")  # type: ignore[union-attr]  # null goes the slow way, like all that is rare
            if attribute == _TRACING:
                tracing.append(start + text)
                continue
            lines.append(start + text)
            if attribute == _CONTENT_TYPE:
                content_type = text
            else:
                attributes[attribute] = text
    except (AttributeError, UnicodeDecodeError):
        return _slowly(headers, value)
    if not _is_plain(attributes, len(lines) - (content_type is not None)):
        return _slowly(headers, value)
    if tracing:
        if not "".join(tracing).isprintable():
            return _slowly(headers, value)
        lines += tracing
    if content_type is None:
        lines.append(http.NO_CONTENT_TYPE)
    elif content_type and content_type.isprintable() and not http.is_cloudevents(content_type):
        attributes[_CONTENT_TYPE] = content_type
    else:
        return _slowly(headers, value)
    check_required(attributes)
    return HttpEvent(attributes, lines, value or b"")


def header_role(name: str | bytes) -> tuple[str, str]:
    """What a header's name means: its attribute and how the HTTP header line of its value begins.

    ("", "") for one that is no part of the event, ("-", start) for a tracing header. Raises `InvalidEvent`.
    """
    return _known.get(name) or _learn(name)


def _is_plain(attributes: dict[str, str], headers: int) -> bool:
    """Whether no value needs encoding, none is empty and no header came twice."""
    values = attributes.values()
    text = "".join(values)
    return (
        len(attributes) == headers
        and "" not in values
        and " " not in text
        and "%" not in text
        and '"' not in text
        and text.isprintable()
    )


def _slowly(headers: Iterable[tuple[str | bytes, bytes | None]], value: bytes | None) -> HttpEvent:
    named = [(_decode("header name", name) if isinstance(name, bytes) else name, raw) for name, raw in headers]
    event = decode_record(named, value)
    lines, body = http.encode_binary(event)
    return HttpEvent(event.attributes, lines, body)


def _learn(header: str | bytes) -> tuple[str, str]:
    name = (_decode("header name", header) if isinstance(header, bytes) else header).lower()
    if name == "content-type":
        known = (_CONTENT_TYPE, f"{name}: ")
    elif name in TRACING:
        known = (_TRACING, f"{name}: ")
    elif name.startswith("ce_"):
        attribute = name[3:]
        if attribute == _CONTENT_TYPE:
            raise InvalidEvent("the content type belongs into the header content-type", subject=name)
        known = (check_name(attribute), f"ce-{attribute}: ")
    else:
        known = ("", "")
    if len(_known) < _KNOWN_LIMIT and len(header) <= 64:
        _known[header] = known
    return known


def _decode(name: str, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise InvalidEvent("is not UTF-8", subject=name) from None


def _decode_structured(
    attributes: dict[str, str], value: bytes, media_type: str, passthrough: tuple[tuple[str, str], ...]
) -> Event:
    """The event of a record with a CloudEvents content type; a format that is not read passes as data if headers say the rest."""
    if media_type.partition(";")[0].strip().lower() == jsonformat.MEDIA_TYPE:
        return jsonformat.decode(value, passthrough)
    try:
        return _decode_binary(attributes, value, passthrough)
    except InvalidEvent:
        raise InvalidEvent(f"the event format {media_type!r} is not read", subject="content-type") from None


def _decode_binary(attributes: dict[str, str], value: bytes | None, passthrough: tuple[tuple[str, str], ...]) -> Event:
    text = "".join(attributes.values())
    if not (text.isascii() and text.isprintable()):
        for name, content in attributes.items():
            check_text(name, content)
    media_type = attributes.get(_CONTENT_TYPE)
    if media_type is not None:
        if not media_type:
            del attributes[_CONTENT_TYPE]
        elif not media_type.isascii():
            raise InvalidEvent("a media type is ASCII", subject="content-type")
    check_required(attributes)
    return Event(attributes, value, passthrough)
