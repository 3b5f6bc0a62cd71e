"""Cells of a table of objects: the columns of a kind, read from an object by their JSONPath."""

from __future__ import annotations

import re
from typing import Any

from headrace.core.resources.base import Json
from headrace.core.resources.registry import Column
from headrace.core.resources.timestamps import parse_time

_STEP = re.compile(r'\.((?:[^.\[\\]|\\.)+)|\[\?\(@\.(\w+)=="([^"]*)"\)\]')


def cell(raw: Json, column: Column, now: float) -> str:
    """The text of one cell; empty where the object says nothing. `now` (Unix seconds) is what ages are counted from."""
    value = find(raw, column.path)
    if value is None:
        return ""
    if column.type == "date":
        try:
            return age(now - parse_time(str(value)) / 1000)
        except ValueError:
            return str(value)
    return str(value)


def find(raw: Any, path: str) -> Any:
    r"""The first value at a JSONPath of the kind CRDs use: `.a.b`, `.a\.b/c`, `.list[?(@.type=="Ready")].status`."""
    for name, key, wanted in _STEP.findall(path):
        if name:
            raw = raw.get(name.replace("\\", "")) if isinstance(raw, dict) else None
        else:
            items = raw if isinstance(raw, list) else ()
            raw = next((item for item in items if isinstance(item, dict) and item.get(key) == wanted), None)
        if raw is None:
            return None
    return raw


def age(seconds: float) -> str:
    """A span as kubectl shows it: `5s`, `3m20s`, `2h5m`, `3d4h`, `42d`, `2y10d`."""
    whole = max(0, int(seconds))
    days, hours, minutes = whole // 86_400, whole // 3_600, whole // 60
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    return f"{days // 365}y{days % 365}d" if days % 365 else f"{days // 365}y"
