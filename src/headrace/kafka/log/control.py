"""Control records: ends of transactions, and what the Raft quorum writes into its log.

Source: Kafka, `ControlRecordType`, `EndTransactionMarker`, `ControlRecordUtils`; key = version, type; value = the marker's content.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from headrace.kafka.log.damage import CorruptRecords
from headrace.kafka.log.javajson import write
from headrace.kafka.log.message import BadMessage, decode
from headrace.kafka.log.schema import family

_KEY = struct.Struct(">hh")
_SHORT = struct.Struct(">h")
_MARKER = struct.Struct(">hi")
_MARKERS = {0: "ABORT", 1: "COMMIT"}
_MESSAGES = {
    2: ("LEADER_CHANGE", "LeaderChange:", "LeaderChangeMessage"),
    3: ("SNAPSHOT_HEADER", "SnapshotHeader", "SnapshotHeaderRecord"),
    4: ("SNAPSHOT_FOOTER", "SnapshotFooter", "SnapshotFooterRecord"),
    5: ("KRAFT_VERSION", "KRaftVersion", "KRaftVersionRecord"),
    6: ("KRAFT_VOTERS", "KRaftVoters", "VotersRecord"),
}


@dataclass(frozen=True, slots=True)
class Control:
    """One control record: its type, its text as Kafka's tool prints it, its content."""

    kind: str
    text: str
    data: dict[str, Any]


def read_control(key: bytes | None, value: bytes | None) -> Control:
    """Raises `CorruptRecords` when it is none."""
    try:
        _, number = _KEY.unpack_from(key or b"")
        if number in _MARKERS:
            _, epoch = _MARKER.unpack_from(value or b"")
            kind = _MARKERS[number]
            return Control(kind, f"endTxnMarker: {kind} coordinatorEpoch: {epoch}", {"coordinatorEpoch": epoch})
        if number in _MESSAGES:
            kind, word, name = _MESSAGES[number]
            (version,) = _SHORT.unpack_from(value or b"")
            data, _ = decode(family("control")[name], version, value or b"")
            return Control(kind, f"{word} {write(data)}", data)
    except (struct.error, BadMessage) as error:
        raise CorruptRecords(f"control record can't be read ({error})") from error
    return Control("UNKNOWN", f"controlType: UNKNOWN({number})", {"type": number})
