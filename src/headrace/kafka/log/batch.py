"""One record batch (magic 2) of a segment: its header and where its records are.

Layout: Kafka, `org.apache.kafka.common.record.DefaultRecordBatch`; 61 bytes of header, big-endian, then the records, compressed as one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import StrEnum

import google_crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
OVERHEAD = HEADER.size
"""Bytes before the records: 61."""
LOG_OVERHEAD = 12
"""Bytes of every entry of a segment that its own size field does not count: offset and size."""
_CRC_START = 21
_INT_MAX = 2**31 - 1


class Codec(StrEnum):
    """Compression, in the order of its numbers in the attributes."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


CODECS = tuple(Codec)


def wrap_sequence(sequence: int, increment: int) -> int:
    """`sequence + increment`, starting again at 0 after 2^31 - 1."""
    return (sequence + increment) & _INT_MAX


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch at `position` of its file; `data[start:end]` are its records as they are on disk."""

    position: int
    size: int
    base_offset: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    valid: bool
    data: bytes
    start: int
    end: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        return self.sequence(self.last_offset_delta)

    def sequence(self, delta: int) -> int:
        """Sequence number of the record at offset `delta`, -1 without idempotence."""
        return -1 if self.base_sequence == -1 else wrap_sequence(self.base_sequence, delta)

    @property
    def codec_name(self) -> str:
        number = self.attributes & 0x07
        return CODECS[number].value if number < len(CODECS) else f"unknown({number})"

    @property
    def timestamp_type(self) -> str:
        return "LogAppendTime" if self.attributes & 0x08 else "CreateTime"

    def timestamp(self, delta: int) -> int:
        """Time of a record in ms: the batch's append time, or its first record's plus `delta`."""
        return self.max_timestamp if self.attributes & 0x08 else self.base_timestamp + delta

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & 0x10)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & 0x20)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the tombstones and markers in it may be dropped, once the cleaner has seen them; then also the base of timestamps."""
        return self.base_timestamp if self.attributes & 0x40 else None


def parse_batch(data: bytes, start: int, size: int, position: int) -> Batch:
    """The batch in `data[start : start + size]`; `position` is that of its first byte in the file. Checks the CRC, raises nothing."""
    (
        base_offset,
        _,
        epoch,
        magic,
        crc,
        attributes,
        last_delta,
        first_time,
        last_time,
        producer,
        producer_epoch,
        sequence,
        count,
    ) = HEADER.unpack_from(data, start)
    end = start + size
    return Batch(
        position,
        size,
        base_offset,
        epoch,
        magic,
        crc,
        attributes,
        last_delta,
        first_time,
        last_time,
        producer,
        producer_epoch,
        sequence,
        count,
        crc == google_crc32c.value(data[start + _CRC_START : end]),
        data,
        start + OVERHEAD,
        end,
    )
