"""Variable-length integers as Kafka writes them (Protocol Buffers encoding, little-endian groups of 7 bits).

The reader of records has its own, unrolled copies of these loops: see `records`.
"""

from __future__ import annotations

_WIDEST = 70


def read_unsigned(data: bytes, position: int) -> tuple[int, int]:
    """`(value, position after it)`. Raises `IndexError` at the end of `data`, `ValueError` when it is longer than 10 bytes."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift >= _WIDEST:
            raise ValueError("variable-length integer longer than 10 bytes")


def read_signed(data: bytes, position: int) -> tuple[int, int]:
    """Like `read_unsigned`, for zigzag-encoded values."""
    value, position = read_unsigned(data, position)
    return (value >> 1) ^ -(value & 1), position


def write_unsigned(value: int) -> bytes:
    """The encoding of `value` (>= 0)."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_signed(value: int) -> bytes:
    """The zigzag encoding of `value` (64 bits at most)."""
    return write_unsigned(((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF)
