"""A cluster as its users see it: objects by kubectl, events over HTTP."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from headrace.core.events.model import Event
from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings
from tests.kube.installation import NAMESPACE, Installation
from tests.support.waiting import eventually

BROKER = "eventing.knative.dev/v1"
MESSAGING = "messaging.knative.dev/v1"


def broker(name: str) -> dict[str, Any]:
    return {
        "apiVersion": BROKER,
        "kind": "Broker",
        "metadata": {"name": name, "namespace": "default", "annotations": {"eventing.knative.dev/broker.class": "Kafka"}},
    }


def trigger(name: str, of: str, uri: str, **filters: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"broker": of, "subscriber": {"uri": uri}}
    if filters:
        spec["filter"] = {"attributes": filters}
    return {"apiVersion": BROKER, "kind": "Trigger", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def groups(kafka: KafkaSettings) -> set[str]:
    """The consumer groups of a Kafka."""
    listing = AdminClient(kafka.client()).list_consumer_groups().result()
    return {group.group_id for group in listing.valid}


def sent_ids(got: list[Event]) -> list[str]:
    return [event.attributes["id"] for event in got]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.spec("CP-B1", "CP-B2", "CP-B3", "CP-B4", "CP-T1", "CP-T2", "CP-X2", "CP-X3", "CP-D4", "ES-1", "ES-3")
def test_an_event_sent_to_a_broker_reaches_its_trigger_and_all_goes_again(
    system: Installation, admin: Admin, kafka: KafkaSettings, sink: tuple[str, list[Event]]
) -> None:
    cluster, (url, got) = system.cluster, sink
    cluster.apply(trigger("early", "orders", url, type="test"))
    eventually(lambda: system.ready("trigger/early", "default", "False"), 180, "a trigger without broker is not Ready")
    assert system.condition("trigger/early", "default")["reason"] == "BrokerDoesNotExist"
    cluster.apply(broker("orders"))
    eventually(lambda: cluster.exists("deployment/kafka-broker-dispatcher", NAMESPACE), 180)
    system.run_pod("kafka-broker-dispatcher")
    system.wait_ready("broker/orders", "default")
    system.wait_ready("trigger/early", "default", 500)
    seen = cluster.get("broker/orders", "default")
    address = seen["status"]["address"]["url"]
    assert address == f"http://kafka-broker-ingress.{NAMESPACE}.svc.cluster.local/default/orders"
    assert seen["status"]["observedGeneration"] == seen["metadata"]["generation"]
    assert cluster.get("trigger/early", "default")["status"]["subscriberUri"] == url
    assert system.send(address, "1") == 202
    assert system.send(address, "2", type="other") == 202
    assert system.send(address, "3") == 202
    eventually(lambda: sent_ids(got) == ["1", "3"], 180)

    cluster.kubectl("delete", "trigger/early", "broker/orders", "--timeout=240s")
    assert admin.describe("knative-broker-default-orders") is None
    assert "knative-trigger-default-early" not in groups(kafka)
    eventually(lambda: not cluster.exists("deployment/kafka-broker-dispatcher", NAMESPACE), 120)
    system.plane.pop("kafka-broker-dispatcher").stop()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.spec("CP-C1", "CP-S1", "CP-S2", "CP-S3", "CP-S5", "CP-S7", "CP-X6", "CP-D5")
def test_a_channel_made_of_a_kafka_channel_delivers_to_its_subscription(
    system: Installation, admin: Admin, sink: tuple[str, list[Event]]
) -> None:
    cluster, (url, got) = system.cluster, sink
    cluster.apply(
        {
            "apiVersion": MESSAGING,
            "kind": "Subscription",
            "metadata": {"name": "reader", "namespace": "default"},
            "spec": {
                "channel": {"apiVersion": MESSAGING, "kind": "Channel", "name": "news"},
                "subscriber": {"uri": url},
            },
        },
        {"apiVersion": MESSAGING, "kind": "Channel", "metadata": {"name": "news", "namespace": "default"}},
    )
    eventually(lambda: cluster.exists("kafkachannel/news", "default"), 180)
    dispatchers = ("get", "deployment", "-n", NAMESPACE, "-l", "headrace.dev/channel=news", "-o", "name")
    eventually(lambda: cluster.kubectl(*dispatchers).stdout.strip() != "", 180)
    name = cluster.kubectl(*dispatchers).stdout.strip().partition("/")[2]
    assert system.deployment(name)["spec"]["strategy"]["type"] == "Recreate"
    system.run_pod(name)
    for what in ("kafkachannel/news", "channel/news", "subscription/reader"):
        system.wait_ready(what, "default", 500)
    service = cluster.get("service/news-kn-channel", "default")
    assert service["spec"]["externalName"] == f"kafka-channel-ingress.{NAMESPACE}.svc.cluster.local"
    address = cluster.get("channel/news", "default")["status"]["address"]["url"]
    assert address == "http://news-kn-channel.default.svc.cluster.local"
    assert cluster.get("kafkachannel/news", "default")["status"]["subscribers"][0]["ready"] == "True"
    for number in range(5):
        assert system.send(address, str(number)) == 202
    eventually(lambda: sent_ids(got) == list("01234"), 180)

    cluster.kubectl("delete", "subscription/reader", "channel/news", "--timeout=240s")
    eventually(lambda: not cluster.exists("kafkachannel/news", "default"), 120)
    assert admin.describe("knative-messaging-kafka.default.news") is None
    eventually(lambda: not cluster.exists(f"deployment/{name}", NAMESPACE), 120)
    eventually(lambda: not cluster.exists(f"configmap/{name}", NAMESPACE), 120)
    eventually(lambda: not cluster.exists("service/news-kn-channel", "default"), 120)
    system.plane.pop(name).stop()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.spec("CP-D1", "CP-D2", "CP-D3", "CP-D4")
def test_a_subscriber_of_another_kind_is_reached_once_it_has_an_address(
    system: Installation, sink: tuple[str, list[Event]]
) -> None:
    cluster, (url, got) = system.cluster, sink
    cluster.apply(*_valve_kind())
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=240s", "crd/valves.example.dev")
    early = trigger("of-valve", "resolving", "")
    early["spec"]["subscriber"] = {"ref": {"apiVersion": "example.dev/v1", "kind": "Valve", "name": "v"}, "uri": "/events"}
    of_service = trigger("of-service", "resolving", "")
    of_service["spec"]["subscriber"] = {"ref": {"apiVersion": "v1", "kind": "Service", "name": "plain"}}
    cluster.apply(broker("resolving"), early, of_service)

    def resolved(name: str, reason: str) -> bool:
        return system.condition(f"trigger/{name}", "default", "SubscriberResolved").get("reason") == reason

    for name in ("of-valve", "of-service"):
        system.wait(lambda name=name: resolved(name, "ReferenceNotFound"), 120, f"{name} has no subscriber")  # type: ignore[misc]
    cluster.apply({"apiVersion": "example.dev/v1", "kind": "Valve", "metadata": {"name": "v", "namespace": "default"}})
    system.wait(lambda: resolved("of-valve", "ReferenceNotAddressable"), 120, "the valve is there without an address")
    ports = [{"port": 80}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "plain", "namespace": "default"}}
    cluster.apply({**service, "spec": {"ports": ports}})
    status = json.dumps({"status": {"address": {"url": url}}})
    cluster.kubectl("patch", "valve/v", "-n", "default", "--subresource=status", "--type=merge", "-p", status)
    system.wait(lambda: cluster.exists("deployment/kafka-broker-dispatcher", NAMESPACE), 180, "the dispatcher is deployed")
    system.run_pod("kafka-broker-dispatcher")
    for name in ("of-valve", "of-service"):
        system.wait_ready(f"trigger/{name}", "default", 500)
    address = cluster.get("trigger/of-valve", "default")["status"]["subscriberUri"]
    assert address == f"{url.rstrip('/')}/events"
    address = cluster.get("trigger/of-service", "default")["status"]["subscriberUri"]
    assert address == "http://plain.default.svc.cluster.local"
    assert system.send(cluster.get("broker/resolving", "default")["status"]["address"]["url"], "1") == 202
    system.wait(lambda: sent_ids(got) == ["1"], 180, "the event has come")

    # What is gone again is said at once, without an edit of the Triggers.
    cluster.kubectl("delete", "valve/v", "service/plain", "-n", "default")
    for name in ("of-valve", "of-service"):
        system.wait(lambda name=name: resolved(name, "ReferenceNotFound"), 120, f"{name} lost its subscriber")  # type: ignore[misc]
    cluster.kubectl("delete", "trigger/of-valve", "trigger/of-service", "broker/resolving", "--timeout=240s")
    cluster.kubectl("delete", "crd/valves.example.dev", "clusterrole/valves")
    system.plane.pop("kafka-broker-dispatcher").stop()


def _valve_kind() -> list[dict[str, Any]]:
    """An Addressable that is not ours, and what its makers bring along to let us read it."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "valves.example.dev"},
            "spec": {
                "group": "example.dev",
                "names": {"kind": "Valve", "plural": "valves", "singular": "valve", "listKind": "ValveList"},
                "scope": "Namespaced",
                "versions": [version],
            },
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "valves", "labels": {"duck.knative.dev/addressable": "true"}},
            "rules": [{"apiGroups": ["example.dev"], "resources": ["valves"], "verbs": ["get", "list", "watch"]}],
        },
    ]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_five_hundred_triggers_at_once(system: Installation) -> None:
    cluster = system.cluster
    cluster.apply(broker("many"))
    eventually(lambda: cluster.exists("deployment/kafka-broker-dispatcher", NAMESPACE), 180)
    system.run_pod("kafka-broker-dispatcher")
    system.wait_ready("broker/many", "default")
    started = time.monotonic()
    cluster.apply(*[trigger(f"many-{number}", "many", "http://127.0.0.1:9/") for number in range(500)])
    applied = time.monotonic()
    path = '{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{" "}{end}'

    def all_ready() -> bool:
        states = cluster.kubectl("get", "triggers", "-n", "default", "-o", f"jsonpath={path}").stdout.split()
        return states.count("True") == 500

    eventually(all_ready, 600, "all triggers are Ready", interval=1.0)
    print(
        f"\n500 triggers: applied by kubectl in {applied - started:.1f} s, all Ready {time.monotonic() - applied:.1f} s later"
    )
    cluster.kubectl("delete", "triggers", "--all", "-n", "default", "--wait=false")
    cluster.kubectl("delete", "broker/many", "--timeout=240s", "-n", "default")
    eventually(lambda: not cluster.kubectl("get", "triggers", "-o", "name").stdout.strip(), 240)
    system.plane.pop("kafka-broker-dispatcher").stop()
