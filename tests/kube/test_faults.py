"""What goes wrong in a cluster: operators die, ConfigMaps and Secrets are missing, certificates end."""

from __future__ import annotations

import base64
import json
import signal
import ssl
import time
from typing import Any

import pytest
import yaml

from headrace.kafka.settings import KafkaSettings
from headrace.kube.certificates import Certificate
from tests.kube.installation import NAMESPACE, Installation, Process
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(1200)
CLASS = {"eventing.knative.dev/broker.class": "Kafka"}


def broker(name: str, config: str | None = None) -> dict[str, Any]:
    spec = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": config}} if config else {}
    metadata = {"name": name, "namespace": "default", "annotations": CLASS}
    return {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": metadata, "spec": spec}


def leader(system: Installation) -> str:
    return str(system.cluster.get("lease/headrace-controller", NAMESPACE)["spec"].get("holderIdentity", ""))


def process(system: Installation) -> Process:
    """The operator that runs."""
    return next(one for one in reversed(system.operators) if not one.stopped)


def test_a_contract_that_was_deleted_comes_back_and_a_changed_deployment_is_put_right(system: Installation) -> None:
    cluster = system.cluster
    cluster.apply(broker("kept"))
    system.wait_ready("broker/kept", "default")
    before = cluster.get("configmap/kafka-broker-brokers-triggers", NAMESPACE)
    cluster.kubectl("delete", "configmap/kafka-broker-brokers-triggers", "-n", NAMESPACE)

    def back() -> bool:
        found = cluster.kubectl(
            "get", "configmap/kafka-broker-brokers-triggers", "-n", NAMESPACE, "-o", "jsonpath={.metadata.uid}", check=False
        )
        return found.returncode == 0 and found.stdout not in ("", before["metadata"]["uid"])

    eventually(back, 120, "the ConfigMap is made again", interval=0.2)
    cluster.kubectl("scale", "deployment/headrace-receiver", "--replicas=7", "-n", NAMESPACE)
    eventually(lambda: system.deployment("headrace-receiver")["spec"]["replicas"] == 1, 120, interval=0.2)
    assert system.ready("broker/kept", "default")
    cluster.kubectl("delete", "broker/kept", "--timeout=240s")


@pytest.mark.spec("ES-5", "ES-6")
def test_a_broker_waits_for_its_config_and_for_its_secret(system: Installation, kafka: KafkaSettings) -> None:
    cluster = system.cluster
    cluster.apply(broker("waiting", "its-config"))
    eventually(lambda: system.condition("broker/waiting", "default").get("reason") == "ConfigMapNotFound", 120)
    data = {"bootstrap.servers": kafka.bootstrap_servers, "auth.secret.ref.name": "its-secret", "default.topic.partitions": "2"}
    metadata = {"name": "its-config", "namespace": "default"}
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    eventually(lambda: system.condition("broker/waiting", "default").get("reason") == "SecretNotFound", 120)
    secret = {"name": "its-secret", "namespace": "default"}
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": secret, "stringData": {"protocol": "PLAINTEXT"}})
    system.wait_ready("broker/waiting", "default")
    held = cluster.get("secret/its-secret", "default")["metadata"]["finalizers"]
    assert any(name.startswith("kafka.headrace.dev/") for name in held)
    cluster.kubectl("delete", "broker/waiting", "--timeout=240s")
    cluster.kubectl("delete", "secret/its-secret", "configmap/its-config", "--timeout=240s")


def test_a_broker_whose_kafka_does_not_answer_says_so_and_can_be_deleted(system: Installation) -> None:
    cluster = system.cluster
    cluster.apply(broker("unreachable", "nowhere"))
    metadata = {"name": "nowhere", "namespace": "default"}
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"bootstrap.servers": "127.0.0.1:9"}})
    eventually(lambda: system.ready("broker/unreachable", "default", "False"), 180)
    reason = system.condition("broker/unreachable", "default", "TopicReady")
    assert reason["status"] == "False"
    assert "127.0.0.1:9" in reason["message"]
    # Kafka can't be reached at deletion either: nothing was made there, so nothing keeps the Broker.
    cluster.kubectl("delete", "broker/unreachable", "configmap/nowhere", "--timeout=240s")


@pytest.mark.timeout(1200)
def test_a_killed_operator_is_replaced_by_the_one_that_waits(system: Installation) -> None:
    cluster = system.cluster
    first = process(system)
    holder = leader(system)
    assert holder
    second = system.operator(webhooks=False)
    eventually(lambda: "Another operator leads" in second.log, 180, "the second one waits", interval=0.2)
    assert second.ready()
    # Killed in the middle of its work; the webhooks go with it, so the objects come first.
    cluster.apply(*[broker(f"half-{number}") for number in range(5)])
    first.stop(signal.SIGKILL)
    eventually(lambda: leader(system) not in ("", holder), 180, "the second one leads", interval=0.5)
    # The webhooks' address leads to the first one's port: the next operator takes it, as a pod behind the Service would.
    third = system.operator()
    system.wait(third.ready, 240, "the third one answers webhooks")
    for number in range(5):
        system.wait_ready(f"broker/half-{number}", "default", 120)
    second.stop()
    eventually(lambda: "Leading" in third.log, 180, "a lease that was given up is taken at once", interval=0.2)
    cluster.kubectl("delete", *[f"broker/half-{number}" for number in range(5)], "--timeout=240s")


@pytest.mark.timeout(1200)
def test_the_api_server_may_restart(system: Installation) -> None:
    cluster = system.cluster
    cluster.end("kube-apiserver")
    cluster.start_api_server()
    # An operator that could not renew its lease for ten seconds ends, and is started again.
    eventually(lambda: cluster.apply(broker("after"), check=False).returncode == 0, 180, interval=0.5)
    system.wait_ready("broker/after", "default", 120)
    cluster.kubectl("delete", "broker/after", "--timeout=240s")


def test_a_lost_certificate_is_made_again(system: Installation) -> None:
    cluster = system.cluster
    cluster.kubectl("delete", "secret/headrace-webhook-certificate", "-n", NAMESPACE)
    eventually(lambda: cluster.exists("secret/headrace-webhook-certificate", NAMESPACE), 180, interval=0.5)
    eventually(lambda: cluster.apply(broker("certified"), check=False).returncode == 0, 180, interval=0.5)
    cluster.kubectl("delete", "broker/certified", "--timeout=240s")


def test_an_expired_certificate_is_replaced(system: Installation) -> None:
    cluster = system.cluster
    shown = ssl.get_server_certificate(("localhost", system.webhook_port))
    hosts = ("headrace-webhook.knative-eventing.svc", "headrace-webhook.knative-eventing", "localhost")
    expired = Certificate.make(hosts, 1.0, time.time() - 2 * 86_400)
    cluster.kubectl(
        "patch", "secret/headrace-webhook-certificate", "-n", NAMESPACE, "-p", yaml.safe_dump({"data": expired.to_secret()})
    )
    # As it would be had nobody looked for a day: the API server trusts no other.
    bundle = base64.b64encode(expired.authority).decode()
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        hooks = range(len(cluster.get(f"{kind}/headrace")["webhooks"]))
        patch = [{"op": "replace", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": bundle} for number in hooks]
        cluster.kubectl("patch", f"{kind}/headrace", "--type=json", "-p", json.dumps(patch))
    eventually(lambda: ssl.get_server_certificate(("localhost", system.webhook_port)) != shown, 180, interval=0.5)
    eventually(lambda: cluster.apply(broker("renewed"), check=False).returncode == 0, 180, interval=0.5)
    kept = Certificate.from_secret(cluster.get("secret/headrace-webhook-certificate", NAMESPACE)["data"])
    assert kept is not None
    assert not kept.due(hosts, time.time())
    cluster.kubectl("delete", "broker/renewed", "--timeout=240s")
