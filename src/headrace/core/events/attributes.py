"""The rules for names and values of attributes (CloudEvents 1.0, "Type System" and "Context Attributes"; 0.3 likewise).

The validators answer from small caches where values repeat from event to event (sources, media types), since a receiver asks
them for each event.
"""

from __future__ import annotations

import re
from calendar import monthrange
from functools import lru_cache

from headrace.core.events.model import VERSIONS, InvalidEvent

REQUIRED = ("specversion", "id", "source", "type")
TYPED_AS_STRING = frozenset((*REQUIRED, "subject", "time", "datacontenttype", "dataschema"))
"""Attributes of the specification: each is a string in the JSON format, and empty is not allowed."""

NAME = re.compile(r"[a-z0-9]+")
RESERVED = "data"
_CACHED_LENGTH = 256
"""Longer values are judged anew each time, so that a sender can't fill the memory through a cache."""
INT32 = range(-(2**31), 2**31)

_DISALLOWED = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
    + "]"
)
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}[ \t]*(?:;[ -~\t]*)?")
_CHARSET = re.compile(rf';[ \t]*charset="?({_TOKEN})', re.IGNORECASE)

_PCHAR = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_SEGMENT_NO_COLON = _PCHAR.replace(":@", "@")
_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|\[v[0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+\]|" + _PCHAR.replace(":@", "") + "*)"
_AUTHORITY = "//(?:" + _PCHAR.replace(":@", ":") + f"*@)?{_HOST}(?::[0-9]*)?(?:/{_PCHAR}*)*"
_ABSOLUTE_PATH = f"/(?:{_PCHAR}+(?:/{_PCHAR}*)*)?"
_TAIL = rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
_URI_PATTERN = rf"[A-Za-z][A-Za-z0-9+.-]*:(?:{_AUTHORITY}|{_ABSOLUTE_PATH}|{_PCHAR}+(?:/{_PCHAR}*)*|){_TAIL}"
_RELATIVE_PATTERN = f"(?:{_AUTHORITY}|{_ABSOLUTE_PATH}|{_SEGMENT_NO_COLON}+(?:/{_PCHAR}*)*|){_TAIL}"
_URI = re.compile(_URI_PATTERN)
_URI_REFERENCE = re.compile(f"{_URI_PATTERN}|{_RELATIVE_PATTERN}")

_TIMESTAMP = re.compile(
    r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?"
    r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)


def check(attributes: dict[str, str]) -> None:
    """Raise `InvalidEvent` unless the required attributes are there and those of the specification have their types.

    Names and characters are the caller's task (`check_name`, `check_text`): each binding meets them at another place.
    """
    get = attributes.get
    if not (get("id") and get("type") and get("specversion") in VERSIONS and is_uri_reference(get("source", ""))):
        raise _required(attributes)
    if len(attributes) > 4:
        _check_optional(attributes)


def check_required(attributes: dict[str, str]) -> None:
    """The part of `check` that a record already in Kafka has to meet: required attributes present, the version known."""
    get = attributes.get
    if not (get("id") and get("type") and get("source") and get("specversion") in VERSIONS):
        raise _required(attributes)


def check_name(name: str) -> str:
    """`name` itself; `InvalidEvent` unless it is made of `a-z0-9` and is not `data`."""
    if name == RESERVED or NAME.fullmatch(name) is None:
        raise InvalidEvent("not a name of an attribute: only a-z and 0-9 are allowed, and not 'data'", subject=repr(name))
    return name


def check_text(name: str, value: str) -> str:
    """`value` itself; `InvalidEvent` when it holds a character that the type String excludes."""
    if value.isascii() and value.isprintable():
        return value
    found = _DISALLOWED.search(value)
    if found is not None:
        raise InvalidEvent(f"the character U+{ord(found[0]):04X} is not allowed in an attribute", subject=name)
    return value


def is_uri_reference(value: str) -> bool:
    """Whether `value` is a non-empty URI-reference (RFC 3986, section 4.1)."""
    if len(value) <= _CACHED_LENGTH:
        return _short_uri_reference(value)
    return _URI_REFERENCE.fullmatch(value) is not None


def is_uri(value: str) -> bool:
    """Whether `value` is a URI with a scheme (RFC 3986, section 3)."""
    return _URI.fullmatch(value) is not None


def is_media_type(value: str) -> bool:
    """Whether `value` is `type/subtype`, with or without parameters (RFC 2046), in printable ASCII."""
    if len(value) <= _CACHED_LENGTH:
        return _short_media_type(value)
    return _MEDIA_TYPE.fullmatch(value) is not None


def is_json(media_type: str) -> bool:
    """Whether `media_type` declares JSON: `*/json` or `*/*+json`, parameters apart (JSON format, section 3.1)."""
    subtype = media_type.partition(";")[0].strip().lower().partition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


@lru_cache(maxsize=4096)
def _short_uri_reference(value: str) -> bool:
    return bool(value) and _URI_REFERENCE.fullmatch(value) is not None


@lru_cache(maxsize=1024)
def _short_media_type(value: str) -> bool:
    return _MEDIA_TYPE.fullmatch(value) is not None


def charset(media_type: str) -> str:
    """The `charset` parameter of `media_type` in lower case, `utf-8` where there is none."""
    found = _CHARSET.search(media_type)
    return found[1].lower() if found else "utf-8"


def is_timestamp(value: str) -> bool:
    """Whether `value` is a date and time of RFC 3339 that exists."""
    found = _TIMESTAMP.fullmatch(value)
    if found is None:
        return False
    year, month, day = found.groups()
    return day <= "28" or int(day) <= monthrange(int(year) or 4, int(month))[1]


def _check_optional(attributes: dict[str, str]) -> None:
    get = attributes.get
    time = get("time")
    if time is not None and not is_timestamp(time):
        raise InvalidEvent(f"expected a date and time as in RFC 3339, got {time!r}", subject="time")
    media_type = get("datacontenttype")
    if media_type is not None and not is_media_type(media_type):
        raise InvalidEvent(f"expected a media type as in RFC 2046, got {media_type!r}", subject="datacontenttype")
    if get("subject") == "":
        raise InvalidEvent("must not be empty where it is present", subject="subject")
    if attributes["specversion"] == "1.0":
        schema = get("dataschema")
        if schema is not None and not is_uri(schema):
            raise InvalidEvent(f"expected a URI, got {schema!r}", subject="dataschema")
    else:
        schema = get("schemaurl")
        if schema is not None and not is_uri_reference(schema):
            raise InvalidEvent(f"expected a URI-reference, got {schema!r}", subject="schemaurl")


def _required(attributes: dict[str, str]) -> InvalidEvent:
    for name in REQUIRED:
        if not attributes.get(name):
            return InvalidEvent("a required attribute is missing or empty", subject=name)
    if attributes["specversion"] not in VERSIONS:
        return InvalidEvent(f"expected 1.0 or 0.3, got {attributes['specversion']!r}", subject="specversion")
    return InvalidEvent(f"expected a URI-reference as in RFC 3986, got {attributes['source']!r}", subject="source")
