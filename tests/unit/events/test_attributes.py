"""What an attribute may be called and hold."""

from __future__ import annotations

import pytest

from headrace.core.events import attributes as rules
from headrace.core.events.model import InvalidEvent

GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


@pytest.mark.parametrize(
    "value",
    [
        "/",
        "/a/b",
        "a",
        "a/b:c",
        "./a:b",
        "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
        "https://example.com:8080/a?b=c#d",
        "//host/path",
        "http://user:pw@[2001:db8::1]:80/x",
        "http://[v1.x:y]/",
        "mailto:a@b.example",
        "?query",
        "#fragment",
        "/sensors/tn-1234567/alerts",
        "1-555-123-4567",
        "a%20b",
        "file:///etc/hosts",
        "x:",
        "http://",
        "/a//b",
        "///",
    ],
)
def test_a_uri_reference_is_taken(value: str) -> None:
    rules.check({**GOOD, "source": value})


@pytest.mark.parametrize(
    "value",
    ["a b", "a\\b", "<a>", "a%2", "a%zz", "1a:b", ":a", "é", "a#b#c", "http://[::1", "a[0]", '"', "{x}", "a|b", "a^b", "`"],
)
def test_what_is_no_uri_reference_is_refused_as_source(value: str) -> None:
    with pytest.raises(InvalidEvent, match=r"source.*RFC 3986"):
        rules.check({**GOOD, "source": value})


def test_a_long_source_is_judged_without_being_kept() -> None:
    before = rules._short_uri_reference.cache_info().currsize
    rules.check({**GOOD, "source": "/" + "a" * 5000})
    with pytest.raises(InvalidEvent):
        rules.check({**GOOD, "source": "/" + "a" * 5000 + " "})
    assert rules._short_uri_reference.cache_info().currsize == before


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type"])
@pytest.mark.parametrize("empty", [True, False])
def test_each_required_attribute_must_be_there_and_not_empty(name: str, empty: bool) -> None:
    broken = {**GOOD, name: ""} if empty else {key: value for key, value in GOOD.items() if key != name}
    with pytest.raises(InvalidEvent, match="missing or empty") as caught:
        rules.check(broken)
    assert caught.value.subject == name


@pytest.mark.parametrize("version", ["9000.1", "19.0", "1", "0.2", "1.0 ", "1.1"])
def test_an_unknown_version_is_refused(version: str) -> None:
    with pytest.raises(InvalidEvent, match="specversion"):
        rules.check({**GOOD, "specversion": version})


@pytest.mark.parametrize(
    "time",
    [
        "2018-04-05T17:31:00Z",
        "2018-04-05T17:31:00.123456789Z",
        "2018-04-05T17:31:00+02:00",
        "2018-04-05t17:31:00z",
        "2016-02-29T23:59:60Z",
        "0000-02-29T00:00:00Z",
        "2018-12-31T23:59:59-23:59",
    ],
)
def test_a_time_of_rfc_3339_is_taken(time: str) -> None:
    rules.check({**GOOD, "time": time})


@pytest.mark.parametrize(
    "time",
    [
        "",
        "yesterday",
        "2018-04-05",
        "2018-04-05T17:31:00",
        "2018-04-05 17:31:00Z",
        "2018-13-05T17:31:00Z",
        "2018-02-30T17:31:00Z",
        "2018-02-29T17:31:00Z",
        "2018-04-05T24:00:00Z",
        "2018-04-05T17:60:00Z",
        "2018-04-05T17:31:00.Z",
        "2018-04-05T17:31:00+2:00",
        "٢018-04-05T17:31:00Z",
        "2018-04-05T17:31:00Z\n",
    ],
)
def test_a_time_that_is_none_is_refused(time: str) -> None:
    with pytest.raises(InvalidEvent, match="RFC 3339"):
        rules.check({**GOOD, "time": time})


@pytest.mark.parametrize(
    "value", ["application/json", "text/plain; charset=utf-8", "application/vnd.apache.thrift.binary", 'a/b;c="d e"']
)
def test_a_media_type_is_taken(value: str) -> None:
    rules.check({**GOOD, "datacontenttype": value})


@pytest.mark.parametrize("value", ["", "json", "/json", "text/", "text plain", "a/b c", "a/b\n", "text/é", "a/b;\n"])
def test_what_is_no_media_type_is_refused(value: str) -> None:
    with pytest.raises(InvalidEvent, match="RFC 2046"):
        rules.check({**GOOD, "datacontenttype": value})


def test_an_empty_subject_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="subject: must not be empty"):
        rules.check({**GOOD, "subject": ""})


def test_the_schema_is_a_uri_in_1_0_and_a_reference_in_0_3() -> None:
    rules.check({**GOOD, "dataschema": "https://example.com/schema"})
    with pytest.raises(InvalidEvent, match="dataschema"):
        rules.check({**GOOD, "dataschema": "/schema"})
    old = {**GOOD, "specversion": "0.3"}
    rules.check({**old, "schemaurl": "/schema"})
    rules.check({**old, "dataschema": "any text: an extension there"})
    with pytest.raises(InvalidEvent, match="schemaurl"):
        rules.check({**old, "schemaurl": "a b"})


@pytest.mark.parametrize("name", ["a", "1", "comexampleextension1", "a" * 100])
def test_lower_case_letters_and_digits_are_a_name(name: str) -> None:
    assert rules.check_name(name) == name


@pytest.mark.parametrize("name", ["", "A", "a-b", "a_b", "a.b", "é", "data", "data_base64", "a\n", "²"])
def test_anything_else_is_no_name(name: str) -> None:
    with pytest.raises(InvalidEvent, match="not a name"):
        rules.check_name(name)


@pytest.mark.parametrize("character", ["\x00", "\x1f", "\x7f", "\x9f", "\ud800", "\ufdd0", "\ufffe", "\U0010ffff"])
def test_characters_that_the_type_string_excludes_are_refused(character: str) -> None:
    with pytest.raises(InvalidEvent, match="is not allowed in an attribute"):
        rules.check_text("x", f"a{character}b")


@pytest.mark.parametrize("character", [" ", "~", "\xa0", "€", "😀", "\ufffd", "\ue000"])
def test_other_characters_are_taken(character: str) -> None:
    assert rules.check_text("x", character) == character


@pytest.mark.parametrize(
    ("media_type", "json"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("text/json", True),
        ("application/vnd.x+json", True),
        ("application/jsonx", False),
        ("text/plain", False),
        ("application/xml;a=/json", False),
        ("json", False),
    ],
)
def test_json_is_told_by_the_subtype(media_type: str, json: bool) -> None:
    assert rules.is_json(media_type) is json


@pytest.mark.parametrize(
    ("media_type", "charset"),
    [
        ("text/plain", "utf-8"),
        ("text/plain; charset=ISO-8859-1", "iso-8859-1"),
        ('text/plain;a=b; charset="utf-16"', "utf-16"),
        ("text/plain;xcharset=a", "utf-8"),
    ],
)
def test_the_charset_is_read(media_type: str, charset: str) -> None:
    assert rules.charset(media_type) == charset
