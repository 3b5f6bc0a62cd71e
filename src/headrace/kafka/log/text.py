"""Lines as Kafka's `DumpLogSegments` (4.3) prints them: a batch, a record, an index entry.

Everything is bytes: keys and values go out as they came in, and only what is not UTF-8 is touched (`printable`).
"""

from __future__ import annotations

import re

from headrace.kafka.log.batch import Batch
from headrace.kafka.log.control import read_control
from headrace.kafka.log.decoders import Decoded
from headrace.kafka.log.indexes import AbortedTransaction, OffsetEntry, ProducerEntry, TimeEntry
from headrace.kafka.log.legacy import Message
from headrace.kafka.log.records import RawRecord
from headrace.kafka.log.segment import Entry

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


def printable(text: bytes) -> bytes:
    """`text` with every malformed UTF-8 sequence replaced, as Java's decoder replaces it: a surrogate by one mark, not one per byte."""
    if text.isascii():
        return text
    try:
        text.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, text).decode("utf-8", "replace").encode()
    return text


def batch_line(entry: Entry) -> bytes:
    """The line of a batch, or of an entry of a message set."""
    if isinstance(entry, Message):
        head = f"offset: {entry.offset} position: {entry.position} {entry.timestamp_type}: {entry.timestamp}"
    else:
        horizon = entry.delete_horizon_ms
        head = (
            f"baseOffset: {entry.base_offset} lastOffset: {entry.last_offset} count: {entry.count} "
            f"baseSequence: {entry.base_sequence} lastSequence: {entry.last_sequence} producerId: {entry.producer_id} "
            f"producerEpoch: {entry.producer_epoch} partitionLeaderEpoch: {entry.partition_leader_epoch} "
            f"isTransactional: {_word(entry.is_transactional)} isControl: {_word(entry.is_control)} "
            f"deleteHorizonMs: {_optional(horizon)} position: {entry.position} {entry.timestamp_type}: {entry.max_timestamp}"
        )
    return (
        f"{head} size: {entry.size} magic: {entry.magic} compresscodec: {entry.codec_name} "
        f"crc: {entry.crc} isvalid: {_word(entry.valid)}\n"
    ).encode()


def record_lines(batch: Batch, records: list[RawRecord], contents: bool) -> bytes:
    """The lines of records that no decoder is asked for. Hot: see `records`."""
    kind, base = batch.timestamp_type.encode(), batch.base_offset
    first_time, append_time = batch.base_timestamp, batch.max_timestamp if batch.attributes & 0x08 else None
    numbered = batch.base_sequence != -1
    parts: list[bytes] = []
    add = parts.append
    for delta, time, key, value, headers in records:
        add(
            b"| offset: %d %b: %d keySize: %d valueSize: %d sequence: %d headerKeys: [%b]"
            % (
                base + delta,
                kind,
                first_time + time if append_time is None else append_time,
                -1 if key is None else len(key),
                -1 if value is None else len(value),
                batch.sequence(delta) if numbered else -1,
                ",".join([header[0] for header in headers]).encode() if headers else b"",
            )
        )
        if contents:
            if key is not None:
                add(b" key: %b" % key)
            if value is not None:
                add(b" payload: ")
                add(value)
        add(b"\n")
    return printable(b"".join(parts))


def record_line(batch: Batch, record: RawRecord) -> bytes:
    """What stands before key and payload in the line of one record, without an end of line; of a control record all of it."""
    line = record_lines(batch, [record], False)[:-1]
    return line + b" " + read_control(record[2], record[3]).text.encode() if batch.is_control else line


def message_line(message: Message) -> bytes:
    """Like `record_line`, for a message of magic 0 or 1."""
    return (
        f"| offset: {message.offset} {message.timestamp_type}: {message.timestamp} keySize: {_size(message.key)} "
        f"valueSize: {_size(message.value)} isValid: {_word(message.valid)} crc: {message.crc}"
    ).encode()


def contents(key: bytes | None, value: bytes | None, prefix: bytes = b" ") -> bytes:
    """Key and payload; `prefix` stands before the first of them."""
    out = b""
    if key is not None:
        out, prefix = prefix + b"key: " + key, b" "
    if value is not None:
        out += prefix + b"payload: " + value
    return printable(out)


def decoded_contents(decoded: Decoded, prefix: bytes = b" ") -> bytes:
    """The same of what a decoder made of them."""
    key = None if decoded.key is None else decoded.key.encode("utf-8", "replace")
    payload = None if decoded.payload is None else decoded.payload.encode("utf-8", "replace")
    return contents(key, payload, prefix)


def offset_entry_line(entry: OffsetEntry) -> bytes:
    return b"offset: %d position: %d\n" % (entry.offset, entry.position)


def time_entry_line(entry: TimeEntry) -> bytes:
    return b"timestamp: %d offset: %d\n" % (entry.timestamp, entry.offset)


def aborted_line(entry: AbortedTransaction) -> bytes:
    return (
        f"version: {entry.version} producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
        f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}\n"
    ).encode()


def producer_line(entry: ProducerEntry) -> bytes:
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} coordinatorEpoch: {entry.coordinator_epoch} "
        f"currentTxnFirstOffset: {_optional(entry.transaction_first_offset)} lastTimestamp: {entry.last_timestamp}"
    )
    if entry.last:
        line += (
            f" firstSequence: {entry.last.first_sequence} lastSequence: {entry.last.last_sequence} "
            f"lastOffset: {entry.last.last_offset} offsetDelta: {entry.last.offset_delta} timestamp: {entry.last.timestamp}"
        )
    return line.encode() + b"\n"


def _word(value: bool) -> str:
    return "true" if value else "false"


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)
