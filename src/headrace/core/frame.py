"""The frame: one Kafka record as one binary value, the form in which Spark hands records to Python.

One column instead of Kafka's seven, since the cost of Arrow is per batch and per column. All numbers are big-endian:

    int32  partition
    int64  offset
    int64  timestamp, milliseconds since the epoch
    int32  length of the key, -1: null         then the key
    int32  number of headers                    then for each:
               int32  length of the name            then the name (UTF-8)
               int32  length of the value, -1: null     then the value
    int32  length of the value, -1: null       then the value

The SQL expression that makes it is in `spark.frame`.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from headrace.base.errors import Terminal

_HEAD = Struct(">iqqi")
_KEY_AT = _HEAD.size
_INT = Struct(">i")


class Frame(NamedTuple):
    """One record. `timestamp` in milliseconds since the epoch; null differs from empty; header names are UTF-8 bytes."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    headers: list[tuple[bytes, bytes | None]]
    value: bytes | None


def parse_frame(frame: bytes) -> Frame:
    """The record in `frame`; raises `Terminal` when it is cut or of another layout."""
    try:
        partition, offset, timestamp, length = _HEAD.unpack_from(frame)
        at = _KEY_AT
        key = None
        if length >= 0:
            key = frame[at : at + length]
            at += length
        int_at = _INT.unpack_from
        (count,) = int_at(frame, at)
        at += 4
        headers: list[tuple[bytes, bytes | None]] = []
        for _ in range(count):
            (length,) = int_at(frame, at)
            at += 4
            end = at + length
            name = frame[at:end]
            (length,) = int_at(frame, end)
            at = end + 4
            if length >= 0:
                end = at + length
                headers.append((name, frame[at:end]))
                at = end
            else:
                headers.append((name, None))
        (length,) = int_at(frame, at)
        at += 4
        value = None
        if length >= 0:
            value = frame[at:]
            at += length
    except StructError as error:
        raise Terminal(f"cut short: {error}", subject="frame") from None
    if at != len(frame):
        raise Terminal(f"expected {at} bytes, got {len(frame)}", subject="frame")
    return Frame(partition, offset, timestamp, key, headers, value)
