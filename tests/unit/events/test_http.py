"""CloudEvents over HTTP: requests, responses, what is sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.events import http
from headrace.core.events.attributes import check_text
from headrace.core.events.model import Event, InvalidEvent

REQUIRED = [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t")]


def decode_one(headers: list[tuple[str, str]], body: bytes = b"") -> Event:
    (event,) = http.decode_request(headers, body)
    return event


def with_header(name: str, value: str) -> Event:
    return decode_one([*REQUIRED, (name, value)])


@pytest.mark.spec("DP-2")
def test_binary_mode_reads_attributes_from_headers_and_data_from_the_body() -> None:
    headers = [*REQUIRED, ("content-type", "application/xml"), ("ce-myext", "x"), ("host", "h"), ("x-ce-id", "2")]
    event = decode_one(headers, b"<a/>")
    assert event.attributes == {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": "t",
        "datacontenttype": "application/xml",
        "myext": "x",
    }
    assert event.data == b"<a/>"


@pytest.mark.spec("DP-2")
def test_header_names_are_read_in_any_case() -> None:
    event = decode_one(
        [(name.title(), value) for name, value in REQUIRED] + [("CONTENT-TYPE", "text/plain"), ("CE-SUBJECT", "S")]
    )
    assert event.attributes["subject"] == "S"
    assert event.attributes["datacontenttype"] == "text/plain"


def test_version_0_3_stays_0_3() -> None:
    event = decode_one([("ce-specversion", "0.3"), *REQUIRED[1:], ("ce-schemaurl", "/schema")], b"x")
    assert event.attributes["specversion"] == "0.3"
    assert event.attributes["schemaurl"] == "/schema"
    assert "ce-specversion: 0.3" in http.encode_binary(event)[0]


def test_an_empty_body_is_no_data() -> None:
    assert decode_one(REQUIRED).data is None


def test_without_content_type_there_is_none_in_binary_mode() -> None:
    assert "datacontenttype" not in decode_one(REQUIRED, b"{}").attributes
    assert "datacontenttype" not in decode_one([*REQUIRED, ("content-type", "")], b"{}").attributes


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        ("%e2%82%ac", "€"),
        ("%41%42", "AB"),
        ("a%2520b", "a%20b"),
        ("plain text", "plain text"),
        ('"quoted text"', "quoted text"),
        (r'"a \"b\" \\ c"', r'a "b" \ c'),
        ('"%41"', "A"),
        ('""', ""),
        ('{"a":1}', '{"a":1}'),
        ('a"b', 'a"b'),
        ("%C2%A0", "\xa0"),
        ("", ""),
    ],
)
def test_header_values_are_unquoted_then_decoded_once(header: str, value: str) -> None:
    assert with_header("ce-ext", header).attributes["ext"] == value


@pytest.mark.parametrize(
    "header",
    [
        "%C0%A0",
        "%ED%A0%80",
        "%FF",
        "%E2%82",
        "%",
        "%4",
        "%zz",
        "a%",
        '"',
        '"a',
        '"a" b',
        '"a\\"',
        "€",
        "é",
        "%00",
        "%0A",
        "%7F",
        "%C2%80",
        "a\nb",
    ],
)
def test_values_that_do_not_decode_are_refused(header: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        with_header("ce-ext", header)
    assert caught.value.subject == "ext"


@pytest.mark.parametrize("name", ["ce-my-ext", "ce-my_ext", "ce-", "ce-data", "ce-data_base64", "ce-é"])
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidEvent, match="not a name"):
        with_header(name, "x")


def test_a_content_type_header_of_its_own_must_not_be_among_the_attributes() -> None:
    with pytest.raises(InvalidEvent, match="ce-datacontenttype"):
        with_header("ce-datacontenttype", "text/plain")


def test_an_attribute_that_comes_twice_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="twice"):
        with_header("Ce-Id", "2")


@pytest.mark.parametrize("name", ["id", "source", "type", "specversion"])
def test_a_missing_header_is_named(name: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        decode_one([(header, value) for header, value in REQUIRED if header != f"ce-{name}"])
    assert caught.value.subject == name


def test_many_unknown_names_do_not_fill_the_memory() -> None:
    for number in range(http._KNOWN_LIMIT + 100):
        with_header(f"ce-unknown{number}", "x")
    assert len(http._known) <= http._KNOWN_LIMIT
    assert with_header(f"ce-unknown{http._KNOWN_LIMIT + 50}", "y").attributes[f"unknown{http._KNOWN_LIMIT + 50}"] == "y"


def test_tracing_headers_travel_beside_the_attributes() -> None:
    headers = [
        *REQUIRED,
        ("traceparent", "00-1-2-01"),
        ("Tracestate", "a=b, c=d"),
        ("baggage", "k=v"),
        ("ce-traceparent", "00-3-4-01"),
    ]
    event = decode_one(headers)
    assert event.passthrough == (("traceparent", "00-1-2-01"), ("tracestate", "a=b, c=d"), ("baggage", "k=v"))
    assert event.attributes["traceparent"] == "00-3-4-01"
    lines, _ = http.encode_binary(event)
    assert {"traceparent: 00-1-2-01", "tracestate: a=b, c=d", "baggage: k=v", "ce-traceparent: 00-3-4-01"} <= set(lines)


@pytest.mark.parametrize("value", ["", "é", "a\x03b", "a\tb"])
def test_a_tracing_header_that_is_no_text_is_left_out_and_the_event_taken(value: str) -> None:
    assert with_header("traceparent", value).passthrough == ()


@pytest.mark.spec("DP-3")
@pytest.mark.parametrize("content_type", ["application/cloudevents+json", "Application/CloudEvents+JSON; charset=UTF-8"])
def test_structured_mode_reads_the_body_and_no_headers(content_type: str) -> None:
    body = b'{"specversion":"1.0","id":"2","source":"/x","type":"u","data":{"a": 1}}'
    event = decode_one([*REQUIRED, ("content-type", content_type)], body)
    assert event.attributes["id"] == "2"
    assert event.data == b'{"a": 1}'


@pytest.mark.parametrize(
    "content_type", ["application/cloudevents", "application/cloudevents+avro", "application/cloudevents-batch+xml"]
)
def test_an_event_format_that_is_not_read_is_named(content_type: str) -> None:
    with pytest.raises(InvalidEvent, match="event format"):
        decode_one([*REQUIRED, ("content-type", content_type)], b"{}")


def test_a_batch_gives_its_events_and_may_be_empty() -> None:
    headers = [("content-type", "application/cloudevents-batch+json")]
    one = '{"specversion":"1.0","id":"%d","source":"/x","type":"u"}'
    body = f"[{one % 1},\n {one % 2} ]".encode()
    assert [event.attributes["id"] for event in http.decode_request(headers, body)] == ["1", "2"]
    assert http.decode_request(headers, b" [ ] ") == []


def test_a_batch_with_one_bad_event_is_refused_as_a_whole() -> None:
    headers = [("content-type", "application/cloudevents-batch+json")]
    with pytest.raises(InvalidEvent, match="type"):
        http.decode_request(
            headers, b'[{"specversion":"1.0","id":"1","source":"/x","type":"u"},{"specversion":"1.0","id":"2","source":"/x"}]'
        )


def test_a_batch_of_two_versions_is_refused() -> None:
    headers = [("content-type", "application/cloudevents-batch+json")]
    one = '{"specversion":"%s","id":"1","source":"/x","type":"u"}'
    with pytest.raises(InvalidEvent, match="specversion"):
        http.decode_request(headers, f"[{one % '1.0'},{one % '0.3'}]".encode())


@pytest.mark.spec("DP-4", "DP-21")
def test_a_reply_is_read_in_both_modes() -> None:
    binary = http.decode_response(200, REQUIRED, b"x")
    assert binary is not None
    assert binary.data == b"x"
    body = b'{"specversion":"1.0","id":"2","source":"/x","type":"u"}'
    structured = http.decode_response(200, [("Content-Type", "application/cloudevents+json")], body)
    assert structured is not None
    assert structured.attributes["id"] == "2"


@pytest.mark.spec("DP-22")
def test_202_is_never_a_reply() -> None:
    assert http.decode_response(202, REQUIRED, b"x") is None


@pytest.mark.parametrize("status", [100, 301, 400, 404, 500])
def test_a_failure_is_no_reply(status: int) -> None:
    assert http.decode_response(status, REQUIRED, b"x") is None


@pytest.mark.spec("DP-21")
@pytest.mark.parametrize(
    ("headers", "body"),
    [([], b""), ([("content-type", "text/plain")], b"OK"), ([("Content-Type", "application/json"), ("ce-id", "1")], b"{}")],
)
def test_a_response_without_a_mark_of_cloudevents_is_no_reply(headers: list[tuple[str, str]], body: bytes) -> None:
    assert http.decode_response(200, headers, body) is None


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([("ce-specversion", "1.0")], b"x"),
        ([("Content-Type", "application/cloudevents+json")], b""),
        ([("Content-Type", "application/cloudevents+json")], b"{}"),
        ([("Content-Type", "application/cloudevents+avro")], b"x"),
        ([("Content-Type", "Application/CloudEvents-Batch+json")], b"[]"),
    ],
)
def test_a_broken_reply_is_an_error(headers: list[tuple[str, str]], body: bytes) -> None:
    with pytest.raises(InvalidEvent):
        http.decode_response(200, headers, body)


@pytest.mark.spec("DP-5")
def test_binary_lines_are_in_libcurls_form() -> None:
    event = Event({"specversion": "1.0", "id": "ü", "source": "/s", "type": "t", "empty": ""}, None)
    lines, body = http.encode_binary(event)
    assert lines == ["ce-specversion: 1.0", "ce-id: %C3%BC", "ce-source: /s", "ce-type: t", "ce-empty;", "content-type:"]
    assert body == b""


def test_lines_can_be_split_again() -> None:
    assert http.split_line("ce-id: a:b") == ("ce-id", "a:b")
    assert http.split_line("ce-empty;") == ("ce-empty", "")
    assert http.split_line("content-type:") is None


def test_structured_lines_say_what_the_body_is() -> None:
    event = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, None, (("traceparent", "00"),))
    lines, body = http.encode_structured(event)
    assert lines == ["content-type: application/cloudevents+json; charset=UTF-8", "traceparent: 00"]
    assert http.decode_request([("content-type", "application/cloudevents+json")], body)[0].attributes == event.attributes


@given(st.text())
def test_values_survive_a_header_and_headers_are_printable_ascii(value: str) -> None:
    try:
        check_text("x", value)
    except InvalidEvent:
        return
    encoded = http.encode_value(value)
    assert encoded.isascii()
    assert encoded == "" or encoded.isprintable()
    assert not set(encoded) & set(' "')
    assert http.decode_value("x", encoded) == value
