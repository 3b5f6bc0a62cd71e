"""What the records of Kafka's internal topics say: offsets and groups, transactions, share groups, cluster metadata.

Key and value begin with their type and version; the rest is a generated message (`schema`). Sources: Kafka, `CoordinatorRecordSerde`,
`MetadataRecordSerde`, and the parsers within `DumpLogSegments`, whose words are ours.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.kafka.log.javajson import write
from headrace.kafka.log.message import BadMessage, decode
from headrace.kafka.log.schema import by_key, family
from headrace.kafka.log.varint import read_unsigned

_SHORT = struct.Struct(">h")
_DELETE = "<DELETE>"


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a decoder makes of one record: texts as Kafka's tool prints them (None: nothing), and the same as data."""

    key: str | None
    payload: str | None
    key_data: Mapping[str, Any] | None = None
    payload_data: Mapping[str, Any] | None = None


Headers = Sequence[tuple[str, bytes | None]]
Decoder = Callable[[int, bytes | None, bytes | None, Headers], Decoded]
"""Offset, key, value, headers of a record -> what they say. Never raises: what can't be read is said in the key."""


def coordinator_decoder(name: str) -> Decoder:
    """A decoder of `group` (`__consumer_offsets`), `transaction` (`__transaction_state`) or `share` (`__share_group_state`) records."""
    keys, values = by_key(name, "Key"), by_key(name, "Value")

    def decoder(offset: int, key: bytes | None, value: bytes | None, headers: Headers) -> Decoded:
        if key is None:
            return Decoded(f"Error at offset {offset}, skipping. The record has no key.", None)
        try:
            (kind,) = _SHORT.unpack_from(key)
            if kind not in keys:
                return Decoded(f"Unknown record type {kind} at offset {offset}, skipping.", None)
            key_message = {"type": str(kind), "data": decode(keys[kind], 0, key, _SHORT.size)[0]}
            if value is None:
                return Decoded(write(key_message), _DELETE, key_message)
            (version,) = _SHORT.unpack_from(value)
            data, _ = decode(values[kind], version, value, _SHORT.size)
        except (BadMessage, struct.error) as error:
            return Decoded(f"Error at offset {offset}, skipping. {error}", None)
        payload = {"version": str(version), "data": _with_members(data)}
        return Decoded(write(key_message), write(payload), key_message, payload)

    return decoder


def metadata_decoder() -> Decoder:
    """A decoder of the records of `__cluster_metadata` and of its snapshots."""
    messages = by_key("metadata", "Record")

    def decoder(offset: int, key: bytes | None, value: bytes | None, headers: Headers) -> Decoded:
        try:
            payload = _metadata(messages, value or b"")
        except (BadMessage, IndexError, ValueError) as error:
            return Decoded(None, f"Error at {offset}, skipping. {error}")
        return Decoded(None, write(payload), None, payload)

    return decoder


def _metadata(messages: Mapping[int, Any], value: bytes) -> dict[str, Any]:
    frame, position = read_unsigned(value, 0)
    if frame != 1:
        raise BadMessage(f"unknown frame version {frame}")
    key, position = read_unsigned(value, position)
    version, position = read_unsigned(value, position)
    if key not in messages:
        raise BadMessage(f"unknown metadata record type {key}")
    data, end = decode(messages[key], version, value, position)
    if end != len(value):
        raise BadMessage(f"{len(value) - end} bytes after the end of {messages[key].name}")
    return {"type": upper_snake(messages[key].name), "version": version, "data": data}


def upper_snake(name: str) -> str:
    """`PartitionChangeRecord` -> `PARTITION_CHANGE_RECORD`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def _with_members(data: dict[str, Any]) -> dict[str, Any]:
    """Group metadata of the classic consumer protocol with its members' subscriptions and assignments decoded too."""
    if data.get("protocolType") == "consumer":
        for member in data.get("members", ()):
            for name in ("subscription", "assignment"):
                member[name] = _consumer_protocol(name, member[name])
    return data


def _consumer_protocol(name: str, data: bytes) -> Any:
    try:
        (version,) = _SHORT.unpack_from(data)
        return decode(family("consumer")[f"ConsumerProtocol{name.capitalize()}"], version, data, _SHORT.size)[0]
    except (BadMessage, struct.error):
        return data


def group_of(decoded: Decoded) -> str | None:
    """The consumer group that a decoded record of `__consumer_offsets` is about."""
    data = (decoded.key_data or {}).get("data", {})
    group = data.get("group", data.get("groupId"))
    return group if isinstance(group, str) else None
