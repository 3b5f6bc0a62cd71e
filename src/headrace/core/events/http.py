"""CloudEvents over HTTP (HTTP protocol binding 1.0.2): requests, responses, and what we send.

Header lines are in libcurl's form, since that is who sends them: `name: value`, `name;` for an empty value, and `content-type:`
to send none at all. `split_line` gives the pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.core.events import jsonformat
from headrace.core.events.attributes import check, check_name, check_text
from headrace.core.events.model import TRACING, Event, InvalidEvent

NO_CONTENT_TYPE = "content-type:"
"""The line that keeps libcurl from making up a content type of its own."""

_STRUCTURED_LINE = f"content-type: {jsonformat.MEDIA_TYPE}; charset=UTF-8"
_UNSAFE = re.compile(r"[^!#$&-~]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_BACKSLASH = re.compile(r"\\(.)")

_CONTENT_TYPE = "content-type"
_FORMAT_PREFIX = "application/cloudevents"
_IGNORED = ""
_KNOWN_LIMIT = 4096
_known: dict[str, str] = {}
"""Header names seen, as they came, to the attribute they stand for; `_IGNORED`, or a tracing header with a hyphen in front."""


def decode_request(headers: Iterable[tuple[str, str]], body: bytes) -> list[Event]:
    """The events of a POST: one, or those of a batch (maybe none). Header names in any case.

    Raises `InvalidEvent` (to be answered 400) if the event, or any event of the batch, is not valid.
    """
    attributes, passthrough = _read_headers(headers)
    media_type = attributes.get("datacontenttype")
    if media_type is not None and is_cloudevents(media_type):
        return _decode_format(media_type, body, passthrough)
    return [_decode_binary(attributes, body, passthrough)]


def decode_response(status: int, headers: Iterable[tuple[str, str]], body: bytes) -> Event | None:
    """The reply in a response, or None where it holds no event.

    None for every status but 2xx, for 202 (never a reply), and for a response without `ce-specversion` and without a CloudEvents
    content type, whatever its body. Raises `InvalidEvent` for an event that is broken, and for a batch, which nobody asked for.
    """
    if not 200 <= status < 300 or status == 202:
        return None
    pairs = [(name.lower(), value) for name, value in headers]
    if not any(name == "ce-specversion" or (name == _CONTENT_TYPE and is_cloudevents(value)) for name, value in pairs):
        return None
    if any(name == _CONTENT_TYPE and value[:29].lower() == f"{_FORMAT_PREFIX}-batch" for name, value in pairs):
        raise InvalidEvent("a batch is not taken as a reply", subject=_CONTENT_TYPE)
    return decode_request(pairs, body)[0]


def is_cloudevents(media_type: str) -> bool:
    """Whether a content type says that the body is in an event format (structured or batch) and not event data."""
    return media_type[:23].lower() == _FORMAT_PREFIX


def encode_binary(event: Event) -> tuple[list[str], bytes]:
    """Header lines and body of `event` in binary mode; the body is empty where the event has no data."""
    lines = [attribute_line(name, value) for name, value in event.attributes.items()]
    if "datacontenttype" not in event.attributes:
        lines.append(NO_CONTENT_TYPE)
    lines += [f"{name}: {value}" for name, value in event.passthrough]
    return lines, event.data or b""


def encode_structured(event: Event) -> tuple[list[str], bytes]:
    """Header lines and body of `event` in structured mode (JSON)."""
    return [_STRUCTURED_LINE, *(f"{name}: {value}" for name, value in event.passthrough)], jsonformat.encode(event)


def attribute_line(name: str, value: str) -> str:
    """The header line of one attribute in binary mode."""
    if name == "datacontenttype":
        return f"{_CONTENT_TYPE}: {value}"
    return f"ce-{name}: {encode_value(value)}" if value else f"ce-{name};"


def split_line(line: str) -> tuple[str, str] | None:
    """Name and value of a header line, None for a line that says that a header is not to be sent."""
    name, colon, value = line.partition(":")
    if not colon:
        return name.removesuffix(";"), ""
    return (name, value.strip()) if value else None


def encode_value(value: str) -> str:
    """`value` percent-encoded for a header (section 3.1.3.2)."""
    if _UNSAFE.search(value) is None:
        return value
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), value)


def decode_value(name: str, value: str) -> str:
    """The attribute value in a header value: unquoted, then percent-decoded once (section 3.1.3.2). Raises `InvalidEvent`."""
    if not value.isascii():
        raise InvalidEvent("a character outside ASCII must be percent-encoded in a header", subject=name)
    if value.startswith('"'):
        quoted = _QUOTED.fullmatch(value)
        if quoted is None:
            raise InvalidEvent("a quoted value must end with its quotation mark", subject=name)
        value = _BACKSLASH.sub(r"\1", quoted[1])
    if "%" in value:
        value = _percent_decode(name, value)
    return check_text(name, value)


def _percent_decode(name: str, value: str) -> str:
    out = bytearray()
    end = 0
    for found in _ESCAPE.finditer(value):
        if found[1] is None:
            raise InvalidEvent("'%' must be followed by two hexadecimal digits", subject=name)
        out += value[end : found.start()].encode()
        out.append(int(found[1], 16))
        end = found.end()
    out += value[end:].encode()
    try:
        return out.decode()
    except UnicodeDecodeError:
        raise InvalidEvent("the percent-encoded bytes are not UTF-8", subject=name) from None


def _read_headers(headers: Iterable[tuple[str, str]]) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """The raw values of all `ce-` headers and the content type by attribute name, and the tracing headers."""
    attributes: dict[str, str] = {}
    passthrough: tuple[tuple[str, str], ...] = ()
    known = _known
    for name, value in headers:
        attribute = known.get(name)
        if attribute is None:
            attribute = _learn(name)
        if attribute == _IGNORED:
            continue
        if attribute[0] == "-":
            if value and value.isascii() and value.isprintable():
                passthrough += ((attribute[1:], value),)
        elif attribute in attributes:
            raise InvalidEvent("the header occurs twice", subject=name)
        else:
            attributes[attribute] = value
    return attributes, passthrough


def _learn(header: str) -> str:
    name = header.lower()
    if name == _CONTENT_TYPE:
        attribute = "datacontenttype"
    elif name in TRACING:
        attribute = f"-{name}"
    elif name.startswith("ce-"):
        attribute = name[3:]
        if attribute == "datacontenttype":
            raise InvalidEvent("must not be sent: the content type is in Content-Type", subject=name)
        check_name(attribute)
    else:
        attribute = _IGNORED
    if len(_known) < _KNOWN_LIMIT and len(header) <= 64:
        _known[header] = attribute
    return attribute


def _decode_binary(attributes: dict[str, str], body: bytes, passthrough: tuple[tuple[str, str], ...]) -> Event:
    text = "".join(attributes.values())
    if "%" in text or '"' in text or not (text.isascii() and text.isprintable()):
        for name, value in attributes.items():
            if name != "datacontenttype":
                attributes[name] = decode_value(name, value)
    if attributes.get("datacontenttype") == "":
        del attributes["datacontenttype"]
    check(attributes)
    return Event(attributes, body or None, passthrough)


def _decode_format(media_type: str, body: bytes, passthrough: tuple[tuple[str, str], ...]) -> list[Event]:
    essence = media_type.partition(";")[0].strip().lower()
    if essence == jsonformat.MEDIA_TYPE:
        return [jsonformat.decode(body, passthrough)]
    if essence == jsonformat.BATCH_MEDIA_TYPE:
        return jsonformat.decode_batch(body, passthrough)
    raise InvalidEvent(
        f"the event format {essence!r} is not read",
        subject=_CONTENT_TYPE,
        hint=f"Use binary mode, {jsonformat.MEDIA_TYPE} or {jsonformat.BATCH_MEDIA_TYPE}",
    )
