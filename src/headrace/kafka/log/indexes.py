"""The files beside a segment: offset index, time index, index of aborted transactions, producer snapshot.

Layouts: Kafka, `OffsetIndex` (4-byte relative offset, 4-byte position), `TimeIndex` (8-byte timestamp, 4-byte relative offset),
`AbortedTxn`, `ProducerStateManager`. Index files of a live segment are preallocated: zeros follow the entries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import google_crc32c

from headrace.base.errors import Terminal
from headrace.kafka.log.message import BadMessage, decode
from headrace.kafka.log.schema import family

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED = struct.Struct(">hqqqq")
_SNAPSHOT_CRC_FROM = 6


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """The batch at `position` of the segment ends with `offset`."""

    offset: int
    position: int


@dataclass(frozen=True, slots=True)
class TimeEntry:
    """No record up to the batch that ends with `offset` is newer than `timestamp` (ms)."""

    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """One aborted transaction with records in the segment."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True)
class ProducerBatch:
    """The newest batch of a producer."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """What the broker knew of one producer; `last` is its newest batch, None when it had only ended transactions."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_first_offset: int | None
    last_timestamp: int
    last: ProducerBatch | None


class OffsetIndex:
    """The offset index of a segment, read whole (10 MiB at most by Kafka's default). Raises `Terminal` when it can't be opened."""

    entry_size = _OFFSET_ENTRY.size

    def __init__(self, path: Path) -> None:
        self.path = path
        self.base_offset = base_offset(path)
        self._data = _content(path)
        self.size = len(self._data)
        self.entries = self.size // self.entry_size

    def entry(self, number: int) -> OffsetEntry:
        relative, position = _OFFSET_ENTRY.unpack_from(self._data, number * self.entry_size)
        return OffsetEntry(self.base_offset + relative, position)

    def __iter__(self) -> Iterator[OffsetEntry]:
        """The entries up to the zeros of an index that was not closed."""
        for number in range(self.entries):
            entry = self.entry(number)
            if number and entry.offset == self.base_offset:
                return
            yield entry

    def used(self) -> Iterator[OffsetEntry]:
        """The same, without the zeros that an index of a segment in use begins with while it has no entry: none has position 0."""
        return (entry for entry in self if entry.position)

    def lookup(self, offset: int) -> OffsetEntry:
        """The last entry whose offset is not above `offset`, else the start of the segment."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle)
            if entry.offset > offset or (middle and entry.offset == self.base_offset):
                high = middle
            else:
                low = middle + 1
        return self.entry(low - 1) if low else OffsetEntry(self.base_offset, 0)

    def insane(self) -> str:
        """Why a broker would rebuild this index when it starts; empty when it would not."""
        if self.entries and self.entry(self.entries - 1).offset < self.base_offset:
            return f"its last offset {self.entry(self.entries - 1).offset} is below its first, {self.base_offset}"
        return _odd_size(self.size, self.entry_size)


class TimeIndex:
    """The time index of a segment, read whole. Raises `Terminal` when it can't be opened."""

    entry_size = _TIME_ENTRY.size

    def __init__(self, path: Path) -> None:
        self.path = path
        self.base_offset = base_offset(path)
        self._data = _content(path)
        self.size = len(self._data)
        self.entries = self.size // self.entry_size

    def entry(self, number: int) -> TimeEntry:
        timestamp, relative = _TIME_ENTRY.unpack_from(self._data, number * self.entry_size)
        return TimeEntry(timestamp, self.base_offset + relative)

    def __iter__(self) -> Iterator[TimeEntry]:
        """The entries up to the zeros of an index that was not closed."""
        for number in range(self.entries):
            entry = self.entry(number)
            if number and entry.offset == self.base_offset:
                return
            yield entry

    def used(self) -> Iterator[TimeEntry]:
        """The same, without the zeros that an index of a segment in use begins with while it has no entry."""
        return (entry for entry in self if entry.timestamp or entry.offset != self.base_offset)

    def insane(self) -> str:
        """Why a broker would rebuild this index when it starts; empty when it would not."""
        if self.entries:
            first, last = self.entry(0), self.entry(self.entries - 1)
            if last.timestamp < first.timestamp:
                return f"its last timestamp {last.timestamp} is below its first, {first.timestamp}"
            if last.offset < self.base_offset:
                return f"its last offset {last.offset} is below its first, {self.base_offset}"
        return _odd_size(self.size, self.entry_size)


def aborted_transactions(path: Path) -> Iterator[AbortedTransaction]:
    """The entries of a `.txnindex`. Raises `Terminal` for an entry that is cut short or of an unknown version."""
    data = _content(path)
    for at in range(0, len(data), _ABORTED.size):
        if at + _ABORTED.size > len(data):
            raise Terminal(f"entry at position {at} is cut short", subject=str(path))
        entry = AbortedTransaction(*_ABORTED.unpack_from(data, at))
        if entry.version != 0:
            raise Terminal(f"entry at position {at} has unknown version {entry.version}", subject=str(path))
        yield entry


def producer_snapshot(path: Path) -> list[ProducerEntry]:
    """The entries of a `.snapshot`. Raises `Terminal` when it is damaged or of an unknown version."""
    data = _content(path)
    message = family("producer")["ProducerSnapshot"]
    version = int.from_bytes(data[:2], "big")
    if len(data) < _SNAPSHOT_CRC_FROM or version not in message.versions:
        raise Terminal(f"not a producer snapshot of a known version ({version})", subject=str(path))
    try:
        content, _ = decode(message, version, data, 2)
    except BadMessage as error:
        raise Terminal(str(error), subject=str(path)) from error
    if content["crc"] != google_crc32c.value(data[_SNAPSHOT_CRC_FROM:]):
        raise Terminal("producer snapshot with a wrong checksum", subject=str(path))
    return [_producer(entry) for entry in content["producerEntries"]]


def _producer(entry: dict[str, int]) -> ProducerEntry:
    first, sequence, delta = entry["currentTxnFirstOffset"], entry["lastSequence"], entry["offsetDelta"]
    last = None
    if entry["lastOffset"] >= 0:
        last = ProducerBatch((sequence - delta) & 0x7FFF_FFFF, sequence, entry["lastOffset"], delta, entry["timestamp"])
    return ProducerEntry(
        entry["producerId"], entry["epoch"], entry["coordinatorEpoch"], first if first >= 0 else None, entry["timestamp"], last
    )


def base_offset(path: Path) -> int:
    """The offset that a file of a segment is named after. Raises `Terminal` when it is named otherwise."""
    stem = path.name.split(".")[0]
    if not stem.isdigit():
        raise Terminal("not named after an offset, as the files of a segment are", subject=str(path))
    return int(stem)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Terminal(f"can't be read: {error.strerror}", subject=str(path)) from error


def _odd_size(size: int, entry_size: int) -> str:
    return f"its size {size} is not a multiple of {entry_size}" if size % entry_size else ""
