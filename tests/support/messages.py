"""Values of Kafka's generated messages, by their definitions."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from random import Random
from typing import Any

from headrace.kafka.log.schema import Field, Message

_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_CHARACTERS = 'abcXYZ019-_./ "\\\n\t\x00\x1f\x7fäß€\N{GRINNING FACE}'


def random_value(message: Message, version: int, random: Random) -> dict[str, Any]:
    """A value of `message` in `version`, without tagged fields that have their default: as Kafka writes them."""
    return _structure(message.fields, version, random)


def _structure(fields: tuple[Field, ...], version: int, random: Random) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for field in fields:
        if version in field.versions and (field.tag is None or random.random() < 0.6):
            content = _value(field, version, random)
            if field.tag is None or content != field.default:
                value[field.name] = content
    return value


def _value(field: Field, version: int, random: Random) -> Any:
    if field.nullable and random.random() < 0.2:
        return None
    if field.array:
        return [_single(field, version, random) for _ in range(random.randrange(4))]
    return _single(field, version, random)


def _single(field: Field, version: int, random: Random) -> Any:
    if field.fields:
        return _structure(field.fields, version, random)
    match field.kind:
        case "string":
            return "".join(random.choices(_CHARACTERS, k=random.randrange(9)))
        case "bytes":
            return random.randbytes(random.randrange(20))
        case "bool":
            return random.random() < 0.5
        case "uint16" | "uint32":
            return random.getrandbits(int(field.kind[4:]))
        case "float64":
            # Few digits: Java before 19 does not always print the shortest ones.
            return random.choice((-1, 1)) * random.randrange(10_000) / 8 * 10.0 ** random.choice((0, 0, 6, 12))
        case "uuid":
            return urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")
        case kind:
            # Small numbers as often as large ones.
            bits = random.choice((3, _BITS[kind]))
            return random.randrange(-(2**bits), 2**bits)
