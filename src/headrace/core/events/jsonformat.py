"""The JSON event format and its batch form (CloudEvents JSON format, sections 2 to 4; the same for 0.3).

Reading keeps the text of a JSON `data` member exactly as it stands in the document: it is cut out, not re-serialised. Writing
puts JSON data in as it is. Where that would not give back the same bytes (JSON with white space around it, text of another
charset, anything that is not text) the data is written in base64, so no path changes a byte of it.

Attributes that are numbers or booleans become their canonical strings, and are written as strings: an event has no types.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from headrace.core.events.attributes import (
    INT32,
    TYPED_AS_STRING,
    charset,
    check,
    check_name,
    check_text,
    is_json,
)
from headrace.core.events.model import Event, InvalidEvent

MEDIA_TYPE = "application/cloudevents+json"
BATCH_MEDIA_TYPE = "application/cloudevents-batch+json"

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN_NAME = re.compile(r'"([a-z0-9_]+)"[ \t\n\r]*:[ \t\n\r]*')
_FOLLOWING = re.compile(r"[ \t\n\r]*([,}])[ \t\n\r]*")
_INTEGER = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
_TEXT = re.compile(r"text/|.*(?:/|\+)(?:xml|yaml)[ \t]*(?:;|$)", re.IGNORECASE)
_JSON_SPACE = b" \t\n\r"


class _Number(str):
    """A JSON number as it is written."""


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# The standard decoder's own two parts, which its type stubs leave out: they tell where a value ends.
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(  # type: ignore[attr-defined]
    parse_int=_Number, parse_float=_Number, parse_constant=_constant
).scan_once
_scan_string: Callable[[str, int, bool], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]


def decode(body: bytes, passthrough: tuple[tuple[str, str], ...] = ()) -> Event:
    """The event in `body`, one JSON object. Raises `InvalidEvent`."""
    text = _text(body)
    document = _Document(text)
    event, end = document.event(_skip(text, 0), passthrough)
    document.finish(end)
    return event


def decode_batch(body: bytes, passthrough: tuple[tuple[str, str], ...] = ()) -> list[Event]:
    """The events in `body`, a JSON array of objects with one `specversion`. Raises `InvalidEvent` if any of them is wrong."""
    text = _text(body)
    document = _Document(text)
    events: list[Event] = []
    end = document.expect("[", _skip(text, 0))
    if text[end : end + 1] == "]":
        end += 1
    else:
        while True:
            event, end = document.event(end, passthrough)
            events.append(event)
            end = _skip(text, end)
            if text[end : end + 1] != ",":
                break
            end = _skip(text, end + 1)
        end = document.expect("]", end)
    document.finish(end)
    if len({event.attributes["specversion"] for event in events}) > 1:
        raise InvalidEvent("the events of a batch must have the same specversion", subject="specversion")
    return events


def encode(event: Event) -> bytes:
    """`event` as one JSON object in UTF-8."""
    attributes, member = event.attributes, b""
    if event.data is not None:
        attributes, member = _data_member(event, event.data)
    head = json.dumps(attributes, ensure_ascii=False, separators=(",", ":")).encode()
    return head[:-1] + member + b"}"


def typed_attributes(members: Mapping[str, object]) -> dict[str, str | int | bool]:
    """The attributes in a JSON event's members with their JSON types, as expressions are tried out on them.

    Data is left out, and so is null. Raises `InvalidEvent` for a name or value that no attribute can have; that attributes are
    missing is no error.
    """
    out: dict[str, str | int | bool] = {}
    for name, value in members.items():
        if value is None or name in ("data", "data_base64"):
            continue
        check_name(name)
        if isinstance(value, str):
            check_text(name, value)
        elif not isinstance(value, int) or (value not in INT32 and not isinstance(value, bool)):
            raise InvalidEvent("an attribute is a string, an integer of 32 bits or a boolean", subject=name)
        out[name] = value
    return out


class _Document:
    """A JSON text that is read member by member, so that the text of `data` can be cut out of it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def event(self, index: int, passthrough: tuple[tuple[str, str], ...]) -> tuple[Event, int]:
        """The event whose object starts at `index`, and where it ends."""
        try:
            members, slice_of_data, end = self._object(index)
        except (ValueError, StopIteration) as error:
            raise InvalidEvent(f"the event is not JSON: {error}" if str(error) else "the event is not JSON") from None
        except RecursionError:
            raise InvalidEvent("the event's JSON is nested too deeply") from None
        return _event(members, self._text[slice_of_data], passthrough), end

    def expect(self, character: str, index: int) -> int:
        """The index of what follows `character` and white space."""
        if self._text[index : index + 1] != character:
            raise InvalidEvent(f"the event is not JSON: expected {character!r} at character {index}")
        return _skip(self._text, index + 1)

    def finish(self, index: int) -> None:
        """Nothing but white space may be left."""
        index = _skip(self._text, index)
        if index != len(self._text):
            raise InvalidEvent(f"the event is not JSON: extra text at character {index}")

    def _object(self, index: int) -> tuple[dict[str, Any], slice, int]:
        text, members, data = self._text, {}, slice(0, 0)
        index = self.expect("{", index)
        if text[index : index + 1] == "}":
            return {}, data, index + 1
        while True:
            plain = _PLAIN_NAME.match(text, index)
            name, start = (plain[1], plain.end()) if plain is not None else self._name(index)
            if name in members:
                raise InvalidEvent("occurs twice", subject=repr(name))
            members[name], end = _scan(text, start)
            if name == "data":
                data = slice(start, end)
            following = _FOLLOWING.match(text, end)
            if following is None:
                raise ValueError(f"expected ',' or '}}' at character {end}")
            index = following.end()
            if following[1] == "}":
                return members, data, index

    def _name(self, index: int) -> tuple[str, int]:
        """Any name of a member, and where its value starts."""
        if self._text[index : index + 1] != '"':
            raise ValueError(f"expected the name of a member at character {index}")
        name, end = _scan_string(self._text, index + 1, True)
        return name, self.expect(":", _skip(self._text, end))


def _event(members: dict[str, Any], json_data: str, passthrough: tuple[tuple[str, str], ...]) -> Event:
    attributes = {
        name: _attribute(name, value)
        for name, value in members.items()
        if value is not None and name != "data" and name != "data_base64"
    }
    encoded = members.get("data_base64")
    if encoded is not None:
        if "data" in members:
            raise InvalidEvent("must not be there together with 'data'", subject="data_base64")
        if attributes.get("specversion") == "0.3":
            raise InvalidEvent("is not part of CloudEvents 0.3", subject="data_base64")
        data: bytes | None = _base64("data_base64", encoded)
    elif "data" in members:
        data = _data(attributes, members["data"], json_data)
    else:
        data = None
    check(attributes)
    return Event(attributes, data, passthrough)


def _attribute(name: str, value: Any) -> str:
    check_name(name)
    if value is True or value is False:
        text = "true" if value else "false"
    elif isinstance(value, _Number):
        if _INTEGER.fullmatch(value) is None or len(value) > 11 or int(value) not in INT32:
            raise InvalidEvent(f"the number {value[:40]} is not an Integer of 32 bits", subject=name)
        text = str(int(value))
    elif isinstance(value, str):
        return check_text(name, value)
    else:
        raise InvalidEvent("an attribute is a string, a number or a boolean, never an object or an array", subject=name)
    if name in TYPED_AS_STRING:
        raise InvalidEvent(f"expected a string, got {text}", subject=name)
    return text


def _data(attributes: dict[str, str], value: Any, json_data: str) -> bytes:
    """The bytes of the member `data`; drops `datacontentencoding` (0.3) and fills in the implied media type."""
    if attributes.get("specversion") == "0.3" and "datacontentencoding" in attributes:
        encoding = attributes.pop("datacontentencoding")
        if encoding.lower() != "base64":
            raise InvalidEvent(f"expected base64, got {encoding!r}", subject="datacontentencoding")
        return _base64("data", value)
    media_type = attributes.setdefault("datacontenttype", "application/json")
    if is_json(media_type):
        content = json_data
    elif isinstance(value, str) and not isinstance(value, _Number):
        content = value
    else:
        raise InvalidEvent(f"must be a string, since the datacontenttype {media_type!r} is not JSON", subject="data")
    try:
        return content.encode(charset(media_type))
    except (LookupError, UnicodeError):
        raise InvalidEvent(f"can't be written in the charset of {media_type!r}", subject="data") from None


def _base64(name: str, value: Any) -> bytes:
    if not isinstance(value, str) or isinstance(value, _Number):
        raise InvalidEvent("expected a string in base64", subject=name)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidEvent("is not base64", subject=name) from None


def _data_member(event: Event, data: bytes) -> tuple[dict[str, str], bytes]:
    """The attributes to write, and `,"data":...` or `,"data_base64":...`."""
    attributes = event.attributes
    media_type = attributes.get("datacontenttype", "")
    if attributes["specversion"] == "0.3" and attributes.get("datacontentencoding", "").lower() == "base64" and data.isascii():
        return attributes, b',"data":' + json.dumps(data.decode()).encode()
    if media_type and charset(media_type) in ("utf-8", "us-ascii"):
        if is_json(media_type):
            if _is_json_value(data):
                return attributes, b',"data":' + data
        elif _TEXT.match(media_type) is not None:
            try:
                return attributes, b',"data":' + json.dumps(data.decode(), ensure_ascii=False).encode()
            except UnicodeDecodeError:
                pass
    encoded = base64.b64encode(data)
    if attributes["specversion"] == "0.3":
        return {**attributes, "datacontentencoding": "base64"}, b',"data":"' + encoded + b'"'
    return attributes, b',"data_base64":"' + encoded + b'"'


def _is_json_value(data: bytes) -> bool:
    """Whether `data` is one JSON value in UTF-8 with no white space around it."""
    if data.strip(_JSON_SPACE) != data:
        return False
    try:
        text = data.decode()
        return _scan(text, 0)[1] == len(text)
    except (ValueError, StopIteration, RecursionError):
        return False


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise InvalidEvent("the event is not UTF-8") from None


def _skip(text: str, index: int) -> int:
    found = _SPACE.match(text, index)
    return found.end() if found else index
