"""Values of Kafka's generated messages for Hypothesis, by their definitions."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

from hypothesis import strategies as st

from headrace.kafka.log.schema import Field, Message

_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "string": _TEXT,
    "bytes": st.binary(max_size=20),
    "bool": st.booleans(),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "uuid": st.binary(min_size=16, max_size=16).map(lambda raw: urlsafe_b64encode(raw).decode().rstrip("=")),
    **{name: st.integers(-(2**bits), 2**bits - 1) for name, bits in _BITS.items()},
}


def values(message: Message, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Values of `message` in `version`, without tagged fields that have their default, as Kafka writes them."""
    return _structure(message.fields, version)


def _structure(fields: tuple[Field, ...], version: int) -> st.SearchStrategy[dict[str, Any]]:
    known = [field for field in fields if version in field.versions]
    plain = {field.name: _value(field, version) for field in known if field.tag is None}
    tagged = {field.name: _value(field, version) for field in known if field.tag is not None}
    defaults = {field.name: field.default for field in known}
    order = [field.name for field in known]

    def tidy(value: dict[str, Any]) -> dict[str, Any]:
        return {name: value[name] for name in order if name in value and not (name in tagged and value[name] == defaults[name])}

    return st.fixed_dictionaries(plain, optional=tagged).map(tidy)


def _value(field: Field, version: int) -> st.SearchStrategy[Any]:
    single = _structure(field.fields, version) if field.fields else _PRIMITIVES[field.kind]
    single = st.lists(single, max_size=3) if field.array else single
    return st.none() | single if field.nullable else single
