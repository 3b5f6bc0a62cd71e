"""Segments made by hand: batches and message sets as Kafka would write them, and as it never would."""

from __future__ import annotations

import gzip
import struct
import zlib
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import google_crc32c
import pyarrow

from headrace.kafka.log.batch import CODECS
from headrace.kafka.log.schema import Field, Message
from headrace.kafka.log.varint import write_signed, write_unsigned

Headers = Sequence[tuple[str, bytes | None]]
_FRAMED: dict[str, Literal["lz4", "zstd"]] = {"lz4": "lz4", "zstd": "zstd"}
NOW = 1_700_000_000_000


@dataclass(frozen=True)
class Record:
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    delta: int | None = None
    """Offset within the batch; None: one after the record before."""
    time: int = 0


def record(item: Record, delta: int) -> bytes:
    body = b"\0" + write_signed(item.time) + write_signed(delta) + _field(item.key) + _field(item.value)
    body += write_signed(len(item.headers)) + b"".join(_field(name.encode()) + _field(value) for name, value in item.headers)
    return write_signed(len(body)) + body


def batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: str = "none",
    attributes: int = 0,
    base_time: int = NOW,
    producer: tuple[int, int, int] = (-1, -1, -1),
    epoch: int = 0,
    count: int | None = None,
) -> bytes:
    """One batch of magic 2. `producer`: id, epoch, base sequence. `count`: what the header claims, if not the truth."""
    deltas, last = [], -1
    for item in records:
        last = last + 1 if item.delta is None else item.delta
        deltas.append(last)
    content = compress(codec, b"".join(record(item, delta) for item, delta in zip(records, deltas, strict=True)))
    newest = base_time + max((item.time for item in records), default=0)
    tail = struct.pack(
        ">hiqqqhii",
        attributes | CODECS.index(codec),
        max(last, 0),
        base_time,
        newest,
        *producer,
        len(records) if count is None else count,
    )
    checked = tail + content
    return struct.pack(">qiibI", base_offset, len(checked) + 9, epoch, 2, google_crc32c.value(checked)) + checked


def message(
    offset: int, key: bytes | None, value: bytes | None, *, magic: int = 1, attributes: int = 0, time: int = NOW
) -> bytes:
    """One entry of a message set of magic 0 or 1."""
    checked = struct.pack(">bb", magic, attributes) + (struct.pack(">q", time) if magic else b"")
    checked += b"".join(struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part for part in (key, value))
    return struct.pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked)) + checked


def compress(codec: str, data: bytes, *, framed: bool = True) -> bytes:
    """`data` as Kafka's clients compress it; `framed` False: snappy as one raw block, as librdkafka does it."""
    if codec == "none":
        return data
    if codec == "gzip":
        return gzip.compress(data)
    if codec in _FRAMED:
        sink = pyarrow.BufferOutputStream()
        with pyarrow.CompressedOutputStream(sink, _FRAMED[codec]) as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()
    engine = pyarrow.Codec("snappy")
    if not framed:
        return bytes(engine.compress(data, asbytes=True))
    blocks = [bytes(engine.compress(data[at : at + 32768], asbytes=True)) for at in range(0, len(data), 32768)]
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


_FIXED = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d"}


def encode(definition: Message, version: int, value: dict[str, Any]) -> bytes:
    """A generated message on the wire, `value` as `message.decode` gives it; a tagged field that `value` has not is left out."""
    return _structure(definition.fields, version, version in definition.flexible, value)


def _structure(fields: Sequence[Field], version: int, flexible: bool, value: dict[str, Any]) -> bytes:
    known = [field for field in fields if version in field.versions]
    out = b"".join(_value(field, version, flexible, value[field.name]) for field in known if field.tag is None)
    if not flexible:
        return out
    tagged = sorted(
        (field for field in known if field.tag is not None and field.name in value), key=lambda field: field.tag or 0
    )
    out += write_unsigned(len(tagged))
    for field in tagged:
        content = _value(field, version, flexible, value[field.name])
        out += write_unsigned(field.tag or 0) + write_unsigned(len(content)) + content
    return out


def _value(field: Field, version: int, flexible: bool, value: Any) -> bytes:
    if not field.array:
        return _single(field, version, flexible, value)
    if value is None:
        return _length(-1, flexible, 4)
    return _length(len(value), flexible, 4) + b"".join(_single(field, version, flexible, item) for item in value)


def _single(field: Field, version: int, flexible: bool, value: Any) -> bytes:
    if field.fields:
        inner = b"" if value is None else _structure(field.fields, version, flexible, value)
        if not field.nullable or field.array:
            return inner
        return (b"\x00" if field.tag is not None else b"\xff") if value is None else b"\x01" + inner
    if field.kind == "uuid":
        return urlsafe_b64decode(value + "==")
    if field.kind in _FIXED:
        return struct.pack(">" + _FIXED[field.kind], value)
    width = 4 if field.kind == "bytes" else 2
    if value is None:
        return _length(-1, flexible, width)
    content = value.encode() if isinstance(value, str) else value
    return _length(len(content), flexible, width) + content


def _length(length: int, flexible: bool, width: int) -> bytes:
    return write_unsigned(length + 1) if flexible else struct.pack(">i" if width == 4 else ">h", length)


def _field(value: bytes | None) -> bytes:
    return write_signed(-1) if value is None else write_signed(len(value)) + value
