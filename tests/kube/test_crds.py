"""The CustomResourceDefinitions, on a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.kube.crds import crds, custom_kinds
from tests.kube.cluster import Cluster

CHANNEL = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel"}


def channel(name: str, **spec: Any) -> dict[str, Any]:
    return {**CHANNEL, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_all_are_established_with_structural_schemas(cluster: Cluster) -> None:
    found = {item["metadata"]["name"]: item for item in cluster.get("crds")["items"]}
    for info in custom_kinds():
        conditions = {c["type"]: c["status"] for c in found[info.qualified]["status"]["conditions"]}
        assert conditions["Established"] == "True"
        assert conditions.get("NonStructuralSchema", "False") == "False", conditions
        assert found[info.qualified]["status"]["acceptedNames"]["plural"] == info.plural


@pytest.mark.spec("CP-X1")
def test_fields_are_described_and_defaulted_by_the_api_server(cluster: Cluster) -> None:
    cluster.apply(channel("defaulted"))
    assert cluster.get("kc/defaulted", "default")["spec"] == {
        "numPartitions": 1,
        "replicationFactor": 1,
        "retentionDuration": "PT168H",
    }
    assert "Partitions of its topic" in cluster.kubectl("explain", "kafkachannel.spec.numPartitions").stdout
    cluster.kubectl("delete", "kc/defaulted")


def test_both_versions_of_a_kafka_channel_are_one_object(cluster: Cluster) -> None:
    cluster.apply(channel("versions", numPartitions=3))
    for version in ("v1beta1", "v1"):
        seen = cluster.get(f"kafkachannels.{version}.messaging.knative.dev/versions", "default")
        assert (seen["apiVersion"], seen["spec"]["numPartitions"]) == (f"messaging.knative.dev/{version}", 3)
    cluster.kubectl("delete", "kc/versions")


@pytest.mark.spec("CP-T5", "CP-B7", "CP-S6", "CP-C6")
@pytest.mark.parametrize(
    ("kind", "version", "before", "after", "field"),
    [
        ("KafkaChannel", "messaging.knative.dev/v1", {"numPartitions": 1}, {"numPartitions": 2}, "numPartitions"),
        (
            "Trigger",
            "eventing.knative.dev/v1",
            {"broker": "a", "subscriber": {"uri": "http://x"}},
            {"broker": "b", "subscriber": {"uri": "http://x"}},
            "broker",
        ),
        (
            "Broker",
            "eventing.knative.dev/v1",
            {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}},
            {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": "b"}},
            "config",
        ),
        (
            "Subscription",
            "messaging.knative.dev/v1",
            {
                "channel": {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": "a"},
                "subscriber": {"uri": "http://x"},
            },
            {
                "channel": {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": "b"},
                "subscriber": {"uri": "http://x"},
            },
            "channel",
        ),
        (
            "Channel",
            "messaging.knative.dev/v1",
            {"channelTemplate": {"apiVersion": "messaging.knative.dev/v1", "kind": "KafkaChannel"}},
            {"channelTemplate": {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel"}},
            "channelTemplate",
        ),
    ],
)
def test_immutable_fields_hold_without_any_webhook(
    cluster: Cluster, kind: str, version: str, before: dict[str, Any], after: dict[str, Any], field: str
) -> None:
    # Other tests of this folder install webhooks, which say it first and in Knative's words.
    head = {"apiVersion": version, "kind": kind, "metadata": {"name": "fixed", "namespace": "default"}}
    if kind == "Broker":
        head["metadata"]["annotations"] = {"eventing.knative.dev/broker.class": "Kafka"}  # type: ignore[index]
    cluster.apply({**head, "spec": before})
    refused = cluster.apply({**head, "spec": after}, check=False)
    assert refused.returncode != 0
    assert "Immutable fields changed" in refused.stderr
    assert field in refused.stderr
    cluster.kubectl("delete", f"{kind.lower()}/fixed", "--wait=false")


def test_columns_short_names_and_categories(cluster: Cluster) -> None:
    cluster.apply(channel("shown"))
    head = cluster.kubectl("get", "kc").stdout.splitlines()[0].split()
    assert head == ["NAME", "READY", "REASON", "URL", "AGE"]
    assert "kafkachannel.messaging.knative.dev/shown" in cluster.kubectl("get", "knative", "-o", "name").stdout
    cluster.kubectl("delete", "kc/shown")


def test_beside_knatives_core_only_the_kafka_channel_is_ours() -> None:
    assert [crd["metadata"]["name"] for crd in crds(beside_core=True)] == ["kafkachannels.messaging.knative.dev"]
