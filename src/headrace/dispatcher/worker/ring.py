"""The ring: the events of one partition that were read and are still needed, or might be by a new lane. Bounded.

    floor                                                  head
      |  [ 41 | 42 | 43 | 45 | 46 | 47 ]                     |
      every event from `floor` on that was read is here     offset after the last one read

Events that no lane holds any more stay for a while (a quarter of the bounds), so that a lane that is new, or comes back, finds what was
read in the meantime. An event that some lane holds is never dropped: a ring that is full of those takes no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import dropwhile

from headrace.dispatcher.worker.record import Record

_KEPT_SHARE = 4


class Ring:
    """`events` and `size` (bytes) bound it; one larger event passes alone.

    `pinned_from`: events from this offset on are kept for a lane that is about to come back. `pinned`: bytes of events
    that lanes hold and that are not in the ring, each once; `replies`: of replies that wait to be stored or delivered.
    """

    def __init__(self, floor: int, events: int, size: int) -> None:
        self.records: deque[Record] = deque()
        self.floor = floor
        self.head = floor
        self.size = 0
        self.pinned = 0
        self.replies = 0
        self.pinned_from: int | None = None
        self._most_events = events
        self._most_size = size
        self._kept_events = events // _KEPT_SHARE
        self._kept_size = size // _KEPT_SHARE

    def __len__(self) -> int:
        return len(self.records)

    def append(self, record: Record) -> None:
        """Take in the next event. Ask `room` first."""
        self.records.append(record)
        self.size += record.size
        self.head = record.offset + 1

    @property
    def bytes_held(self) -> int:
        """All that this partition holds in memory."""
        return self.size + self.pinned + self.replies

    @property
    def room(self) -> bool:
        """Whether one more event may come in, after what is not needed has been dropped."""
        records = self.records
        if len(records) < self._kept_events and self.size < self._kept_size:
            return True
        self._drop(self._kept_events, self._kept_size)
        return not records or (len(records) < self._most_events and self.size < self._most_size)

    def pin(self, record: Record) -> None:
        """A lane keeps `record`, whether or not the ring does."""
        if not record.pins and self._is_apart(record):
            self.pinned += record.size
        record.pins += 1

    def unpin(self, record: Record) -> None:
        """A lane that kept `record` lets go of it."""
        record.pins -= 1
        if not record.pins and self._is_apart(record):
            self.pinned -= record.size

    def _is_apart(self, record: Record) -> bool:
        return record.offset < self.floor or not record.from_ring

    def since(self, offset: int) -> Iterator[Record]:
        """The events from `offset` on, oldest first."""
        return dropwhile(lambda record: record.offset < offset, self.records)

    def skip_to(self, offset: int) -> None:
        """The reader goes on at `offset`, with nothing in between (the first event of all, or a gap that Kafka explains)."""
        if not self.records:
            self.floor = offset
        self.head = offset

    def _drop(self, events: int, size: int) -> None:
        records, pinned = self.records, self.pinned_from
        while records and (len(records) >= events or self.size >= size):
            oldest = records[0]
            if oldest.holders or (pinned is not None and oldest.offset >= pinned):
                return
            records.popleft()
            self.size -= oldest.size
            self.floor = oldest.offset + 1
            if oldest.pins:
                self.pinned += oldest.size
