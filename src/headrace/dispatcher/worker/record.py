"""One event in the ring: decoded once, shared by all lanes that deliver it."""

from __future__ import annotations

from headrace.core.events.model import TRACING, Event
from headrace.dispatcher.worker.decode import Decoded, decode
from headrace.http.client import joined

PARTITION = "knativekafkapartition"
OFFSET = "knativekafkaoffset"
_OVERHEAD = 1024
"""What the objects of a decoded event take besides its bytes, roughly."""


class Record:
    """An event and where it stands in Kafka.

    `timestamp`: milliseconds since the epoch. `attributes` is what filters see, `lines` are the header lines of binary mode. `size`
    in bytes, for the bounds. `holders`: how many lanes still need it in the ring; `pins`: how many keep it beside the ring.
    """

    __slots__ = ("_head", "attributes", "body", "holders", "key", "lines", "offset", "partition", "pins", "size", "timestamp")
    from_ring = True

    def __init__(self, decoded: Decoded, size: int, offset_extensions: bool) -> None:
        self.partition, self.offset, self.timestamp, self.key, self.attributes, self.lines, self.body = decoded
        self.size = size + _OVERHEAD
        self._head: list[str] | None = None
        self.holders = self.pins = 0
        if offset_extensions:
            self._add_place()

    @classmethod
    def of_frame(cls, raw: bytes, offset_extensions: bool = False) -> Record:
        """The record in a frame; raises `Terminal` when it is no frame, `InvalidEvent` when it holds no event."""
        return cls(decode(raw), len(raw), offset_extensions)

    def _add_place(self) -> None:
        attributes = self.attributes
        if PARTITION in attributes or OFFSET in attributes:
            self.lines = without(self.lines, (PARTITION, OFFSET))
        partition, offset = str(self.partition), str(self.offset)
        attributes[PARTITION] = partition
        attributes[OFFSET] = offset
        self.lines += (f"ce-{PARTITION}: {partition}", f"ce-{OFFSET}: {offset}")

    @property
    def head(self) -> list[str]:
        """`lines` as they are sent in binary mode."""
        if self._head is None:
            self._head = joined(self.lines)
        return self._head

    def event(self) -> Event:
        """The event as a value, for the rare paths that need more than header lines."""
        passthrough = []
        for line in self.lines:
            name, colon, value = line.partition(": ")
            if colon and name in TRACING:
                passthrough.append((name, value))
        return Event(self.attributes, self.body or None, tuple(passthrough))


class FetchedRecord(Record):
    """One that was read again for a lane, and is in no ring."""

    __slots__ = ()
    from_ring = False


def without(lines: list[str], names: tuple[str, ...]) -> list[str]:
    """`lines` but those of the attributes `names`."""
    starts = tuple(f"ce-{name}{end}" for name in names for end in ":;")
    return [line for line in lines if not line.startswith(starts)]
