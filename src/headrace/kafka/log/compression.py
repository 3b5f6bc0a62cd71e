"""Decompression of the records of one batch, in pieces of bounded size.

Framings: Kafka, `org.apache.kafka.common.compress`. Snappy comes framed as snappy-java frames it (magic `82 SNAPPY 00`, two versions, then
length-prefixed blocks) from Kafka's own clients, and as one raw block from librdkafka. LZ4 and zstd are standard frames.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, Literal

from headrace.kafka.log.damage import CorruptRecords
from headrace.kafka.log.varint import read_unsigned

PIECE = 1 << 20
"""Bytes decompressed at a time."""
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = len(_XERIAL) + 8
_LENGTH = struct.Struct(">i")
_LARGEST_BLOCK = 256 << 20


def decompress(codec: str, data: bytes) -> Iterator[bytes]:
    """The content of `data`, compressed with `codec` (a name of `batch.Codec`), in order.

    Raises `CorruptRecords` when it can't be decompressed.
    """
    try:
        if codec == "none":
            yield data
        elif codec == "gzip":
            yield from _gzip(data)
        elif codec == "snappy":
            yield from _snappy(data)
        elif codec == "lz4":
            yield from _stream("lz4", data)
        elif codec == "zstd":
            yield from _stream("zstd", data)
        else:
            raise CorruptRecords(f"compression {codec}")
    except (OSError, ValueError, IndexError, struct.error, zlib.error) as error:
        raise CorruptRecords(f"{codec} data can't be decompressed ({error})") from error


def _gzip(data: bytes) -> Iterator[bytes]:
    engine = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    piece = engine.decompress(data, PIECE)
    while piece:
        yield piece
        piece = engine.decompress(engine.unconsumed_tail, PIECE)
    if not engine.eof:
        raise ValueError("cut short")


def _stream(codec: Literal["lz4", "zstd"], data: bytes) -> Iterator[bytes]:
    # Imported here: it takes 0.2 s and 50 MB, which files without compression need not pay for.
    import pyarrow

    with pyarrow.CompressedInputStream(pyarrow.BufferReader(data), codec) as stream:
        while piece := stream.read(PIECE):
            yield piece


def _snappy(data: bytes) -> Iterator[bytes]:
    import pyarrow

    engine = pyarrow.Codec("snappy")
    if not data.startswith(_XERIAL):
        yield _snappy_block(engine, data)
        return
    position = _XERIAL_HEADER
    while position < len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if length < 0 or position + length > len(data):
            raise ValueError("block beyond the end")
        yield _snappy_block(engine, data[position : position + length])
        position += length


def _snappy_block(engine: Any, block: bytes) -> bytes:
    size, _ = read_unsigned(block, 0)
    if size > _LARGEST_BLOCK:
        raise ValueError(f"block claims {size} bytes")
    return bytes(engine.decompress(block, decompressed_size=size, asbytes=True))
