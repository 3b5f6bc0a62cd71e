"""JSON exactly as Kafka's tools print it (Jackson, no white space), so that our output can be compared with theirs line by line."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from decimal import Decimal
from typing import Any

_CONTROL = re.compile(r'[\x00-\x1f"\\]')
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_PLAIN_LOW, _PLAIN_HIGH = 1e-3, 1e7


def write(value: Any) -> str:
    """`value` (mappings, lists, texts, numbers, booleans, None, bytes as base64) as one line."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(name)}:{write(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes):
        return f'"{b64encode(value).decode()}"'
    if isinstance(value, float):
        return java_double(value)
    return json.dumps(value)


def _text(value: str) -> str:
    return '"' + _CONTROL.sub(lambda match: _SHORT.get(match[0]) or f"\\u{ord(match[0]):04X}", value) + '"'


def java_double(value: float) -> str:
    """`value` as `Double.toString` of Java 19 and newer: plain from 10^-3 to below 10^7, else with an exponent."""
    if value != value or value in (float("inf"), float("-inf")):
        return f'"{"NaN" if value != value else "Infinity" if value > 0 else "-Infinity"}"'
    if value == 0 or _PLAIN_LOW <= abs(value) < _PLAIN_HIGH:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{len(text) - 1 + int(exponent)}"
