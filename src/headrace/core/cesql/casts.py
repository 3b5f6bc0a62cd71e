"""The three types and the casts between them (CESQL 3.1 and 3.7). A Boolean is no Integer here, though Python thinks it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

Value: TypeAlias = str | int | bool

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
ZERO: dict[type, Value] = {str: "", int: 0, bool: False}
NAMES: dict[type, str] = {str: "String", int: "Integer", bool: "Boolean"}

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")


class CastError(Exception):
    """A value that has no meaning in the wanted type."""

    def __init__(self, value: Value, target: type) -> None:
        super().__init__(f"{text(value)!r:.100} is no {NAMES[target]}")


def text(value: Value) -> str:
    """The String of a value: `true` and `false`, decimal digits, or the value itself."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)


def to_string(value: Value) -> str:
    return value if value.__class__ is str else text(value)


def to_integer(value: Value) -> int:
    """Raises `CastError` for a String that is no decimal number of 32 bits."""
    if value.__class__ is str:
        if _INTEGER.fullmatch(value) is not None:
            number = int(value)
            if INT_MIN <= number <= INT_MAX:
                return number
        raise CastError(value, int)
    return int(value)


def to_boolean(value: Value) -> bool:
    """Raises `CastError` for a String that is neither `true` nor `false`, in any case."""
    if value.__class__ is str:
        lowered = value.lower()
        if lowered == "true":
            return True
        if lowered == "false":
            return False
        raise CastError(value, bool)
    return bool(value)


CASTS: dict[type, Callable[[Value], Value]] = {str: to_string, int: to_integer, bool: to_boolean}


def wrap(number: int) -> int:
    """`number` in 32 bits, as two's complement arithmetic leaves it."""
    return ((number + 2**31) & 0xFFFFFFFF) - 2**31
