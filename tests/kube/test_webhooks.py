"""The admission webhooks through kubectl: each object that Knative refuses is refused, in Knative's words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kube.cluster import USER_TOKEN
from tests.kube.installation import Installation

EVENTING = "eventing.knative.dev/v1"
pytestmark = pytest.mark.timeout(1200)
MESSAGING = "messaging.knative.dev/v1"
CLASS = {"eventing.knative.dev/broker.class": "Kafka"}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "namespace": "default"}
CHANNEL = {"apiVersion": MESSAGING, "kind": "Channel", "name": "c"}
SINK = {"uri": "http://sink.example"}


def obj(kind: str, api: str, spec: dict[str, Any], annotations: dict[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "refused", "namespace": "default"}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


def trigger(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return obj("Trigger", EVENTING, {"broker": "b", "subscriber": SINK} | spec, annotations)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "broker config that is no ConfigMap": (
        obj("Broker", EVENTING, {"config": {**CONFIG, "kind": "Secret"}}, CLASS),
        "Expected ConfigMap",
    ),
    "trigger without broker": (obj("Trigger", EVENTING, {"subscriber": SINK}), "spec.broker"),
    "attribute in upper case": (
        trigger(filter={"attributes": {"Type": "x"}}),
        "Attribute name must start with a letter and can only contain lowercase alphanumeric",
    ),
    "two dialects in a filter": (
        trigger(filters=[{"exact": {"type": "a"}, "prefix": {"type": "b"}}]),
        "multiple dialects found, filters can have only one dialect set",
    ),
    "cesql that does not parse": (
        trigger(filters=[{"cesql": "type = "}]),
        "the expression ends too early: spec.filters[0].cesql",
    ),
    "dependency that is no JSON": (trigger({"knative.dev/dependency": "x"}), "knative.dev/dependency"),
    "injection of something else": (trigger({"eventing.knative.dev/injection": "maybe"}), "eventing.knative.dev/injection"),
    "subscription without channel": (
        obj("Subscription", MESSAGING, {"subscriber": SINK}),
        "the Subscription must reference a channel",
    ),
    "subscription without subscriber": (
        obj("Subscription", MESSAGING, {"channel": CHANNEL}),
        "the Subscription must reference a subscriber",
    ),
    "channel with subscribers": (
        obj("Channel", MESSAGING, {"subscribers": [{"uid": "u", "subscriberUri": "http://x"}]}),
        "spec.subscribers",
    ),
    "no partitions": (obj("KafkaChannel", MESSAGING, {"numPartitions": 0}), "spec.numPartitions"),
    "no replicas": (obj("KafkaChannel", MESSAGING, {"replicationFactor": 0}), "spec.replicationFactor"),
    "negative retention": (obj("KafkaChannel", MESSAGING, {"retentionDuration": "-PT1H"}), "spec.retentionDuration"),
    "subscribers by a user": (
        obj("KafkaChannel", MESSAGING, {"subscribers": [{"uid": "u", "subscriberUri": "http://x"}]}),
        "Channel.Spec.Subscribers changed by user alice which was not the",
    ),
    "destination of nothing": (trigger(subscriber={}), "expected at least one, got none"),
    "absolute uri beside a ref": (
        trigger(subscriber={"ref": {"apiVersion": "v1", "kind": "Service", "name": "s"}, "uri": "http://x"}),
        "Absolute URI is not allowed when Ref or [apiVersion, kind, name] is present",
    ),
    "relative uri alone": (
        trigger(subscriber={"uri": "/path"}),
        "Relative URI is not allowed when Ref and [apiVersion, kind, name] is absent",
    ),
    "negative retry": (trigger(delivery={"retry": -1}), "spec.delivery.retry"),
    "delay that is no duration": (trigger(delivery={"backoffDelay": "soon"}), "spec.delivery.backoffDelay"),
    "timeout of nothing": (trigger(delivery={"timeout": "PT0S"}), "spec.delivery.timeout"),
}


@pytest.fixture(scope="module")
def user(system: Installation) -> Installation:
    """A user who may make objects, but is not the controller."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }
    system.cluster.apply(role)
    system.cluster.config_of("alice", USER_TOKEN)
    return system


def apply(user: Installation, thing: dict[str, Any]) -> tuple[int, str]:
    config = user.cluster.folder / "alice.kubeconfig"
    result = user.cluster.apply(thing, check=False, config=config)
    return result.returncode, result.stderr


@pytest.mark.spec("CP-S4", "CP-X6", "CP-S2")
@pytest.mark.parametrize("case", BAD)
def test_a_bad_object_is_refused(user: Installation, case: str) -> None:
    thing, words = BAD[case]
    code, text = apply(user, thing)
    assert code != 0
    assert words in text
    assert not user.cluster.exists(f"{thing['kind'].lower()}/refused", "default")


@pytest.mark.spec("CP-B6", "CP-C6")
def test_defaults_are_filled_in(user: Installation) -> None:
    assert apply(user, obj("Broker", EVENTING, {}))[0] == 0
    made = user.cluster.get("broker/refused", "default")
    assert made["metadata"]["annotations"]["eventing.knative.dev/broker.class"] == "Kafka"
    user.cluster.kubectl("delete", "broker/refused", "--timeout=240s")


@pytest.mark.spec("CP-B7", "CP-T5", "CP-T6")
def test_what_is_immutable_stays_and_what_is_mutable_changes(user: Installation) -> None:
    # B5: immutability-1 (class), immutability-2 (config).
    assert apply(user, obj("Broker", EVENTING, {}, {"eventing.knative.dev/broker.class": "Elsewhere"}))[0] == 0
    code, text = apply(user, obj("Broker", EVENTING, {}, CLASS))
    assert code != 0
    assert "Immutable annotations changed (-old +new)" in text
    code, text = apply(user, obj("Broker", EVENTING, {"config": CONFIG}, {"eventing.knative.dev/broker.class": "Elsewhere"}))
    assert code != 0
    assert "Immutable fields changed (-old +new)" in text
    assert apply(user, trigger())[0] == 0
    code, text = apply(user, trigger(broker="other"))
    assert code != 0
    assert "Immutable fields changed (-old +new)" in text
    assert apply(user, trigger(subscriber={"uri": "http://other.example"}, filter={"attributes": {"type": "x"}}))[0] == 0
    user.cluster.kubectl("delete", "broker/refused", "trigger/refused", "--timeout=240s")
