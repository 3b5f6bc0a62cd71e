"""Generated messages of every type and version are read as they were written, and printed as Kafka's tools print them."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kafka.log.decoders import coordinator_decoder, group_of, metadata_decoder, upper_snake
from headrace.kafka.log.javajson import java_double, write
from headrace.kafka.log.message import BadMessage, decode
from headrace.kafka.log.schema import Message, family, parse
from headrace.kafka.log.varint import write_unsigned
from tests.support.messages import random_value
from tests.support.segments import encode

FAMILIES = ["group", "transaction", "share", "metadata", "control", "consumer", "producer"]
ALL = [
    pytest.param(message, version, id=f"{message.name}-{version}")
    for name in FAMILIES
    for message in family(name).values()
    for version in range(message.versions.low, message.versions.high + 1)
]


@pytest.mark.parametrize(("message", "version"), ALL)
def test_a_message_is_read_as_it_was_written(message: Message, version: int) -> None:
    for seed in range(30):
        value = random_value(message, version, Random(seed))
        wire = encode(message, version, value)
        assert decode(message, version, b"?" + wire, 1) == (value, len(wire) + 1)


@settings(max_examples=300)
@given(st.sampled_from(ALL), st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_told_error(case: object, data: bytes) -> None:
    message, version = case.values  # type: ignore[attr-defined]
    with suppress(BadMessage):
        assert decode(message, version, data)[1] <= len(data)


def test_tagged_fields_of_a_later_version_are_passed_over() -> None:
    definition = family("group")["OffsetCommitValue"]
    value = {"offset": 7, "leaderEpoch": 1, "metadata": "m", "commitTimestamp": 3}
    wire = encode(definition, 4, value)[:-1] + b"\x01" + write_unsigned(99) + write_unsigned(3) + b"new"
    assert decode(definition, 4, wire) == (value, len(wire))


def test_a_line_that_is_no_definition_is_refused() -> None:
    with pytest.raises(ValueError, match="not a field: group string string"):
        list(parse("message X versions=0 flexible=none\n  group string string"))


def test_commits_are_decoded_with_their_key() -> None:
    messages = family("group")
    key = struct.pack(">h", 1) + encode(messages["OffsetCommitKey"], 0, {"group": "my-group", "topic": "t", "partition": 2})
    content = {"offset": 5, "leaderEpoch": 0, "metadata": "", "commitTimestamp": 9}
    value = struct.pack(">h", 3) + encode(messages["OffsetCommitValue"], 3, content)
    decoded = coordinator_decoder("group")(0, key, value, ())
    assert decoded.key == '{"type":"1","data":{"group":"my-group","topic":"t","partition":2}}'
    assert decoded.payload == '{"version":"3","data":{"offset":5,"leaderEpoch":0,"metadata":"","commitTimestamp":9}}'
    assert group_of(decoded) == "my-group"
    assert coordinator_decoder("group")(0, key, None, ()).payload == "<DELETE>"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (None, b"", "Error at offset 4, skipping. The record has no key."),
        (b"\x00\x63", b"", "Unknown record type 99 at offset 4, skipping."),
        (b"\x00", b"", "Error at offset 4, skipping. unpack_from"),
        (b"\x00\x02\x00\x01g", b"\x00", "Error at offset 4, skipping. unpack_from"),
    ],
)
def test_what_no_decoder_can_read_is_said_and_passed_over(key: bytes | None, value: bytes, said: str) -> None:
    decoded = coordinator_decoder("group")(4, key, value, ())
    assert (decoded.key or "").startswith(said)
    assert decoded.payload is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"", "Error at 4, skipping. "),
        (b"\x02\x00\x00", "Error at 4, skipping. unknown frame version 2"),
        (b"\x01\x63\x00", "Error at 4, skipping. unknown metadata record type 99"),
        (b"\x01\x14\x00\x00\x00", "Error at 4, skipping. 1 bytes after the end of NoOpRecord"),
        (b"\x01\x14\x00\x00", '{"type":"NO_OP_RECORD","version":0,"data":{}}'),
    ],
)
def test_metadata_records_are_framed(value: bytes, said: str) -> None:
    assert (metadata_decoder()(4, None, value, ()).payload or "").startswith(said)


def test_names_of_records_are_those_of_the_enumeration() -> None:
    assert upper_snake("ZkMigrationStateRecord") == "ZK_MIGRATION_STATE_RECORD"
    assert upper_snake("ClearElrRecord") == "CLEAR_ELR_RECORD"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_what_is_printed_is_json(value: object) -> None:
    assert json.loads(write(value)) == value


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ('\x00\x1f\x7f"\\\n\t', '"\\u0000\\u001F\x7f\\"\\\\\\n\\t"'),
        (b"\xff\xfe", '"//4="'),
        (1048576.0, "1048576.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (-2.5e300, "-2.5E300"),
        (0.0, "0.0"),
        (float("nan"), '"NaN"'),
    ],
)
def test_values_are_printed_as_jackson_prints_them(value: object, printed: str) -> None:
    assert write(value) == printed


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_printed_without_loss(value: float) -> None:
    assert float(java_double(value)) == value
