"""What can go wrong with an expression: it does not parse, or its evaluation has an error besides its result."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headrace.base.errors import Terminal


class Kind(StrEnum):
    """The kinds of errors, named as the compatibility kit names them."""

    PARSE = "parse"
    MATH = "math"
    CAST = "cast"
    MISSING_FUNCTION = "missingFunction"
    FUNCTION_EVALUATION = "functionEvaluation"
    MISSING_ATTRIBUTE = "missingAttribute"
    GENERIC = "generic"


@dataclass(frozen=True, slots=True)
class CesqlError:
    """The first error of an evaluation."""

    kind: Kind
    message: str


class ParseError(Terminal):
    """An expression that is no CESQL: where (both from 1), and what could have stood there instead."""

    def __init__(self, message: str, *, line: int, column: int, expected: tuple[str, ...] = ()) -> None:
        hint = f"Expected {_either(expected)}" if expected else ""
        super().__init__(f"line {line}, column {column}: {message}", hint=hint)
        self.line = line
        self.column = column
        self.expected = expected


def _either(words: tuple[str, ...]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
