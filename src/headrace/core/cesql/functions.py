"""The built-in functions (CESQL 3.5). A function is found by its name and its number of arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.core.cesql.casts import INT_MAX, INT_MIN, CastError, Value, to_boolean, to_integer
from headrace.core.cesql.errors import Kind

_WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""The characters with the property White_Space; Python's own `strip` takes some more."""


class FunctionError(Exception):
    """An error of a function that has a result all the same."""

    def __init__(self, kind: Kind, message: str, value: Value) -> None:
        super().__init__(message)
        self.kind = kind
        self.value = value


@dataclass(frozen=True, slots=True)
class Function:
    """`parameters` are the types to which arguments are cast, None for any; `rest` is the type of further arguments."""

    call: Callable[..., Value]
    result: type
    parameters: tuple[type | None, ...]
    rest: type | None = None

    def parameter(self, index: int) -> type | None:
        return self.parameters[index] if index < len(self.parameters) else self.rest


def find(name: str, arguments: int) -> Function | None:
    """The function called `name` (upper case) that takes that many arguments."""
    for function in _FUNCTIONS.get(name, ()):
        if arguments == len(function.parameters) or (function.rest is not None and arguments > len(function.parameters)):
            return function
    return None


def _is_integer(value: Value) -> bool:
    return _casts(to_integer, value)


def _is_boolean(value: Value) -> bool:
    return _casts(to_boolean, value)


def _casts(cast: Callable[[Value], Any], value: Value) -> bool:
    try:
        cast(value)
    except CastError:
        return False
    return True


def _left(value: str, count: int) -> str:
    if count < 0:
        raise FunctionError(Kind.FUNCTION_EVALUATION, f"LEFT of {count} characters", value)
    return value[:count]


def _right(value: str, count: int) -> str:
    if count < 0:
        raise FunctionError(Kind.FUNCTION_EVALUATION, f"RIGHT of {count} characters", value)
    return value[max(0, len(value) - count) :]


def _substring(value: str, position: int, length: int = INT_MAX) -> str:
    if not -len(value) <= position <= len(value):
        raise FunctionError(Kind.FUNCTION_EVALUATION, f"SUBSTRING from {position} of {len(value)} characters", "")
    if length < 0:
        raise FunctionError(Kind.FUNCTION_EVALUATION, f"SUBSTRING of {length} characters", "")
    if position == 0:
        return ""
    start = position - 1 if position > 0 else len(value) + position
    return value[start : start + length]


def _absolute(value: int) -> int:
    if value == INT_MIN:
        raise FunctionError(Kind.MATH, f"ABS({INT_MIN}) has more than 32 bits", INT_MAX)
    return abs(value)


_FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "INT": (Function(lambda value: value, int, (int,)),),
    "BOOL": (Function(lambda value: value, bool, (bool,)),),
    "STRING": (Function(lambda value: value, str, (str,)),),
    "IS_INT": (Function(_is_integer, bool, (None,)),),
    "IS_BOOL": (Function(_is_boolean, bool, (None,)),),
    "ABS": (Function(_absolute, int, (int,)),),
    "LENGTH": (Function(len, int, (str,)),),
    "CONCAT": (Function(lambda *values: "".join(values), str, (), str),),
    "CONCAT_WS": (Function(lambda delimiter, *values: delimiter.join(values), str, (str,), str),),
    "LOWER": (Function(str.lower, str, (str,)),),
    "UPPER": (Function(str.upper, str, (str,)),),
    "TRIM": (Function(lambda value: value.strip(_WHITE_SPACE), str, (str,)),),
    "LEFT": (Function(_left, str, (str, int)),),
    "RIGHT": (Function(_right, str, (str, int)),),
    "SUBSTRING": (Function(_substring, str, (str, int)), Function(_substring, str, (str, int, int))),
}
