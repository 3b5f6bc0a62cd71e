"""ConfigMap and Secret, v1."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from headrace.core.resources.base import Json
from headrace.core.resources.invalid import FieldError, at, changed, invalid_key, invalid_value
from headrace.core.resources.kinds import Kind
from headrace.core.resources.rules import Rules

_LARGEST = 1024 * 1024
_KEY_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


class ConfigMap(Kind):
    """Settings by key."""

    KIND: ClassVar[str] = "ConfigMap"

    data: dict[str, str] | None = None
    """Text by key."""
    binary_data: dict[str, str] | None = None
    """Bytes by key, in base64."""
    immutable: bool | None = None
    """Whether the data can't be changed any more."""

    def check(self, rules: Rules) -> Iterator[FieldError]:
        """Legal keys, no key twice, base64, at most 1 MiB."""
        yield from _check_keys("data", self.data)
        yield from _check_base64("binaryData", self.binary_data)
        for key in (self.data or {}).keys() & (self.binary_data or {}).keys():
            yield invalid_key(key, at("binaryData", key), "the key is in data, too")
        yield from _check_size(self.data, self.binary_data)

    def check_update(self, old: Self, rules: Rules) -> Iterator[FieldError]:
        """Data that was declared immutable stays."""
        before, after = ({"data": x.data, "binaryData": x.binary_data, "immutable": x.immutable} for x in (old, self))
        if old.immutable and before != after:
            yield changed("fields", "data", before, after)


class Secret(Kind):
    """Settings by key that are not shown."""

    KIND: ClassVar[str] = "Secret"
    SENSITIVE: ClassVar[bool] = True

    type: str | None = None
    """What it is for."""
    data: dict[str, str] | None = None
    """Bytes by key, in base64."""
    string_data: dict[str, str] | None = None
    """Text by key; written into `data`, never read back."""
    immutable: bool | None = None
    """Whether the data can't be changed any more."""

    @classmethod
    def default(cls, raw: Json, old: Json | None, rules: Rules) -> None:
        """The type; `stringData` becomes part of `data`."""
        raw.setdefault("type", "Opaque")
        text = raw.get("stringData")
        if isinstance(text, dict) and all(isinstance(value, str) for value in text.values()):
            data = raw.setdefault("data", {})
            if isinstance(data, dict):
                data.update({key: base64.b64encode(value.encode()).decode() for key, value in text.items()})
                del raw["stringData"]

    def check(self, rules: Rules) -> Iterator[FieldError]:
        """Legal keys, base64, at most 1 MiB. No value is named."""
        yield from _check_base64("data", self.data)
        yield from _check_size(self.data)

    def check_update(self, old: Self, rules: Rules) -> Iterator[FieldError]:
        """The type stays, and data that was declared immutable."""
        if old.type != self.type:
            yield changed("fields", "type", old.type, self.type)
        if old.immutable and (old.data != self.data or not self.immutable):
            yield FieldError("Immutable fields changed (-old +new)", ("data",))

    def values(self) -> dict[str, bytes]:
        """The data, decoded."""
        return {key: base64.b64decode(value) for key, value in (self.data or {}).items()}


def _check_keys(path: str, data: Mapping[str, str] | None) -> Iterator[FieldError]:
    for key in data or {}:
        if not 0 < len(key) <= 253 or not _KEY_CHARACTERS.issuperset(key) or key in (".", ".."):
            yield invalid_key(key, at(path, key), "expected 1 to 253 letters, digits, '-', '_' or '.'")


def _check_base64(path: str, data: Mapping[str, str] | None) -> Iterator[FieldError]:
    yield from _check_keys(path, data)
    for key, value in (data or {}).items():
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            yield invalid_value("(not shown)", at(path, key), "expected base64; plain text goes under stringData")


def _check_size(*parts: Mapping[str, str] | None) -> Iterator[FieldError]:
    size = sum(len(key) + len(value) for part in parts for key, value in (part or {}).items())
    if size > _LARGEST:
        yield FieldError(f"Too long: {size} bytes, at most {_LARGEST} are allowed", ("data",))
