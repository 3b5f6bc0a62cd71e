"""CloudEvents in Kafka records: both modes, tombstones, foreign records, and the way from a record to HTTP."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.contract import ContentMode
from headrace.core.events import http, kafka
from headrace.core.events.attributes import check_text
from headrace.core.events.model import Event, InvalidEvent

Headers = list[tuple[str, bytes | None]]
REQUIRED: Headers = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]
ATTRIBUTES = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
STRUCTURED = b'{"specversion":"1.0","id":"2","source":"/x","type":"u","data":{"a": 1}}'


def test_binary_records_hold_plain_utf_8_and_the_data_as_it_is() -> None:
    event = Event({**ATTRIBUTES, "datacontenttype": "text/plain", "subject": "Euro € %20"}, b"\x00data")
    headers, value = kafka.encode_record(event)
    assert headers == [*REQUIRED, ("content-type", b"text/plain"), ("ce_subject", "Euro € %20".encode())]
    assert value == b"\x00data"
    assert kafka.decode_record(headers, value) == event


def test_no_data_is_a_null_value_and_empty_data_is_not() -> None:
    assert kafka.encode_record(Event(ATTRIBUTES, None))[1] is None
    assert kafka.encode_record(Event(ATTRIBUTES, b""))[1] == b""
    assert kafka.decode_record(REQUIRED, None).data is None
    assert kafka.decode_record(REQUIRED, b"").data == b""


def test_structured_records_are_json_with_the_tracing_headers_beside() -> None:
    event = Event({**ATTRIBUTES, "datacontenttype": "application/json"}, b'{"a": 1}', (("traceparent", "00"),))
    headers, value = kafka.encode_record(event, ContentMode.STRUCTURED)
    assert headers == [("content-type", b"application/cloudevents+json; charset=UTF-8"), ("traceparent", b"00")]
    assert kafka.decode_record(headers, value) == event
    assert kafka.encode_record(Event(ATTRIBUTES, None), ContentMode.STRUCTURED)[1] is not None


def test_a_structured_record_is_read_from_its_value_whatever_its_other_headers() -> None:
    event = kafka.decode_record([*REQUIRED, ("content-type", b"Application/CloudEvents+JSON")], STRUCTURED)
    assert event.attributes["id"] == "2"
    assert event.data == b'{"a": 1}'


def test_a_structured_record_without_value_is_read_from_its_headers() -> None:
    content_type: Headers = [("content-type", b"application/cloudevents+json")]
    assert kafka.decode_record([*REQUIRED, *content_type], None) == Event(ATTRIBUTES, None)
    with pytest.raises(InvalidEvent):
        kafka.decode_record(content_type, None)


def test_an_unknown_format_passes_as_data_if_the_headers_say_the_rest() -> None:
    content_type: Headers = [("content-type", b"application/cloudevents+avro")]
    event = kafka.decode_record([*REQUIRED, *content_type], b"\x01avro")
    assert event == Event({**ATTRIBUTES, "datacontenttype": "application/cloudevents+avro"}, b"\x01avro")
    with pytest.raises(InvalidEvent, match="event format"):
        kafka.decode_record(content_type, b"\x01avro")


def test_there_is_no_batch_in_kafka() -> None:
    with pytest.raises(InvalidEvent, match="event format"):
        kafka.decode_record([("content-type", b"application/cloudevents-batch+json")], b"[" + STRUCTURED + b"]")


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        ([], b"anything"),
        ([], None),
        ([("content-type", b"application/json")], b"{}"),
        (REQUIRED[1:], b"x"),
        ([*REQUIRED[1:], ("ce_specversion", b"2.0")], b"x"),
        ([*REQUIRED[1:], ("ce_specversion", None)], b"x"),
        ([*REQUIRED, ("ce_subject", b"\xff")], b"x"),
        ([*REQUIRED, ("ce_my-ext", b"x")], b"x"),
        ([*REQUIRED, ("ce_data", b"x")], b"x"),
        ([*REQUIRED, ("ce_datacontenttype", b"x")], b"x"),
        ([*REQUIRED, ("ce_subject", b"a\r\nb: c")], b"x"),
        ([*REQUIRED, ("content-type", b"a/b\r\nx: y")], b"x"),
        ([*REQUIRED, ("content-type", "é".encode())], b"x"),
        ([("content-type", b"application/cloudevents+json")], b"no json"),
    ],
)
def test_a_record_that_is_no_event_is_refused_both_ways(headers: Headers, value: bytes | None) -> None:
    with pytest.raises(InvalidEvent):
        kafka.decode_record(headers, value)
    with pytest.raises(InvalidEvent):
        kafka.record_to_http(headers, value)


def test_foreign_records_may_hold_values_of_another_form() -> None:
    foreign: Headers = [
        *REQUIRED,
        ("ce_time", b"yesterday"),
        ("ce_dataschema", b"x y"),
        ("content-type", b"odd"),
        ("app", b"\xff"),
    ]
    event = kafka.decode_record(foreign, b"x")
    assert event.attributes["time"] == "yesterday"
    assert event.attributes["datacontenttype"] == "odd"


def test_a_null_header_is_absent_and_the_last_of_two_counts() -> None:
    event = kafka.decode_record([*REQUIRED, ("ce_a", None), ("ce_b", b"1"), ("ce_b", b"2"), ("Ce_C", b"3")], b"x")
    assert event.attributes == {**ATTRIBUTES, "b": "2", "c": "3"}


def test_the_key_of_a_record_makes_no_attribute() -> None:
    assert kafka.decode_record(REQUIRED, b"x", b"key").attributes == ATTRIBUTES


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({}, None),
        ({"subject": "s"}, b"s"),
        ({"partitionkey": "é", "subject": "s"}, "é".encode()),
        ({"partitionkey": "", "subject": "s"}, b"s"),
        ({"partitionkey": ""}, None),
    ],
)
def test_the_record_key_is_partitionkey_then_subject_then_none(more: dict[str, str], key: bytes | None) -> None:
    assert kafka.record_key(Event({**ATTRIBUTES, **more}, None)) == key


def test_the_fast_way_gives_what_http_needs() -> None:
    headers: Headers = [*REQUIRED, ("content-type", b"text/plain; charset=utf-8"), ("traceparent", b"00-1"), ("other", b"\xff")]
    found = kafka.record_to_http(headers, b"data")
    assert found.attributes == {**ATTRIBUTES, "datacontenttype": "text/plain; charset=utf-8"}
    assert found.lines == [
        "ce-specversion: 1.0",
        "ce-id: 1",
        "ce-source: /s",
        "ce-type: t",
        "content-type: text/plain; charset=utf-8",
        "traceparent: 00-1",
    ]
    assert found.body == b"data"


def test_header_names_may_be_bytes() -> None:
    assert kafka.record_to_http([(name.encode(), value) for name, value in REQUIRED], None) == kafka.record_to_http(
        REQUIRED, None
    )
    with pytest.raises(InvalidEvent, match="header name"):
        kafka.record_to_http([*((name.encode(), value) for name, value in REQUIRED), (b"\xff", b"x")], None)


def test_an_attribute_without_value_and_no_content_type_are_said_as_libcurl_wants_it() -> None:
    found = kafka.record_to_http([*REQUIRED, ("ce_a", b"")], None)
    assert found.lines[-2:] == ["ce-a;", "content-type:"]
    assert found.body == b""


def test_a_tracing_header_that_is_no_header_value_is_left_out() -> None:
    for value in (b"a\r\nb", b"\xc3\xa9"):
        found = kafka.record_to_http([*REQUIRED, ("tracestate", value)], None)
        assert not any(line.startswith("tracestate") for line in found.lines)


@pytest.mark.spec("CP-R5")
@given(
    data=st.none() | st.binary(),
    mode=st.sampled_from(ContentMode),
    media_type=st.sampled_from([None, "application/json", "x/y"]),
)
def test_data_crosses_http_and_kafka_without_a_change(data: bytes | None, mode: ContentMode, media_type: str | None) -> None:
    headers = [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t")]
    if media_type is not None:
        headers.append(("content-type", media_type))
    (event,) = http.decode_request(headers, data or b"")
    record_headers, value = kafka.encode_record(event, mode)
    sent = kafka.record_to_http(record_headers, value)
    assert sent.body == (data or b"")
    received = [pair for line in sent.lines if (pair := http.split_line(line))]
    assert http.decode_request(received, sent.body) == [event]


ALPHABET = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])
NAMES = st.sampled_from(
    ["ce_subject", "ce_time", "ce_ext", "ce_id", "content-type", "traceparent", "baggage", "other", "CE_UPPER", "ce_a-b"]
)
VALUES = (
    st.none()
    | st.text(ALPHABET).map(str.encode)
    | st.binary(max_size=8)
    | st.sampled_from([b"", b"plain", b"a b", b'"', b"%41"])
)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6), st.none() | st.binary(max_size=8))
def test_the_fast_way_is_the_slow_way(more: Headers, value: bytes | None) -> None:
    headers = [*REQUIRED, *more]
    try:
        event = kafka.decode_record(headers, value)
    except InvalidEvent:
        with pytest.raises(InvalidEvent):
            kafka.record_to_http(headers, value)
        return
    found = kafka.record_to_http(headers, value)
    lines, body = http.encode_binary(event)
    assert found.attributes == event.attributes
    assert (sorted(found.lines), found.body) == (sorted(lines), body)
    assert not any("\r" in line or "\n" in line for line in found.lines)
    for name, text in event.attributes.items():
        check_text(name, text)
