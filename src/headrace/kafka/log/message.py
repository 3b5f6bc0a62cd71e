"""Decoding of Kafka's generated messages into plain mappings, by their definitions (`schema`).

Wire format: KIP-482. In flexible versions lengths are unsigned varints plus one and each structure ends with its tagged fields. The
mapping has the keys, and leaves out what is left out, as the JSON converters of Kafka do: tagged fields that have their default.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from typing import Any

from headrace.kafka.log.schema import Field, Message
from headrace.kafka.log.varint import read_unsigned

Reader = Callable[[bytes, int], tuple[Any, int]]

_FIXED = {
    "bool": struct.Struct(">?"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "uint32": struct.Struct(">I"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
}


class BadMessage(ValueError):
    """The bytes are not a message of that type and version."""


def decode(message: Message, version: int, data: bytes, position: int = 0) -> tuple[dict[str, Any], int]:
    """The message in `data[position:]` and the position after it. Byte fields stay `bytes`; uuids are in Kafka's own text form.

    A version newer than those known is read as the newest. Raises `BadMessage`.
    """
    try:
        return _structure(message.fields, version, version in message.flexible)(data, position)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise BadMessage(f"{message.name} version {version} can't be read ({error})") from error


@cache
def _structure(fields: tuple[Field, ...], version: int, flexible: bool) -> Reader:
    plain = [
        (field.name, _value(field, version, flexible)) for field in fields if field.tag is None and version in field.versions
    ]
    tagged = {field.tag: field for field in fields if field.tag is not None and version in field.versions}
    readers = {tag: _value(field, version, flexible) for tag, field in tagged.items()}
    order = [field.name for field in fields if version in field.versions]

    def read(data: bytes, position: int) -> tuple[Any, int]:
        out: dict[str, Any] = {}
        for name, reader in plain:
            out[name], position = reader(data, position)
        if not flexible:
            return out, position
        count, position = read_unsigned(data, position)
        for _ in range(count):
            tag, position = read_unsigned(data, position)
            size, position = read_unsigned(data, position)
            if tag in readers:
                value, _ = readers[tag](data, position)
                if value != tagged[tag].default:
                    out[tagged[tag].name] = value
            position += size
        if position > len(data):
            raise ValueError("tagged field beyond the end")
        return {name: out[name] for name in order if name in out} if tagged else out, position

    return read


def _value(field: Field, version: int, flexible: bool) -> Reader:
    if field.fields:
        single = _nullable_structure(field, version, flexible) if field.nullable and not field.array else None
        single = single or _structure(field.fields, version, flexible)
    elif field.kind == "uuid":
        single = _uuid
    elif field.kind in _FIXED:
        single = _fixed(_FIXED[field.kind])
    else:
        single = _sized(field.kind, flexible, field.nullable and not field.array)
    return _array(single, flexible, field.nullable) if field.array else single


def _fixed(form: struct.Struct) -> Reader:
    def read(data: bytes, position: int) -> tuple[Any, int]:
        return form.unpack_from(data, position)[0], position + form.size

    return read


def _uuid(data: bytes, position: int) -> tuple[str, int]:
    if position + 16 > len(data):
        raise ValueError("uuid beyond the end")
    return urlsafe_b64encode(data[position : position + 16]).decode().rstrip("="), position + 16


def _length(flexible: bool, wide: bool) -> Callable[[bytes, int], tuple[int, int]]:
    """A reader of lengths, -1 for null; `wide`: 4 bytes where the version is not flexible, else 2."""
    if flexible:

        def compact(data: bytes, position: int) -> tuple[int, int]:
            length, position = read_unsigned(data, position)
            return length - 1, position

        return compact
    form = _FIXED["int32" if wide else "int16"]
    return lambda data, position: (form.unpack_from(data, position)[0], position + form.size)


def _sized(kind: str, flexible: bool, nullable: bool) -> Reader:
    length_at = _length(flexible, wide=kind == "bytes")

    def read(data: bytes, position: int) -> tuple[Any, int]:
        length, position = length_at(data, position)
        if length < 0:
            if nullable:
                return None, position
            raise ValueError(f"{kind} is null")
        end = position + length
        if end > len(data):
            raise ValueError(f"{kind} beyond the end")
        return data[position:end].decode("utf-8", "replace") if kind == "string" else data[position:end], end

    return read


def _array(single: Reader, flexible: bool, nullable: bool) -> Reader:
    length_at = _length(flexible, wide=True)

    def read(data: bytes, position: int) -> tuple[Any, int]:
        length, position = length_at(data, position)
        if length < 0:
            if nullable:
                return None, position
            raise ValueError("array is null")
        out = []
        for _ in range(length):
            value, position = single(data, position)
            out.append(value)
        return out, position

    return read


def _nullable_structure(field: Field, version: int, flexible: bool) -> Reader:
    """A structure behind a byte that is 1; null is -1, or 0 within a tagged field."""
    inner = _structure(field.fields, version, flexible)

    def read(data: bytes, position: int) -> tuple[Any, int]:
        if data[position] != 1:
            return None, position + 1
        return inner(data, position + 1)

    return read
