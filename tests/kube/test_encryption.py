"""Ingresses with TLS, switched on in Knative's `config-features` while Headrace runs."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest

from headrace.core.events.model import Event
from headrace.kube.certificates import Certificate
from tests.kube.installation import NAMESPACE, Installation
from tests.kube.test_flow import broker, sent_ids, trigger

Json = dict[str, Any]
HOST = f"kafka-broker-ingress.{NAMESPACE}.svc.cluster.local"
SECRET = "kafka-broker-ingress-server-tls"
HTTP = {"name": "http", "url": f"http://{HOST}/default/sealed"}


def certificate_secret() -> Json:
    made = Certificate.make((HOST,), 1.0, time.time())
    metadata = {"name": SECRET, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": made.to_secret()}


def features(mode: str) -> Json:
    metadata = {"name": "config-features", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"transport-encryption": mode}}


def roll_out(system: Installation, mode: str) -> None:
    """What a kubelet does once the receivers' Deployment is that of `mode`."""
    ports = {"disabled": ["http", "metrics"], "permissive": ["http", "https", "metrics"], "strict": ["https", "metrics"]}[mode]

    def changed() -> bool:
        container = system.deployment("headrace-receiver")["spec"]["template"]["spec"]["containers"][0]
        return [port["name"] for port in container["ports"]] == ports

    system.wait(changed, 120, f"the receivers' Deployment is that of mode {mode}")
    system.plane["headrace-receiver"].stop()
    receiver = system.run_pod("headrace-receiver")
    system.wait(receiver.ready, 300, "the receiver is ready")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_events_are_taken_with_tls_as_the_feature_says(system: Installation, sink: tuple[str, list[Event]]) -> None:
    cluster, (url, got) = system.cluster, sink

    def status() -> Json:
        return dict(cluster.get("broker/sealed", "default")["status"])

    cluster.apply(broker("sealed"), trigger("of-sealed", "sealed", url))
    system.wait(lambda: cluster.exists("deployment/kafka-broker-dispatcher", NAMESPACE), 180, "the dispatcher is deployed")
    system.run_pod("kafka-broker-dispatcher")
    system.wait_ready("trigger/of-sealed", "default", 500)
    assert status()["addresses"] == [HTTP]
    # Without a certificate all goes on plainly, and the condition says what is missing.
    cluster.apply(features("permissive"))
    system.wait(
        lambda: system.condition("broker/sealed", "default", "Addressable").get("reason") == "SecretNotFound", 120, "it says so"
    )
    assert system.ready("broker/sealed", "default")
    assert system.send(HTTP["url"], "plain") == 202

    cluster.apply(certificate_secret())
    roll_out(system, "permissive")
    system.wait(lambda: len(status()["addresses"]) == 2, 120, "it has an address with TLS")
    encrypted, plain = status()["addresses"]
    assert plain == status()["address"] == HTTP
    assert (encrypted["name"], encrypted["url"]) == ("https", f"https://{HOST}/default/sealed")
    assert system.send(plain["url"], "either") == 202
    assert system.send(encrypted["url"], "or", authority=encrypted["CACerts"]) == 202

    cluster.apply(features("strict"))
    roll_out(system, "strict")
    system.wait(lambda: status()["address"]["name"] == "https", 120, "it has no plain address any more")
    assert status()["addresses"] == [status()["address"]]
    for name in ("kafka-broker-ingress", "kafka-channel-ingress"):
        ports = cluster.get(f"service/{name}", NAMESPACE)["spec"]["ports"]
        assert [port["port"] for port in ports if port["name"] != "http-metrics"] == [443]
    with pytest.raises(httpx.TransportError):
        system.send(HTTP["url"], "refused")
    # A renewed certificate of another authority: who has that from the status gets through, by the same process.
    cluster.kubectl("patch", f"secret/{SECRET}", "-n", NAMESPACE, "-p", json.dumps({"data": certificate_secret()["data"]}))
    before = encrypted["CACerts"]
    system.wait(lambda: status()["address"]["CACerts"] != before, 120, "clients are told of the new authority")

    def accepted() -> bool:
        address = status()["address"]
        try:
            return system.send(address["url"], "renewed", authority=address["CACerts"]) == 202
        except httpx.ConnectError:
            return False

    system.wait(accepted, 120, "the new certificate is shown")
    system.wait(lambda: sent_ids(got) == ["plain", "either", "or", "renewed"], 180, "the events have come")
    assert system.ready("trigger/of-sealed", "default")

    cluster.kubectl("delete", "configmap/config-features", "-n", NAMESPACE)
    roll_out(system, "disabled")
    system.wait(lambda: status()["addresses"] == [HTTP], 120, "all is plain again")
    cluster.kubectl("delete", f"secret/{SECRET}", "-n", NAMESPACE)
    cluster.kubectl("delete", "trigger/of-sealed", "broker/sealed", "--timeout=240s")
    system.plane.pop("kafka-broker-dispatcher").stop()
