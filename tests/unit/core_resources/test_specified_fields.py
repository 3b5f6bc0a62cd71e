"""The fields that knative/specs lists for each kind are there, and none beside them is required."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.resources.registry import by_kind
from headrace.core.resources.schema import full_schema

REFERENCE = ("apiVersion", "kind", "name", "namespace")
DESTINATION = ("uri", *(f"ref.{name}" for name in REFERENCE))
DELIVERY = ("retry", "backoffDelay", "backoffPolicy", *(f"deadLetterSink.{name}" for name in DESTINATION))
CONDITIONS = tuple(
    f"status.conditions.{name}" for name in ("type", "status", "reason", "message", "severity", "lastTransitionTime")
)


def under(prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{prefix}.{name}" for name in names)


SUBSCRIBER = ("uid", "generation", "subscriberUri", "replyUri", *under("delivery", DELIVERY))
ALL = ("status.observedGeneration", *CONDITIONS)
INGRESS = ("status.address.url", "status.deadLetterSinkUri", *ALL)
CHANNEL = (*under("spec.subscribers", SUBSCRIBER), *under("status.subscribers", ("uid", "ready", "message")), *INGRESS)
FIELDS = {
    ("eventing.knative.dev", "Broker"): (*under("spec.config", REFERENCE), *under("spec.delivery", DELIVERY), *INGRESS),
    ("eventing.knative.dev", "Trigger"): (
        "spec.broker",
        "spec.filter.attributes",
        *under("spec.subscriber", DESTINATION),
        *under("spec.delivery", DELIVERY),
        "status.subscriberUri",
        "status.deadLetterSinkUri",
        *ALL,
    ),
    ("messaging.knative.dev", "Channel"): ("spec.channelTemplate", *under("spec.delivery", DELIVERY), *CHANNEL),
    ("messaging.knative.dev", "KafkaChannel"): (*under("spec.delivery", DELIVERY), *CHANNEL),
    ("messaging.knative.dev", "Subscription"): (
        *under("spec.channel", REFERENCE),
        *under("spec.subscriber", DESTINATION),
        *under("spec.reply", DESTINATION),
        *under("spec.delivery", DELIVERY),
        *under("status.physicalSubscription", ("subscriberUri", "replyUri", "deadLetterSinkUri")),
        *ALL,
    ),
}


def node_at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    for name in path.split("."):
        schema = schema.get("items", schema)["properties"][name]
    return schema


@pytest.mark.spec("CP-X1")
@pytest.mark.parametrize(("group", "kind"), FIELDS)
def test_every_field_of_the_specification_is_there(group: str, kind: str) -> None:
    info = by_kind(group, kind)
    assert info is not None
    schema = full_schema(info.model)
    for path in FIELDS[group, kind]:
        assert node_at(schema, path)["type"], path


@pytest.mark.spec("CP-X1")
@pytest.mark.parametrize(("group", "kind"), FIELDS)
def test_no_other_field_of_a_spec_is_required(group: str, kind: str) -> None:
    def required(node: dict[str, Any], path: str) -> list[str]:
        found = [f"{path}.{name}" for name in node.get("required", ())]
        for name, part in node.get("properties", {}).items():
            found += required(part, f"{path}.{name}")
        return found + (required(node["items"], path) if "items" in node else [])

    info = by_kind(group, kind)
    assert info is not None
    assert required(full_schema(info.model)["properties"]["spec"], "spec") == []
