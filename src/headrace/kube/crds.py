"""CustomResourceDefinitions of the kinds that Headrace serves, made from the registry. Pure.

Rules on immutable fields are stated twice: here in CEL, so that they hold without the webhooks, and in the webhooks; the messages
are Knative's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.core.resources.base import Json, without_nulls
from headrace.core.resources.registry import KINDS, Column, KindInfo
from headrace.core.resources.schema import structural_schema

_IMMUTABLE: dict[str, tuple[str, ...]] = {
    "Broker": ("config",),
    "Trigger": ("broker", "brokerRef"),
    "KafkaChannel": ("numPartitions", "replicationFactor", "retentionDuration"),
    "Channel": ("channelTemplate",),
    "Subscription": ("channel",),
}
_CORE_OWNED = frozenset({"Broker", "Trigger", "Channel", "Subscription", "EventPolicy"})


def custom_kinds(*, beside_core: bool = False) -> list[KindInfo]:
    """The kinds that need a CRD; `beside_core`: without those that Knative's core brings itself."""
    return [info for info in KINDS if info.group and not (beside_core and info.kind in _CORE_OWNED)]


def crds(*, beside_core: bool = False) -> list[Json]:
    """One CustomResourceDefinition per kind."""
    return [crd(info) for info in custom_kinds(beside_core=beside_core)]


def crd(info: KindInfo) -> Json:
    """The CustomResourceDefinition of a kind. Its versions have the same fields, so that no webhook converts them."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": info.qualified,
            "labels": {**dict(info.labels), "app.kubernetes.io/part-of": "headrace"},
        },
        "spec": {
            "group": info.group,
            "scope": "Namespaced",
            "names": {
                "kind": info.kind,
                "listKind": f"{info.kind}List",
                "plural": info.plural,
                "singular": info.singular,
                **({"shortNames": list(info.short_names)} if info.short_names else {}),
                **({"categories": list(info.categories)} if info.categories else {}),
            },
            "conversion": {"strategy": "None"},
            "versions": [_version(info, version) for version in info.versions],
        },
    }


def _version(info: KindInfo, version: str) -> Json:
    return {
        "name": version,
        "served": True,
        "storage": version == info.storage,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in info.columns],
        "schema": {"openAPIV3Schema": _schema(info)},
    }


def _column(column: Column) -> Json:
    return {"name": column.name, "type": column.type, "jsonPath": column.path}


def _schema(info: KindInfo) -> Json:
    schema = structural_schema(info.model)
    for name in ("apiVersion", "kind"):
        schema["properties"][name] = {"type": "string", "description": schema["properties"][name].get("description", "")}
    _prune_defaults(schema)
    spec = schema["properties"].get("spec")
    rules = list(_rules(info.kind))
    if isinstance(spec, dict) and rules:
        spec["x-kubernetes-validations"] = rules
    return schema


def _prune_defaults(node: Any) -> None:
    """A default may not hold nulls; one that says nothing is none."""
    if isinstance(node, dict):
        if isinstance(node.get("default"), dict) and "type" in node:
            node["default"] = without_nulls(node["default"])
            if not node["default"]:
                del node["default"]
        for part in node.values():
            _prune_defaults(part)


def _rules(kind: str) -> Iterator[dict[str, Any]]:
    for name in _IMMUTABLE.get(kind, ()):
        yield {
            "rule": f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})",
            "message": f"Immutable fields changed (-old +new): spec.{name}",
            "fieldPath": f".{name}",
            "reason": "FieldValueForbidden",
        }
