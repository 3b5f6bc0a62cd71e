"""The official SDK as oracle for valid events, both ways; where it is lax, the specification counts and a test says so."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from cloudevents.core.bindings import http as sdk_http
from cloudevents.core.bindings import kafka as sdk_kafka
from cloudevents.core.exceptions import CloudEventValidationError
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.contract import ContentMode
from headrace.core.events import http, kafka
from headrace.core.events.attributes import _DISALLOWED
from headrace.core.events.model import Event, InvalidEvent

FORMAT = JSONFormat()
few = settings(max_examples=40)
REQUIRED = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}

texts = st.text(min_size=1, max_size=20).filter(lambda text: _DISALLOWED.search(text) is None)
sources = st.sampled_from(["/", "/a/b", "urn:x:y", "https://example.com/a?b=c#d", "a%20b", "../x"])
names = st.from_regex(r"[a-z0-9]{1,20}", fullmatch=True).filter(
    lambda name: name not in ("data", "time", "source", "dataschema", "datacontenttype", "specversion", "datacontentencoding")
)
times = st.datetimes(
    min_value=datetime(1000, 1, 1),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=2)), timezone(timedelta(hours=-9, minutes=-30))]),
)


@st.composite
def attributes(draw: st.DrawFn) -> dict[str, str]:
    """The attributes of a valid event with text as data, or none."""
    out = {"specversion": "1.0", "id": draw(texts), "source": draw(sources), "type": draw(texts)}
    out |= draw(st.dictionaries(names, texts, max_size=3))
    if draw(st.booleans()):
        out["time"] = draw(times).isoformat().replace("+00:00", "Z")
    if draw(st.booleans()):
        out["dataschema"] = "https://example.com/schema"
    return out


def of_sdk(event: Any, sent: dict[str, str]) -> dict[str, str]:
    """Attributes of an SDK event in their canonical form, without the time that it makes up where none was sent."""
    found = {name: _canonical(value) for name, value in event.get_attributes().items()}
    if "time" not in sent:
        found.pop("time", None)
    return found


def _canonical(value: Any) -> str:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)


def to_sdk(event: Event) -> CloudEvent:
    plain: dict[str, Any] = dict(event.attributes)
    plain["time"] = datetime.fromisoformat(plain["time"]) if "time" in plain else datetime.now(UTC)
    made = CloudEvent(plain, None if event.data is None else event.data.decode())
    if "time" not in event.attributes:
        del plain["time"]
    return made


def pairs(lines: list[str]) -> dict[str, str]:
    return dict(pair for line in lines if (pair := http.split_line(line)))


@few
@given(attributes(), st.none() | texts)
def test_what_we_send_in_binary_mode_the_sdk_reads(attributes: dict[str, str], text: str | None) -> None:
    event = Event(attributes | {"datacontenttype": "text/plain"}, text.encode() if text else None)
    lines, body = http.encode_binary(event)
    read = sdk_http.from_binary(sdk_http.HTTPMessage(pairs(lines), body), FORMAT)
    assert of_sdk(read, attributes) == event.attributes
    assert read.get_data() == text


@few
@given(attributes(), st.none() | texts)
def test_what_the_sdk_sends_in_binary_mode_we_read(attributes: dict[str, str], text: str | None) -> None:
    event = Event(attributes | {"datacontenttype": "text/plain"}, text.encode() if text else None)
    message = sdk_http.to_binary(to_sdk(event), FORMAT)
    assert http.decode_request(message.headers.items(), message.body) == [event]


@few
@given(attributes(), st.none() | texts)
def test_what_we_send_in_structured_mode_the_sdk_reads(attributes: dict[str, str], text: str | None) -> None:
    event = Event(attributes | {"datacontenttype": "text/plain"}, text.encode() if text else None)
    lines, body = http.encode_structured(event)
    read = sdk_http.from_structured(sdk_http.HTTPMessage(pairs(lines), body), FORMAT)
    assert of_sdk(read, attributes) == event.attributes
    assert read.get_data() == text


@few
@given(attributes(), st.none() | texts | st.binary(min_size=1).map(lambda data: b"\xff" + data))
def test_what_the_sdk_sends_in_structured_mode_we_read(attributes: dict[str, str], data: str | bytes | None) -> None:
    made = to_sdk(Event(attributes | {"datacontenttype": "text/plain"}, None))
    made._data = data
    message = sdk_http.to_structured(made, FORMAT)
    (read,) = http.decode_request(message.headers.items(), message.body)
    assert read == Event(attributes | {"datacontenttype": "text/plain"}, data.encode() if isinstance(data, str) else data)


@few
@given(attributes(), texts, st.sampled_from(ContentMode))
def test_what_we_write_to_kafka_the_sdk_reads(attributes: dict[str, str], text: str, mode: ContentMode) -> None:
    event = Event(attributes | {"datacontenttype": "text/plain"}, text.encode())
    headers, value = kafka.encode_record(event, mode)
    message = sdk_kafka.KafkaMessage(dict(headers), None, value or b"")
    read = (sdk_kafka.from_binary if mode is ContentMode.BINARY else sdk_kafka.from_structured)(message, FORMAT)
    assert of_sdk(read, attributes) == event.attributes
    assert read.get_data() == text


@few
@given(attributes(), texts, st.booleans())
def test_what_the_sdk_writes_to_kafka_we_read(attributes: dict[str, str], text: str, structured: bool) -> None:
    event = Event(attributes | {"datacontenttype": "text/plain"}, text.encode())
    message = (sdk_kafka.to_structured if structured else sdk_kafka.to_binary)(to_sdk(event), FORMAT)
    assert kafka.decode_record(list(message.headers.items()), message.value) == event


@few
@given(attributes(), st.dictionaries(texts, st.integers(-(10**6), 10**6) | texts | st.none(), min_size=1, max_size=4))
def test_json_data_of_the_sdk_arrives_in_the_sdks_own_bytes(attributes: dict[str, str], data: dict[str, Any]) -> None:
    made = to_sdk(Event(attributes | {"datacontenttype": "application/json"}, None))
    made._data = data
    binary, structured = sdk_http.to_binary(made, FORMAT), sdk_http.to_structured(made, FORMAT)
    for message in (binary, structured):
        (read,) = http.decode_request(message.headers.items(), message.body)
        assert read.data == json.dumps(data).encode()


# Where the SDK is lax.


def sdk_reads(headers: dict[str, str], body: bytes = b"") -> Any:
    return sdk_http.from_http(sdk_http.HTTPMessage(headers, body), FORMAT)


def we_refuse(headers: dict[str, str], body: bytes = b"") -> None:
    with pytest.raises(InvalidEvent):
        http.decode_request(headers.items(), body)


def test_the_sdk_takes_invalid_utf_8_in_headers() -> None:
    headers = {**REQUIRED, "ce-ext": "%C0%A0"}
    assert sdk_reads(headers).get_extension("ext") == "\ufffd\ufffd"
    we_refuse(headers)


def test_the_sdk_leaves_quoted_header_values_quoted() -> None:
    headers = {**REQUIRED, "ce-ext": '"a b"'}
    assert sdk_reads(headers).get_extension("ext") == '"a b"'
    assert http.decode_request(headers.items(), b"")[0].attributes["ext"] == "a b"


def test_the_sdk_takes_a_percent_sign_that_escapes_nothing() -> None:
    headers = {**REQUIRED, "ce-ext": "100%"}
    assert sdk_reads(headers).get_extension("ext") == "100%"
    we_refuse(headers)


@pytest.mark.parametrize("name", ["ce-id", "ce-specversion"])
def test_the_sdk_makes_up_required_attributes(name: str) -> None:
    headers = {header: value for header, value in REQUIRED.items() if header != name}
    assert sdk_reads(headers).get_attributes()[name[3:]]
    we_refuse(headers)


@pytest.mark.parametrize("source", ["a b", "<x>", "é"])
def test_the_sdk_takes_a_source_that_is_no_uri_reference(source: str) -> None:
    headers = {**REQUIRED, "ce-source": http.encode_value(source)}
    assert sdk_reads(headers).get_source() == source
    we_refuse(headers)


def test_the_sdk_takes_control_characters() -> None:
    headers = {**REQUIRED, "ce-ext": "a%0Ab"}
    assert sdk_reads(headers).get_extension("ext") == "a\nb"
    we_refuse(headers)


def test_the_sdk_takes_any_date_of_iso_8601_for_a_time() -> None:
    headers = {**REQUIRED, "ce-time": "2018-W01-1T00Z"}
    assert sdk_reads(headers).get_time() is not None
    we_refuse(headers)


def test_the_sdk_tells_the_mode_by_headers_and_not_by_the_content_type() -> None:
    headers = {**REQUIRED, "content-type": "application/cloudevents+json"}
    body = b'{"specversion":"1.0","id":"2","source":"/x","type":"u"}'
    assert sdk_reads(headers, body).get_id() == "1"
    assert http.decode_request(headers.items(), body)[0].attributes["id"] == "2"


STRUCTURED = {"content-type": "application/cloudevents+json"}
MEMBERS = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def test_the_sdk_takes_fractions_for_integers() -> None:
    body = json.dumps({**MEMBERS, "ext": 1.5}).encode()
    assert sdk_reads(STRUCTURED, body).get_extension("ext") == 1.5
    we_refuse(STRUCTURED, body)


def test_the_sdk_drops_one_of_two_kinds_of_data() -> None:
    body = json.dumps({**MEMBERS, "data": "x", "data_base64": "AA=="}).encode()
    with pytest.raises(CloudEventValidationError):  # not because there are two: it takes the other for an attribute
        sdk_reads(STRUCTURED, body)
    we_refuse(STRUCTURED, body)


def test_the_sdk_skips_what_is_no_base64() -> None:
    body = json.dumps({**MEMBERS, "data_base64": "A*A==="}).encode()
    assert sdk_reads(STRUCTURED, body).get_data() == b"\x00"
    we_refuse(STRUCTURED, body)


def test_the_sdk_forgets_the_implied_content_type() -> None:
    body = json.dumps({**MEMBERS, "data": "text"}).encode()
    sent = sdk_http.to_binary(sdk_reads(STRUCTURED, body), FORMAT)
    assert "content-type" not in sent.headers
    assert sent.body == b"text"
    lines, ours = http.encode_binary(http.decode_request(STRUCTURED.items(), body)[0])
    assert "content-type: application/json" in lines
    assert ours == b'"text"'


def test_the_sdk_rewrites_json_data() -> None:
    headers = {**REQUIRED, "content-type": "application/json"}
    sent = sdk_http.to_binary(sdk_reads(headers, b'{ "a":1.0e0 }'), FORMAT)
    assert sent.body == b'{"a": 1.0}'
    assert http.encode_binary(http.decode_request(headers.items(), b'{ "a":1.0e0 }')[0])[1] == b'{ "a":1.0e0 }'


def test_the_sdk_makes_an_attribute_of_the_record_key() -> None:
    headers = {name.replace("-", "_"): value.encode() for name, value in REQUIRED.items()}
    read = sdk_kafka.from_binary(sdk_kafka.KafkaMessage(headers, b"key", b"x"), FORMAT)
    assert read.get_extension("partitionkey") == "key"
    assert "partitionkey" not in kafka.decode_record(list(headers.items()), b"x", b"key").attributes
