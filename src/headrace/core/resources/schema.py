"""JSON Schemas of the kinds, in the subset that OpenAPI v3 and CRDs ("structural schemas") take."""

from __future__ import annotations

from typing import Any

from headrace.core.resources.base import Json
from headrace.core.resources.kinds import Kind

_OPEN = "x-kubernetes-preserve-unknown-fields"
_KEPT = ("type", "description", "enum", "default", "minimum", "maximum", "format", "pattern")


def full_schema(kind: type[Kind]) -> Json:
    """The schema of a whole object, metadata included; no references in it."""
    raw = kind.model_json_schema(by_alias=True, mode="validation")
    return _inline(raw, raw.get("$defs", {}), ())


def structural_schema(kind: type[Kind]) -> Json:
    """As `full_schema`, with `metadata` left to the API server, as a CRD must."""
    schema = full_schema(kind)
    schema["properties"]["metadata"] = {"type": "object"}
    schema.pop("required", None)
    return schema


def _inline(node: Json, defs: Json, inside: tuple[str, ...]) -> Json:
    for option in node.get("anyOf", ()):
        if option.get("type") != "null":
            return _inline({**option, **_own(node)}, defs, inside)
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if name in inside:
            return {"type": "object", **_described(node, defs[name]), _OPEN: True}
        target = defs[name]
        return _inline({**target, **_described(node, target), **_own(node)}, defs, (*inside, name))
    out = {key: node[key] for key in _KEPT if node.get(key) not in (None, "", {})}
    if "const" in node:
        out["enum"] = [node["const"]]
    if "properties" in node:
        out["properties"] = {name: _inline(part, defs, inside) for name, part in node["properties"].items()}
    elif out.get("type") == "object":
        extra = node.get("additionalProperties")
        out |= {"additionalProperties": _inline(extra, defs, inside)} if isinstance(extra, dict) else {_OPEN: True}
    if "items" in node:
        out["items"] = _inline(node["items"], defs, inside)
    if node.get("required"):
        out["required"] = list(node["required"])
    return out


def _own(node: Json) -> Json:
    return {key: node[key] for key in ("description", "default") if node.get(key) not in (None, "", {})}


def _described(node: Json, target: Json) -> dict[str, Any]:
    text = node.get("description") or target.get("description")
    return {"description": text} if text else {}
