"""The JSON event format: types, data in all its forms, and the bytes of data."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.events import jsonformat
from headrace.core.events.model import Event, InvalidEvent

REQUIRED: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
ATTRIBUTES = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def decode(**members: Any) -> Event:
    return jsonformat.decode(json.dumps({**REQUIRED, **members}).encode())


def decode_text(rest: str) -> Event:
    return jsonformat.decode(f'{{"specversion":"1.0","id":"1","source":"/s","type":"t"{rest}}}'.encode())


def test_numbers_and_booleans_become_their_canonical_strings() -> None:
    event = decode(a=5, b=-(2**31), c=True, d=False, e="5")
    assert {name: event.attributes[name] for name in "abcde"} == {
        "a": "5",
        "b": "-2147483648",
        "c": "true",
        "d": "false",
        "e": "5",
    }


@pytest.mark.parametrize("text", ["1.0", "1e3", "2147483648", "-2147483649", "1" * 5000, "-0.5"])
def test_numbers_that_are_no_integer_of_32_bits_are_refused(text: str) -> None:
    with pytest.raises(InvalidEvent, match="Integer"):
        decode_text(f',"ext":{text}')


@pytest.mark.parametrize("value", [{}, [], {"a": 1}, ["x"]])
def test_objects_and_arrays_are_no_attributes(value: Any) -> None:
    with pytest.raises(InvalidEvent, match="ext"):
        decode(ext=value)


@pytest.mark.parametrize("name", ["id", "source", "type", "specversion", "subject", "time", "datacontenttype", "dataschema"])
@pytest.mark.parametrize("value", [1, True])
def test_the_specifications_own_attributes_must_be_strings(name: str, value: Any) -> None:
    with pytest.raises(InvalidEvent) as caught:
        decode(**{name: value})
    assert caught.value.subject == name


def test_null_is_an_attribute_that_is_not_there() -> None:
    assert decode(subject=None, ext=None).attributes == ATTRIBUTES
    with pytest.raises(InvalidEvent, match="missing"):
        decode(id=None)


@pytest.mark.parametrize("name", ["Id", "my-ext", "my_ext", "é", ""])
def test_names_that_no_attribute_can_have_are_refused(name: str) -> None:
    with pytest.raises(InvalidEvent, match="not a name"):
        decode(**{name: "x"})


@pytest.mark.spec("CP-R5")
@pytest.mark.parametrize(
    "data",
    [
        '{"b": 1,  "a":[1.0, 1e400, 0.1000000000000000055511151231257827, -0]}',
        "123456789012345678901234567890",
        "9" * 5000,
        '"text with \\u00e9 and é and \\ud800"',
        "null",
        "true",
        "[]",
        '{"a":1,"a":2}',
        '{\n  "k" :\t"v"\n}',
    ],
)
def test_json_data_keeps_its_bytes(data: str) -> None:
    event = decode_text(f',"datacontenttype":"application/json","data": {data} ,"zzz":"last"')
    assert event.data == data.encode()
    assert event.attributes["zzz"] == "last"
    assert jsonformat.decode(jsonformat.encode(event)) == event


def test_null_data_is_data_and_no_data_is_none() -> None:
    assert decode(data=None).data == b"null"
    assert decode().data is None


def test_data_without_datacontenttype_is_json_and_says_so_from_then_on() -> None:
    event = decode(data="I'm just a string")
    assert event.data == b'"I\'m just a string"'
    assert event.attributes["datacontenttype"] == "application/json"


def test_no_data_and_binary_data_imply_no_datacontenttype() -> None:
    assert decode().attributes == ATTRIBUTES
    assert decode(data_base64="AAE=").attributes == ATTRIBUTES


def test_text_data_of_another_type_is_the_string_itself() -> None:
    assert decode(datacontenttype="application/xml", data='<much wow="xml"/>').data == b'<much wow="xml"/>'
    assert decode(datacontenttype="text/plain", data="").data == b""


@pytest.mark.parametrize("data", [None, 1, True, {}, []])
def test_data_of_another_type_that_is_no_string_is_refused(data: Any) -> None:
    with pytest.raises(InvalidEvent, match="must be a string"):
        decode(datacontenttype="text/plain", data=data)


def test_text_is_written_in_the_charset_of_its_type() -> None:
    assert decode(datacontenttype="text/plain; charset=ISO-8859-1", data="é").data == b"\xe9"
    for charset in ("us-ascii", "no-such-charset", "base64"):
        with pytest.raises(InvalidEvent, match="charset"):
            decode(datacontenttype=f"text/plain; charset={charset}", data="é")


def test_base64_data_is_decoded() -> None:
    assert decode(datacontenttype="application/json", data_base64="eyJhIjogMX0K").data == b'{"a": 1}\n'


@pytest.mark.parametrize("value", ["=", "a", "a===", "AA==AA==", "-_==", "AA ==", "é", 5, True, {}])
def test_what_is_no_base64_is_refused(value: Any) -> None:
    with pytest.raises(InvalidEvent, match="base64"):
        decode(data_base64=value)


def test_both_kinds_of_data_are_refused_together() -> None:
    with pytest.raises(InvalidEvent, match="together"):
        decode(data=1, data_base64="AA==")
    assert decode(data=1, data_base64=None).data == b"1"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b"null",
        b'{"specversion":"1.0"',
        b'{"specversion":"1.0",}',
        b'{"specversion" "1.0"}',
        b"{1:2}",
        b"{specversion:1}",
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":NaN}',
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":Infinity}',
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t"} x',
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":01}',
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":"a\nb"}',
        b'{"specversion":"1.0","id":"1","source":"/s","type":"\xff"}',
        b'\xef\xbb\xbf{"specversion":"1.0","id":"1","source":"/s","type":"t"}',
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":' + b"[" * 100_000,
        b"[" * 100_000,
    ],
)
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidEvent):
        jsonformat.decode(body)


def test_a_member_that_comes_twice_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="twice"):
        decode_text(',"id":"2"')


def test_version_0_3_writes_binary_data_as_its_own_rules_say() -> None:
    old = {**REQUIRED, "specversion": "0.3"}
    body = json.dumps({**old, "datacontentencoding": "Base64", "data": "AAE=", "schemaurl": "/x"}).encode()
    event = jsonformat.decode(body)
    assert event.data == b"\x00\x01"
    assert "datacontentencoding" not in event.attributes
    written = json.loads(jsonformat.encode(event))
    assert written["datacontentencoding"] == "base64"
    assert written["data"] == "AAE="
    assert written["specversion"] == "0.3"
    assert jsonformat.decode(jsonformat.encode(event)) == event


def test_version_0_3_keeps_json_data_and_knows_no_data_base64() -> None:
    old = {**REQUIRED, "specversion": "0.3"}
    event = jsonformat.decode(json.dumps({**old, "data": {"a": 1}}).encode())
    assert event.data == b'{"a": 1}'
    for broken in (
        {"data_base64": "AA=="},
        {"data": "x", "datacontentencoding": "rot13"},
        {"data": 5, "datacontentencoding": "base64"},
    ):
        with pytest.raises(InvalidEvent):
            jsonformat.decode(json.dumps({**old, **broken}).encode())


def test_data_that_came_encoded_in_binary_mode_keeps_its_encoding() -> None:
    event = Event({**ATTRIBUTES, "specversion": "0.3", "datacontentencoding": "base64"}, b"AAE=")
    written = json.loads(jsonformat.encode(event))
    assert (written["datacontentencoding"], written["data"]) == ("base64", "AAE=")


@pytest.mark.parametrize(
    ("media_type", "data", "member"),
    [
        ("application/json", b'{"a": 1}', "data"),
        ("application/json", b'{"a": 1}\n', "data_base64"),
        ("application/json", b"hello", "data_base64"),
        ("application/json", b"", "data_base64"),
        ("application/json", b"\xff", "data_base64"),
        ("application/json", b"NaN", "data_base64"),
        ("application/json", b"[" * 100_000, "data_base64"),
        ("application/json; charset=utf-16", b"1", "data_base64"),
        ("text/plain", "é\n\x00".encode(), "data"),
        ("text/plain", b"", "data"),
        ("text/plain", b"\xe9", "data_base64"),
        ("text/plain; charset=iso-8859-1", b"x", "data_base64"),
        ("application/soap+xml; a=b", b"<a/>", "data"),
        ("application/octet-stream", b"text", "data_base64"),
        (None, b"{}", "data_base64"),
    ],
)
def test_data_is_written_in_the_readable_form_that_keeps_its_bytes(media_type: str | None, data: bytes, member: str) -> None:
    attributes = ATTRIBUTES if media_type is None else {**ATTRIBUTES, "datacontenttype": media_type}
    event = Event(attributes, data)
    written = jsonformat.encode(event)
    assert member in json.loads(written)
    assert jsonformat.decode(written) == event


@pytest.mark.spec("CP-R5")
@given(
    data=st.none() | st.binary() | st.text().map(lambda text: text.encode("utf-8", "replace")),
    media_type=st.sampled_from([None, "application/json", "text/plain", "application/octet-stream", "a/b+json; charset=UTF-8"]),
    version=st.sampled_from(["1.0", "0.3"]),
)
def test_no_event_changes_by_being_written_and_read(data: bytes | None, media_type: str | None, version: str) -> None:
    attributes = {**ATTRIBUTES, "specversion": version, "ext": "é\U0001f600"}
    if media_type is not None:
        attributes["datacontenttype"] = media_type
    event = Event(attributes, data)
    assert jsonformat.decode(jsonformat.encode(event)) == event


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSON_VALUES, st.booleans())
def test_any_json_value_is_cut_out_of_the_document_as_it_stands(value: Any, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped, indent=1)
    if not escaped:
        text = text.encode("utf-8", "replace").decode()
    assert decode_text(f',"data":{text}').data == text.encode()


def test_attributes_for_trying_out_keep_their_types() -> None:
    members = {**REQUIRED, "a": 5, "b": True, "c": None, "data": {}, "data_base64": ""}
    assert jsonformat.typed_attributes(members) == {**REQUIRED, "a": 5, "b": True}
    wrong: list[dict[str, Any]] = [{"A": "x"}, {"a": 1.5}, {"a": 2**31}, {"a": []}, {"a": "\x00"}]
    for broken in wrong:
        with pytest.raises(InvalidEvent):
            jsonformat.typed_attributes(broken)


def test_base64_of_a_large_event_is_read_whole() -> None:
    data = bytes(range(256)) * 256
    assert decode(data_base64=base64.b64encode(data).decode()).data == data
