"""The records within a batch of magic 2. This is the tool's hot loop: a segment of 1 GB may hold ten million of them.

Layout: Kafka, `org.apache.kafka.common.record.DefaultRecord`: length, attributes, timestamp delta, offset delta, key, value, headers; all
numbers but the attributes are zigzag varints.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.kafka.log.batch import Batch
from headrace.kafka.log.compression import decompress
from headrace.kafka.log.damage import CorruptRecords
from headrace.kafka.log.varint import read_signed

Headers = list[tuple[str, bytes | None]]
RawRecord = tuple[int, int, bytes | None, bytes | None, Headers]
"""Offset delta, timestamp delta, key, value, headers."""

_NO_HEADERS: Headers = []


def raw_records(batch: Batch) -> Iterator[list[RawRecord]]:
    """The records of `batch`, in lists of what one decompressed piece holds (`compression.PIECE`; an uncompressed batch is one list).

    Raises `CorruptRecords` where they stop to make sense, after the lists of those that do.
    """
    if batch.codec_name == "none":
        pieces: Iterator[bytes] = iter(())
        data, at, end = batch.data, batch.start, batch.end
    else:
        pieces = decompress(batch.codec_name, batch.data[batch.start : batch.end])
        data, at, end = b"", 0, 0
    left = batch.count
    while True:
        found: list[RawRecord] = []
        try:
            at = _parse(data, at, end, left, found)
        except (IndexError, ValueError) as error:
            yield found
            raise CorruptRecords(f"record {batch.count - left + len(found)} of {batch.count} is malformed") from error
        left -= len(found)
        yield found
        piece = next(pieces, None)
        if piece is None:
            break
        data, at = data[at:end] + piece, 0
        end = len(data)
    if left:
        raise CorruptRecords(f"ends after {batch.count - left} of {batch.count} records")
    if at < end:
        raise CorruptRecords(f"bytes after the last of {batch.count} records")


def _parse(data: bytes, at: int, end: int, limit: int, found: list[RawRecord]) -> int:
    """Append the records that lie whole in `data[at:end]`, `limit` at most, to `found`; returns where the first other one starts.

    The loops of `varint.read_signed` are unrolled for one and two bytes, which nearly all numbers have. Raises `IndexError` or
    `ValueError` for a record whose fields do not fill its length.
    """
    append = found.append
    for _ in range(limit):
        start = at
        try:
            length = data[at]
            at += 1
            if length > 0x7F:
                more = data[at]
                at += 1
                length = length & 0x7F | more << 7
                if more > 0x7F:
                    length, at = read_signed(data, start)
                    length <<= 1
        except IndexError:
            return start
        stop = at + (length >> 1)
        if stop > end:
            return start

        at += 1
        time = data[at]
        at += 1
        if time > 0x7F:
            more = data[at]
            at += 1
            time = time & 0x7F | more << 7
            if more > 0x7F:
                time, at = read_signed(data, at - 2)
                time = time << 1 if time >= 0 else ~(time << 1)
        delta = data[at]
        at += 1
        if delta > 0x7F:
            more = data[at]
            at += 1
            delta = delta & 0x7F | more << 7
            if more > 0x7F:
                delta, at = read_signed(data, at - 2)
                delta = delta << 1 if delta >= 0 else ~(delta << 1)

        size = data[at]
        at += 1
        if size > 0x7F:
            more = data[at]
            at += 1
            size = size & 0x7F | more << 7
            if more > 0x7F:
                size, at = read_signed(data, at - 2)
                size <<= 1
        if size & 1:
            key = None
        else:
            head = at
            at += size >> 1
            key = data[head:at]

        size = data[at]
        at += 1
        if size > 0x7F:
            more = data[at]
            at += 1
            size = size & 0x7F | more << 7
            if more > 0x7F:
                size, at = read_signed(data, at - 2)
                size <<= 1
        if size & 1:
            value = None
        else:
            head = at
            at += size >> 1
            value = data[head:at]

        count = data[at]
        at += 1
        if count == 0:
            headers = _NO_HEADERS
        else:
            headers, at = _headers(data, at - 1)
        if at != stop:
            raise ValueError("fields do not fill the record's length")
        append((delta >> 1 ^ -(delta & 1), time >> 1 ^ -(time & 1), key, value, headers))
    return at


def _headers(data: bytes, at: int) -> tuple[Headers, int]:
    """The headers at `data[at:]`, beginning with their number, and the position after them."""
    count, at = read_signed(data, at)
    headers: Headers = []
    for _ in range(count):
        size = data[at]
        at += 1
        if size > 0x7F:
            size, at = read_signed(data, at - 1)
            size <<= 1
        head = at
        at += size >> 1
        name = data[head:at].decode("utf-8", "replace")
        size = data[at]
        at += 1
        if size > 0x7F:
            size, at = read_signed(data, at - 1)
            size <<= 1
        if size & 1:
            headers.append((name, None))
        else:
            head = at
            at += size >> 1
            headers.append((name, data[head:at]))
    return headers, at
