"""The data plane's objects, and when they count as they should be."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.base.config import load
from headrace.kube.certificates import Certificate
from headrace.kube.dataplane import Served, channel_service, dispatcher_for, wanted_objects
from headrace.kube.labels import dispatcher_name
from headrace.kube.settings import PlaneSettings
from headrace.kube.upkeep import contains

SETTINGS = PlaneSettings(image="headrace:1", bootstrap="k:9092", auth_secret="kafka")
BROKERS = [Served("Broker", "n", "a", "1"), Served("Broker", "m", "b", "2")]
CHANNEL = Served("KafkaChannel", "n", "orders", "3")
CERTIFICATE = {"--tls-cert=/etc/headrace/tls/tls.crt", "--tls-key=/etc/headrace/tls/tls.key"}


def objects(*served: Served, settings: PlaneSettings = SETTINGS) -> dict[tuple[str, str], dict[str, Any]]:
    return {(o["kind"], o["metadata"]["name"]): o for o in wanted_objects(served, settings, "knative-eventing", [])}


def container(deployment: dict[str, Any]) -> dict[str, Any]:
    return dict(deployment["spec"]["template"]["spec"]["containers"][0])


def test_one_receiver_for_all_behind_the_peers_services() -> None:
    found = objects()
    assert {name for kind, name in found if kind == "Service"} == {"kafka-broker-ingress", "kafka-channel-ingress"}
    receiver = found["Deployment", "headrace-receiver"]
    assert (
        "--contract=file:/etc/headrace/contract/brokers/data,/etc/headrace/contract/channels/data"
        in container(receiver)["args"]
    )
    assert found["PodDisruptionBudget", "headrace-receiver"]["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize(
    ("encryption", "arguments", "ports", "mounted"),
    [
        ("disabled", {"--port=8080"}, {80: 8080}, False),
        ("permissive", {"--port=8080", "--tls-port=8443", *CERTIFICATE}, {80: 8080, 443: 8443}, True),
        ("strict", {"--port=8443", *CERTIFICATE}, {443: 8443}, True),
    ],
)
def test_receivers_are_open_as_transport_encryption_says(
    encryption: str, arguments: set[str], ports: dict[int, int], mounted: bool
) -> None:
    found = {(o["kind"], o["metadata"]["name"]): o for o in wanted_objects([], SETTINGS, "knative-eventing", [], encryption)}
    receiver = found["Deployment", "headrace-receiver"]
    one = container(receiver)
    assert {word for word in one["args"] if word.startswith(("--port", "--tls"))} == arguments
    assert {port["containerPort"] for port in one["ports"]} == {*ports.values(), 9091}
    for name in ("kafka-broker-ingress", "kafka-channel-ingress"):
        opened = {port["port"]: port["targetPort"] for port in found["Service", name]["spec"]["ports"]}
        assert opened == {**ports, 9091: 9091}
    secrets = [
        volume["secret"]["secretName"] for volume in receiver["spec"]["template"]["spec"]["volumes"] if "secret" in volume
    ]
    assert ("kafka-broker-ingress-server-tls" in secrets) == mounted
    assert ("/etc/headrace/tls" in [mount["mountPath"] for mount in one["volumeMounts"]]) == mounted


def test_one_dispatcher_for_brokers_and_one_for_each_channel() -> None:
    found = objects(*BROKERS, CHANNEL)
    own = dispatcher_name("KafkaChannel", "n", "orders")
    assert {name for kind, name in found if kind == "Deployment"} == {"headrace-receiver", "kafka-broker-dispatcher", own}
    assert "--only=Broker/*/*" in container(found["Deployment", "kafka-broker-dispatcher"])["args"]
    assert "--only=KafkaChannel/n/orders" in container(found["Deployment", own])["args"]
    assert found["Service", own]["spec"]["ports"][0]["port"] == 8081
    assert found["Deployment", own]["metadata"]["labels"]["headrace.dev/channel"] == "orders"
    for name in (own, "kafka-broker-dispatcher"):
        assert found["Deployment", name]["spec"]["strategy"] == {"type": "Recreate"}
        assert found["Deployment", name]["spec"]["replicas"] == 1


def test_a_dispatcher_for_each_broker_by_setting() -> None:
    settings = PlaneSettings(image="i", bootstrap="k:1", dispatcher_per_broker=True)
    names = {dispatcher_for(one, settings) for one in BROKERS}
    assert len(names) == 2
    assert {name for kind, name in objects(*BROKERS, settings=settings) if kind == "Deployment"} >= names


def test_an_autoscaler_may_set_the_receivers_number() -> None:
    settings = PlaneSettings(image="i", bootstrap="k:1", receivers=0)
    assert "replicas" not in objects(settings=settings)["Deployment", "headrace-receiver"]["spec"]


def test_every_container_has_probes_bounds_and_no_privileges() -> None:
    for (kind, _), obj in objects(*BROKERS, CHANNEL).items():
        if kind == "Deployment":
            one = container(obj)
            assert one["readinessProbe"]["httpGet"]["path"] == "/readyz"
            assert one["livenessProbe"]["httpGet"]["path"] == "/healthz"
            assert one["resources"]["limits"]["memory"] == one["resources"]["requests"]["memory"]
            assert one["securityContext"]["allowPrivilegeEscalation"] is False


def test_receivers_and_dispatchers_take_the_cluster_for_the_giver_of_tokens() -> None:
    for (kind, name), one in objects(*BROKERS).items():
        if kind == "Deployment":
            given = {entry["name"]: entry["value"] for entry in container(one)["env"]}
            identity = load(None, {key: value for key, value in given.items() if "IDENTITY" in key}).settings.identity
            assert identity.issuer == identity.token_server == "https://kubernetes.default.svc", name
            assert identity.issuer_ca_file == identity.token_server_ca_file != ""
            assert identity.issuer_token_file == identity.token_server_token_file != ""


def test_long_names_stay_apart_and_legal() -> None:
    names = {dispatcher_name("KafkaChannel", "n" * 60, "c" * 60 + end) for end in "ab"}
    assert len(names) == 2
    assert all(len(name) <= 63 for name in names)


def test_a_channel_has_a_host_name_of_its_own() -> None:
    service = channel_service("orders", "n", "u", "knative-eventing", "cluster.local")
    assert service["metadata"]["name"] == "orders-kn-channel"
    assert service["spec"]["externalName"] == "kafka-channel-ingress.knative-eventing.svc.cluster.local"


def test_what_the_server_adds_is_no_difference_and_what_somebody_changed_is() -> None:
    wanted = {"spec": {"replicas": 1, "ports": [{"name": "a", "port": 1}], "empty": {}}}
    there = {"spec": {"replicas": 1, "ports": [{"name": "a", "port": 1, "protocol": "TCP"}], "more": True}}
    assert contains(there, wanted)
    assert not contains({**there, "spec": {**there["spec"], "replicas": 2}}, wanted)
    assert not contains({"spec": {"replicas": 1, "ports": []}}, wanted)


def test_a_certificate_is_renewed_after_two_thirds_of_its_life() -> None:
    now, day = 1_800_000_000.0, 86_400.0
    made = Certificate.make(("hook.ns.svc",), 90, now)
    assert not made.due(("hook.ns.svc",), now + 59 * day)
    assert made.due(("hook.ns.svc",), now + 61 * day)
    assert made.due(("other.ns.svc",), now)
    assert Certificate.from_secret(made.to_secret()) == made
    assert Certificate.from_secret({"tls.crt": "bm90IG9uZQ=="}) is None
    assert "PRIVATE" not in repr(made)
