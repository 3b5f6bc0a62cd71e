"""From a frame to what is sent, in one pass, for events as most are; anything unusual goes the long way (`core.frame`, `core.events`).

Both ways give the same. This one is there because an event passes here once, whatever the number of lanes: it costs about two thirds of the
long way. Values that repeat from event to event (types, sources, subjects) are turned into header lines once.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from headrace.core.events.http import NO_CONTENT_TYPE, is_cloudevents
from headrace.core.events.kafka import header_role, record_to_http
from headrace.core.events.model import VERSIONS
from headrace.core.frame import Frame, parse_frame

_HEAD = Struct(">iqqi")
_HEAD_SIZE = _HEAD.size
_int_at: Callable[[bytes, int], tuple[int]] = Struct(">i").unpack_from
_REPEATING = frozenset({"specversion", "type", "source", "subject", "datacontenttype", "dataschema", "partitionkey"})
_MOST_VALUES = 1024
_MOST_NAMES = 256
_LONGEST_VALUE = 256


class Decoded(NamedTuple):
    """An event ready to be sent in binary mode, and where it stands in Kafka."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    attributes: dict[str, str]
    lines: list[str]
    body: bytes


class _Role:
    """What a header name means: the attribute, how its header line begins, and for those that repeat the lines made so far."""

    __slots__ = ("attribute", "known", "start")

    def __init__(self, name: bytes) -> None:
        self.attribute, self.start = header_role(name)
        self.known: dict[bytes, tuple[str, str]] | None = {} if self.attribute in _REPEATING else None

    def learn(self, raw: bytes) -> tuple[str, str]:
        """Text and header line of a value; raises `_Unusual`."""
        text = raw.decode("ascii")
        if self.attribute == "datacontenttype":
            if not text or not text.isprintable() or is_cloudevents(text):
                raise _Unusual
        elif not text or not _is_plain(text):
            raise _Unusual
        made = text, self.start + text
        if self.known is not None and len(self.known) < _MOST_VALUES and len(raw) <= _LONGEST_VALUE:
            self.known[raw] = made
        return made


class _Unusual(Exception):
    """Not for the short way."""


_roles: dict[bytes, _Role] = {}


def decode(raw: bytes) -> Decoded:
    """The event in a frame; raises `Terminal` when it is no frame, `InvalidEvent` when it holds no event."""
    try:
        return _shortly(raw)
    except (_Unusual, StructError, UnicodeDecodeError):
        return decode_frame(parse_frame(raw))


def decode_frame(frame: Frame) -> Decoded:
    """The event in a parsed frame; raises `InvalidEvent`."""
    partition, offset, timestamp, key, headers, value = frame
    attributes, lines, body = record_to_http(headers, value)
    return Decoded(partition, offset, timestamp, key, attributes, lines, body)


def place_of(raw: bytes) -> tuple[int, int]:
    """Partition and offset of the record in a frame, whatever else is in it."""
    frame = parse_frame(raw)
    return frame.partition, frame.offset


def _shortly(raw: bytes) -> Decoded:
    partition, offset, timestamp, length = _HEAD.unpack_from(raw)
    int_at = _int_at
    at = _HEAD_SIZE
    key = None
    if length >= 0:
        key = raw[at : at + length]
        at += length
    (count,) = int_at(raw, at)
    at += 4
    attributes: dict[str, str] = {}
    lines: list[str] = []
    tracing: list[str] = []
    fresh = ""
    roles = _roles
    for _ in range(count):
        (length,) = int_at(raw, at)
        at += 4
        end = at + length
        name = raw[at:end]
        (length,) = int_at(raw, end)
        at = end + 4
        if length < 0:
            raise _Unusual
        end = at + length
        role = roles.get(name) or _role(name)
        attribute = role.attribute
        known = role.known
        if known is not None:
            value = raw[at:end]
            made = known.get(value) or role.learn(value)
            attributes[attribute] = made[0]
            lines.append(made[1])
        elif attribute:
            text = raw[at:end].decode("ascii")
            if not text:
                raise _Unusual
            if attribute == "-":
                if not text.isprintable():
                    raise _Unusual
                tracing.append(role.start + text)
            else:
                fresh += text
                attributes[attribute] = text
                lines.append(role.start + text)
        at = end
    (length,) = int_at(raw, at)
    at += 4
    if (length >= 0 and at + length != len(raw)) or (length < 0 and at != len(raw)):
        raise _Unusual
    get = attributes.get
    if len(lines) != len(attributes) or not _is_plain(fresh) or get("specversion") not in VERSIONS:
        raise _Unusual
    if not ("id" in attributes and "type" in attributes and "source" in attributes):
        raise _Unusual
    if "datacontenttype" not in attributes:
        lines.append(NO_CONTENT_TYPE)
    if tracing:
        lines += tracing
    return Decoded(partition, offset, timestamp, key, attributes, lines, raw[at:])


def _role(name: bytes) -> _Role:
    role = _Role(name)
    if len(_roles) < _MOST_NAMES and len(name) <= 64:
        _roles[name] = role
    return role


def _is_plain(text: str) -> bool:
    """Whether nothing in a value needs encoding in a header."""
    return " " not in text and "%" not in text and '"' not in text and text.isprintable()
