"""Indexes held against their segment, as a reader would use them.

The same checks as Kafka's `DumpLogSegments`; the segment is read at the places that the index names, not from its start each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.kafka.log.batch import Batch
from headrace.kafka.log.damage import CorruptRecords, Damage
from headrace.kafka.log.findings import FileFindings
from headrace.kafka.log.indexes import OffsetEntry, OffsetIndex, TimeEntry
from headrace.kafka.log.legacy import messages_of
from headrace.kafka.log.records import raw_records
from headrace.kafka.log.segment import Entry, SegmentFile, peek_last_offset, read_segment

NONE = -1


def verify_offsets(entries: Iterable[OffsetEntry], log: SegmentFile, found: FileFindings) -> Iterator[OffsetEntry]:
    """The entries of an offset index, each checked before it is given out."""
    for entry in entries:
        last = peek_last_offset(log, entry.position)
        if last != entry.offset:
            found.index_mismatches.add(entry.offset, NONE if last is None else last)
        yield entry


def verify_times(
    entries: Iterable[TimeEntry], index: OffsetIndex, log: SegmentFile, found: FileFindings
) -> Iterator[TimeEntry]:
    """The entries of a time index, each checked before it is given out; `index` is the offset index beside it."""
    previous = NONE
    for entry in entries:
        batch = _batch_of(log, index.lookup(entry.offset).position, entry.offset)
        if batch is None or batch.last_offset != entry.offset:
            found.time_not_found.add(entry.offset, NONE if batch is None else batch.last_offset)
        else:
            newest = newest_timestamp(batch)
            if newest != entry.timestamp:
                found.time_mismatches.add(entry.timestamp, newest)
            if previous >= entry.timestamp:
                found.time_disorder.add(entry.timestamp, previous)
        yield entry
        previous = entry.timestamp


def newest_timestamp(entry: Entry) -> int:
    """The largest timestamp of the records in `entry`, -1 when it has none that can be read."""
    newest = NONE
    try:
        if not isinstance(entry, Batch):
            return max((message.timestamp for message in messages_of(entry)), default=NONE)
        for records in raw_records(entry):
            if records:
                newest = max(newest, entry.timestamp(max(record[1] for record in records)))
    except CorruptRecords:
        pass
    return newest


def _batch_of(log: SegmentFile, position: int, offset: int) -> Entry | None:
    """The first entry from `position` on that ends at or after `offset`."""
    for entry in read_segment(log, position):
        if not isinstance(entry, Damage) and entry.last_offset >= offset:
            return entry
    return None
