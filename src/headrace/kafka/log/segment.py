"""Reading a segment from its start to its end, batch by batch, past what is damaged.

Layout: each entry is an 8-byte offset, a 4-byte size and `size` bytes, of which byte 4 is the magic (Kafka, `FileLogInputStream`).
Where Kafka's own reader stops at the first entry that makes no sense, this one looks for the next batch whose CRC is right.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import google_crc32c

from headrace.base.errors import Terminal
from headrace.kafka.log.batch import HEADER, LOG_OVERHEAD, OVERHEAD, Batch, parse_batch
from headrace.kafka.log.damage import CorruptRecords, Damage
from headrace.kafka.log.legacy import MIN_RECORD, Message, parse_message

Entry = Batch | Message
CHUNK = 1 << 20
"""Bytes read at a time."""
HUGE = 64 << 20
"""A batch that claims more than this is loaded only when its CRC, computed in pieces, is right."""
_PREFIX = struct.Struct(">qiib")
_CRC_AT, _CRC_FROM = 17, 21


class SegmentFile:
    """A file read at positions, with one chunk of it in memory. Use as a context manager.

    `limit`: bytes to look at; the rest is treated as if it were not there. Raises `Terminal` when the file can't be opened.
    """

    def __init__(self, path: Path, limit: int | None = None) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDONLY)
            size = os.fstat(self._file).st_size
        except OSError as error:
            raise Terminal(f"can't be read: {error.strerror}", subject=str(path)) from error
        self.size = size if limit is None else min(size, limit)
        self._data = b""
        self._start = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._file)

    def window(self, position: int, size: int) -> tuple[bytes, int]:
        """`(data, start)` such that `data[start : start + size]` are the file's bytes at `position`; fewer only at its end."""
        if position < self._start or position + size > self._start + len(self._data):
            self._start = position
            self._data = self._read(position, max(size, CHUNK))
        return self._data, position - self._start

    def _read(self, position: int, size: int) -> bytes:
        size = min(size, self.size - position)
        data = os.pread(self._file, size, position) if size > 0 else b""
        while 0 < len(data) < size:
            more = os.pread(self._file, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def peek(self, position: int, size: int) -> bytes:
        """Up to `size` bytes at `position`, past the chunk in memory."""
        return self._read(position, size)

    def crc_is_right(self, position: int, size: int) -> bool:
        """The CRC of a batch of magic 2 too big to load unseen."""
        data, start = self.window(position, OVERHEAD)
        (stored,) = struct.unpack_from(">I", data, start + _CRC_AT)
        crc, at, end = 0, position + _CRC_FROM, position + size
        while at < end:
            piece = self._read(at, min(CHUNK, end - at))
            if not piece:
                return False
            crc = google_crc32c.extend(crc, piece)
            at += len(piece)
        return bool(crc == stored)


def read_segment(
    file: SegmentFile, position: int = 0, progress: Callable[[int], None] | None = None
) -> Iterator[Entry | Damage]:
    """All entries from `position` (the start of one) on, and in their place in between what is none.

    `progress` is called with the position of each entry. A batch whose CRC is wrong is an entry, with `valid` False.
    """
    while position < file.size:
        if progress:
            progress(position)
        entry = _entry(file, position)
        if isinstance(entry, (Batch, Message)) and not entry.valid and not _follows(file, position + entry.size):
            # Its size may be what is wrong: then a good batch lies within what it claims.
            after = _next_batch(file, position + 1)
            if after < position + entry.size:
                entry = f"wrong checksum, and size {entry.size - LOG_OVERHEAD} reaches over a good batch"
        if isinstance(entry, str):
            after = _next_batch(file, position + 1)
            yield Damage(position, after - position, entry, after >= file.size)
            position = after
        else:
            yield entry
            position += entry.size


def _entry(file: SegmentFile, position: int) -> Entry | str:
    """The entry at `position`, or the reason why there is none."""
    data, start = file.window(position, OVERHEAD)
    if len(data) - start < _PREFIX.size:
        return "cut short within a header"
    _, length, _, magic = _PREFIX.unpack_from(data, start)
    size = LOG_OVERHEAD + length
    if length == 0 and not any(data[start : start + _PREFIX.size]):
        return "zeros"
    if length < MIN_RECORD:
        return f"impossible size {length}"
    if position + size > file.size:
        return f"size {length} reaches beyond the end of the file"
    if magic in (0, 1):
        return _message(file, position, size)
    if magic != 2:
        return f"unknown magic {magic}"
    if size < OVERHEAD:
        return f"impossible size {length}"
    if size > HUGE and not file.crc_is_right(position, size):
        return f"size {length} with a wrong checksum"
    data, start = file.window(position, size)
    return parse_batch(data, start, size, position)


def _message(file: SegmentFile, position: int, size: int) -> Entry | str:
    data, start = file.window(position, size)
    try:
        return parse_message(data, start, size, position)
    except CorruptRecords as error:
        return error.message


def _follows(file: SegmentFile, position: int) -> bool:
    """Whether the file ends at `position` or an entry seems to start there."""
    if position >= file.size:
        return True
    data, start = file.window(position, _PREFIX.size)
    return len(data) - start >= HEADER.size and plausible(data, start, file.size - position)


def peek_last_offset(file: SegmentFile, position: int) -> int | None:
    """The last offset of the entry at `position`, from its header alone; None when there can be none."""
    header = file.peek(position, HEADER.size) if position >= 0 else b""
    if len(header) < _PREFIX.size:
        return None
    offset, length, _, magic = _PREFIX.unpack_from(header)
    if magic not in (0, 1, 2) or length < MIN_RECORD or (magic == 2 and len(header) < HEADER.size):
        return None
    return int(offset + HEADER.unpack_from(header)[6] if magic == 2 else offset)


def plausible(data: bytes, start: int, room: int) -> bool:
    """Whether the header at `data[start:]` could be that of a batch of magic 2 with `room` bytes for it."""
    if len(data) - start < HEADER.size:
        return False
    offset, length, epoch, magic, _, attributes, last_delta, _, _, producer, *_, count = HEADER.unpack_from(data, start)
    return bool(
        magic == 2
        and offset >= 0
        and OVERHEAD - LOG_OVERHEAD <= length <= room - LOG_OVERHEAD
        and epoch >= -1
        and 0 <= attributes < 128
        and last_delta >= 0
        and producer >= -1
        and count >= 0
    )


def _next_batch(file: SegmentFile, position: int) -> int:
    """The position of the next batch of magic 2 with a right CRC at or after `position`, else the end of the file."""
    while position < file.size:
        data, start = file.window(position, CHUNK)
        last = len(data) - HEADER.size
        at = start
        while (magic := data.find(b"\x02", at + 16, last + 17)) >= 0:
            at = magic - 16
            candidate = position + at - start
            if plausible(data, at, file.size - candidate) and file.crc_is_right(candidate, LOG_OVERHEAD + length_at(data, at)):
                return candidate
            at += 1
        if position + len(data) - start >= file.size:
            break
        position += max(last + 1 - start, 1)
    return file.size


def length_at(data: bytes, start: int) -> int:
    """What the header at `data[start:]` says of the bytes after its size field."""
    return int.from_bytes(data[start + 8 : start + 12], "big")
