"""Where a dump goes: text as Kafka's `DumpLogSegments` prints it, or one JSON object per line."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from headrace.kafka.log import text
from headrace.kafka.log.batch import Batch
from headrace.kafka.log.control import read_control
from headrace.kafka.log.damage import Damage
from headrace.kafka.log.decoders import Decoded
from headrace.kafka.log.indexes import AbortedTransaction, OffsetEntry, ProducerEntry, TimeEntry
from headrace.kafka.log.legacy import Message
from headrace.kafka.log.records import RawRecord
from headrace.kafka.log.segment import Entry

Aside = OffsetEntry | TimeEntry | AbortedTransaction | ProducerEntry
"""An entry of a file beside the segment."""


class PrinterKind(Protocol):
    """Makes printers of one kind."""

    def __call__(self, out: BinaryIO, *, contents: bool, metadata: bool) -> Printer:
        """One that prints to `out`."""


class Printer(Protocol):
    """The seam between reading and printing. `contents`: keys and values too; `metadata`: what stands before them; `kind` makes
    others like it.
    """

    contents: bool
    metadata: bool

    @property
    def kind(self) -> PrinterKind:
        """Its class."""

    def note(self, line: str) -> None:
        """A remark for people, on a line of its own."""

    def copy(self, printed: bytes) -> None:
        """What a printer of the same kind has printed."""

    def file(self, path: Path) -> None:
        """A file begins."""

    def batch(self, entry: Entry) -> None:
        """A batch, or an entry of a message set."""

    def records(self, batch: Batch, records: list[RawRecord]) -> None:
        """Records of that batch, keys and values as they are."""

    def decoded(self, batch: Batch, record: RawRecord, decoded: Decoded) -> None:
        """One record with what its decoder made of it."""

    def message(self, message: Message, decoded: Decoded | None) -> None:
        """One message of magic 0 or 1."""

    def damage(self, path: Path, damage: Damage) -> None:
        """Bytes that are no batch."""

    def aside(self, entry: Aside) -> None:
        """An entry of an index or a producer snapshot."""


class _OnStream:
    """What all printers to `out` share."""

    def __init__(self, out: BinaryIO, *, contents: bool, metadata: bool) -> None:
        self._out = out
        self.contents = contents
        self.metadata = metadata

    def copy(self, printed: bytes) -> None:
        self._out.write(printed)


class TextPrinter(_OnStream):
    """Text on `out`."""

    def __init__(self, out: BinaryIO, *, contents: bool, metadata: bool) -> None:
        super().__init__(out, contents=contents, metadata=metadata)
        self._prefix = b" " if metadata else b"| "

    @property
    def kind(self) -> PrinterKind:
        return type(self)

    def note(self, line: str) -> None:
        self._out.write(line.encode() + b"\n")

    def file(self, path: Path) -> None:
        self.note(f"Dumping {path}")

    def batch(self, entry: Entry) -> None:
        self._out.write(text.batch_line(entry))

    def records(self, batch: Batch, records: list[RawRecord]) -> None:
        if self.metadata and not batch.is_control:
            self._out.write(text.record_lines(batch, records, self.contents))
            return
        for record in records:
            if self.metadata:
                self._out.write(text.record_line(batch, record))
            if self.contents and not batch.is_control:
                self._out.write(text.contents(record[2], record[3], self._prefix))
            self._out.write(b"\n")

    def decoded(self, batch: Batch, record: RawRecord, decoded: Decoded) -> None:
        head = text.record_line(batch, record) if self.metadata else b""
        self._out.write(head + text.decoded_contents(decoded, self._prefix) + b"\n")

    def message(self, message: Message, decoded: Decoded | None) -> None:
        if self.metadata:
            self._out.write(text.message_line(message))
        if decoded:
            self._out.write(text.decoded_contents(decoded, self._prefix))
        elif self.contents:
            self._out.write(text.contents(message.key, message.value, self._prefix))
        self._out.write(b"\n")

    def damage(self, path: Path, damage: Damage) -> None:
        if damage.at_end:
            self.note(f"Found {damage.size} invalid bytes at the end of {path.name}")
        else:
            self.note(f"Found {damage.size} invalid bytes at position {damage.position} of {path.name}: {damage.reason}")

    def aside(self, entry: Aside) -> None:
        if isinstance(entry, OffsetEntry):
            self._out.write(text.offset_entry_line(entry))
        elif isinstance(entry, TimeEntry):
            self._out.write(text.time_entry_line(entry))
        elif isinstance(entry, AbortedTransaction):
            self._out.write(text.aborted_line(entry))
        else:
            self._out.write(text.producer_line(entry))


class JsonPrinter(_OnStream):
    """JSON lines on `out`; each object says in `kind` what it is. Bytes that are not UTF-8 are `{"base64": ...}`."""

    @property
    def kind(self) -> PrinterKind:
        return type(self)

    def note(self, line: str) -> None:
        self._put("note", {"text": line})

    def file(self, path: Path) -> None:
        self._put("file", {"path": str(path)})

    def batch(self, entry: Entry) -> None:
        self._put("batch", _batch(entry))

    def records(self, batch: Batch, records: list[RawRecord]) -> None:
        for record in records:
            self._record(batch, record, _contents(record[2], record[3]))

    def decoded(self, batch: Batch, record: RawRecord, decoded: Decoded) -> None:
        self._record(batch, record, _decoded(decoded))

    def message(self, message: Message, decoded: Decoded | None) -> None:
        facts: dict[str, Any] = {"offset": message.offset}
        if self.metadata:
            facts |= {"timestampType": message.timestamp_type, "timestamp": message.timestamp}
            facts |= {"isValid": message.valid, "crc": message.crc}
        if self.contents:
            facts |= _decoded(decoded) if decoded else _contents(message.key, message.value)
        self._put("record", facts)

    def damage(self, path: Path, damage: Damage) -> None:
        self._put("damage", asdict(damage))

    def aside(self, entry: Aside) -> None:
        kinds = {OffsetEntry: "offsetIndex", TimeEntry: "timeIndex", AbortedTransaction: "abortedTransaction"}
        self._put(kinds.get(type(entry), "producer"), asdict(entry))

    def _record(self, batch: Batch, record: RawRecord, contents: dict[str, Any]) -> None:
        delta, time, key, value, headers = record
        facts: dict[str, Any] = {"offset": batch.base_offset + delta}
        if self.metadata:
            facts |= {"timestampType": batch.timestamp_type, "timestamp": batch.timestamp(time)}
            facts |= {"keySize": -1 if key is None else len(key), "valueSize": -1 if value is None else len(value)}
            facts |= {"sequence": batch.sequence(delta), "headers": [[name, _plain(content)] for name, content in headers]}
        if batch.is_control:
            control = read_control(key, value)
            facts |= {"control": control.kind, **_jsonable(control.data)}
        elif self.contents:
            facts |= contents
        self._put("record", facts)

    def _put(self, kind: str, facts: dict[str, Any]) -> None:
        self._out.write(json.dumps({"kind": kind, **facts}, ensure_ascii=False).encode("utf-8", "replace") + b"\n")


def _batch(entry: Entry) -> dict[str, Any]:
    common = {
        "position": entry.position,
        "size": entry.size,
        "magic": entry.magic,
        "compression": entry.codec_name,
        "timestampType": entry.timestamp_type,
        "crc": entry.crc,
        "isValid": entry.valid,
    }
    if isinstance(entry, Message):
        return {"offset": entry.offset, "timestamp": entry.timestamp, **common}
    return {
        "baseOffset": entry.base_offset,
        "lastOffset": entry.last_offset,
        "count": entry.count,
        "baseSequence": entry.base_sequence,
        "lastSequence": entry.last_sequence,
        "producerId": entry.producer_id,
        "producerEpoch": entry.producer_epoch,
        "partitionLeaderEpoch": entry.partition_leader_epoch,
        "isTransactional": entry.is_transactional,
        "isControl": entry.is_control,
        "deleteHorizonMs": entry.delete_horizon_ms,
        "maxTimestamp": entry.max_timestamp,
        **common,
    }


def _contents(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    return {"key": _plain(key), "payload": _plain(value)}


def _decoded(decoded: Decoded) -> dict[str, Any]:
    key = decoded.key if decoded.key_data is None else _jsonable(decoded.key_data)
    payload = decoded.payload if decoded.payload_data is None else _jsonable(decoded.payload_data)
    return {"key": key, "payload": payload}


def _plain(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def _jsonable(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _jsonable(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_jsonable(item) for item in value]
    return value
