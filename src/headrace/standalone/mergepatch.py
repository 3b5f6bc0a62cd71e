"""JSON merge patch (RFC 7396), and the patch that brings one object to another. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge(target: Any, patch: Any) -> Any:
    """`target` with `patch` applied (section 2 of the RFC); neither is changed."""
    if not isinstance(patch, Mapping):
        return patch
    out = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge(out.get(key), value)
    return out


def three_way(previous: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that puts all of `wanted` into a live object and takes out what `previous` had and `wanted` has not.

    What neither mentions is left alone: defaults and what controllers wrote.
    """
    patch: dict[str, Any] = {key: None for key in previous if key not in wanted}
    for key, value in wanted.items():
        before = previous.get(key)
        if isinstance(value, Mapping):
            patch[key] = three_way(before if isinstance(before, Mapping) else {}, value)
        else:
            patch[key] = value
    return patch
