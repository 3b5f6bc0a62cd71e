"""Message sets, magic 0 and 1: what Kafka wrote before 0.11, still found in old segments.

Layout: Kafka, `org.apache.kafka.common.record.LegacyRecord` and `AbstractLegacyRecordBatch`. An entry is one message, or with compression
a wrapper whose value is a message set; in magic 1 the wrapper's offset is that of its last message and theirs count from 0.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.kafka.log.batch import CODECS, LOG_OVERHEAD
from headrace.kafka.log.compression import decompress
from headrace.kafka.log.damage import CorruptRecords

ENTRY = struct.Struct(">qiIbb")
MIN_RECORD = 14
"""Bytes of the smallest message after its offset and size: CRC, magic, attributes, two lengths."""
_LENGTH = struct.Struct(">i")
_TIMESTAMP = struct.Struct(">q")
_CRC_START = 16


@dataclass(frozen=True, slots=True)
class Message:
    """One entry at `position` of its file. `timestamp` is -1 in magic 0; `valid` says that the CRC is right."""

    position: int
    size: int
    offset: int
    magic: int
    crc: int
    attributes: int
    timestamp: int
    valid: bool
    key: bytes | None
    value: bytes | None

    @property
    def last_offset(self) -> int:
        return self.offset

    @property
    def codec_name(self) -> str:
        number = self.attributes & 0x07
        return CODECS[number].value if number < len(CODECS) else f"unknown({number})"

    @property
    def timestamp_type(self) -> str:
        if self.magic == 0:
            return "NoTimestampType"
        return "LogAppendTime" if self.attributes & 0x08 else "CreateTime"


def parse_message(data: bytes, start: int, size: int, position: int) -> Message:
    """The entry in `data[start : start + size]`. Raises `CorruptRecords` when its lengths do not fit its size."""
    offset, _, crc, magic, attributes = ENTRY.unpack_from(data, start)
    end = start + size
    cursor = start + ENTRY.size
    timestamp = -1
    try:
        if magic == 1:
            (timestamp,) = _TIMESTAMP.unpack_from(data, cursor)
            cursor += _TIMESTAMP.size
        key, cursor = _nullable(data, cursor, end)
        value, cursor = _nullable(data, cursor, end)
    except (struct.error, ValueError) as error:
        raise CorruptRecords("message lengths do not fit its size") from error
    valid = crc == zlib.crc32(data[start + _CRC_START : end])
    return Message(position, size, offset, magic, crc, attributes, timestamp, valid, key, value)


def messages_of(entry: Message) -> Iterator[Message]:
    """The messages that `entry` stands for: itself, or what its value wraps, with absolute offsets and the wrapper's timestamps.

    Raises `CorruptRecords` for a wrapper that can't be read.
    """
    if not entry.attributes & 0x07:
        yield entry
        return
    inner = list(_unwrap(entry))
    if not inner:
        raise CorruptRecords("compressed message without content")
    base = entry.offset - inner[-1].offset if entry.magic == 1 else 0
    for message in inner:
        attributes, timestamp = message.attributes, message.timestamp
        if entry.magic == 1 and entry.attributes & 0x08:
            attributes, timestamp = attributes | 0x08, entry.timestamp
        yield Message(
            entry.position,
            message.size,
            base + message.offset,
            message.magic,
            message.crc,
            attributes,
            timestamp,
            message.valid,
            message.key,
            message.value,
        )


def _unwrap(entry: Message) -> Iterator[Message]:
    if entry.value is None:
        raise CorruptRecords("compressed message without content")
    if entry.magic == 0 and entry.codec_name == "lz4":
        raise CorruptRecords("lz4 in magic 0 is not supported: its frames have a wrong checksum by design")
    data = b"".join(decompress(entry.codec_name, entry.value))
    start = 0
    while start < len(data):
        if start + LOG_OVERHEAD + MIN_RECORD > len(data):
            raise CorruptRecords("wrapped message cut short")
        (length,) = _LENGTH.unpack_from(data, start + 8)
        size = LOG_OVERHEAD + length
        if length < MIN_RECORD or start + size > len(data):
            raise CorruptRecords("wrapped message with an impossible size")
        yield parse_message(data, start, size, entry.position)
        start += size


def _nullable(data: bytes, cursor: int, end: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(data, cursor)
    cursor += _LENGTH.size
    if length < 0:
        return None, cursor
    if cursor + length > end:
        raise ValueError("beyond the end")
    return data[cursor : cursor + length], cursor + length
