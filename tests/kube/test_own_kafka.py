"""Brokers and channels with a Kafka of their own: Secrets of the cluster open it for all parts, and it may be away at their end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.kafka.admin import Admin
from tests.kube.installation import NAMESPACE, Installation
from tests.kube.test_flow import trigger
from tests.support.securedkafka import SecuredKafka, set_password
from tests.support.subscriber import Subscriber, subscriber
from tests.support.waiting import eventually

Json = dict[str, Any]
USER = "headrace"
FIRST, WRONG, SECOND = "medlar-first", "medlar-wrong", "medlar-second"


@pytest.fixture
def sink() -> Iterator[Subscriber]:
    with subscriber() as server:
        yield server


def secret(name: str, keys: Json) -> Json:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/component": "kafka-credentials"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": keys}


def broker(name: str, bootstrap: str) -> list[Json]:
    """A Broker with a configuration that names the Secret called like it."""
    config = {"name": name, "namespace": NAMESPACE}
    data = {"bootstrap.servers": bootstrap, "auth.secret.ref.name": name, "default.topic.partitions": "1"}
    metadata = {"name": name, "namespace": "default", "annotations": {"eventing.knative.dev/broker.class": "Kafka"}}
    spec = {"config": {"apiVersion": "v1", "kind": "ConfigMap", **config}}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": config, "data": data},
        {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": metadata, "spec": spec},
    ]


def deliver(system: Installation, name: str, event_id: str, sink: Subscriber) -> None:
    """Send an event until it is accepted, and wait until it has come."""
    url = system.cluster.get(f"broker/{name}", "default")["status"]["address"]["url"]
    system.wait(lambda: system.send(url, event_id) == 202, 240, f"{event_id} is accepted")
    system.wait(lambda: event_id in sink.ids, 240, f"{event_id} has come")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_secrets_open_a_kafka_by_password_and_by_certificate_and_a_changed_password_is_taken_up(
    system: Installation, secured: SecuredKafka, sink: Subscriber
) -> None:
    cluster = system.cluster
    brokers = {"by-password": secured.login, "by-certificate": secured.mutual}
    for name, bootstrap in brokers.items():
        cluster.apply(*broker(name, bootstrap), trigger(f"of-{name}", name, sink.url()))
    set_password(secured.broker.settings, USER, FIRST)
    cluster.apply(secret("by-password", secured.password(USER, WRONG)), secret("by-certificate", secured.certificate(USER)))

    def refused() -> Json:
        condition = system.condition("broker/by-password", "default", "TopicReady")
        return condition if condition.get("reason") == "KafkaUnreachable" else {}

    system.wait(refused, 120, "the wrong password is told")
    assert "password" in refused()["message"]
    assert WRONG not in refused()["message"]
    cluster.apply(secret("by-password", secured.password(USER, FIRST)))
    system.wait(lambda: cluster.exists("deployment/kafka-broker-dispatcher", NAMESPACE), 180, "the dispatcher is deployed")
    system.run_pod("kafka-broker-dispatcher")
    for name in brokers:
        system.wait_ready(f"broker/{name}", "default")
        system.wait_ready(f"trigger/of-{name}", "default", 500)
        deliver(system, name, f"1-{name}", sink)

    processes = [*system.operators, *system.plane.values()]
    before = [one.popen.pid for one in processes]
    set_password(secured.broker.settings, USER, SECOND)
    cluster.apply(secret("by-password", secured.password(USER, SECOND)))
    # All connections begin anew: what goes on has the new password.
    secured.broker.stop()
    secured.broker.start()
    for name in brokers:
        deliver(system, name, f"2-{name}", sink)
    assert [one.popen.pid for one in processes] == before

    # The operator deletes the topics with it, and lets go of the Secrets last.
    for name in brokers:
        cluster.kubectl("delete", f"trigger/of-{name}", f"broker/{name}", "--timeout=240s")
        cluster.kubectl("delete", f"secret/{name}", f"configmap/{name}", "-n", NAMESPACE, "--timeout=240s")
    assert not {f"knative-broker-default-{name}" for name in brokers} & set(Admin(secured.broker.settings).topics())
    logs = "".join(one.log for one in processes)
    assert not [text for text in (FIRST, WRONG, SECOND) if text in logs]
    eventually(lambda: not cluster.exists("deployment/kafka-broker-dispatcher", NAMESPACE), 120)
    system.plane.pop("kafka-broker-dispatcher").stop()


@pytest.mark.timeout(1200)
def test_what_is_deleted_while_its_kafka_is_away_waits_for_it_and_takes_its_topic_along(
    system: Installation, secured: SecuredKafka
) -> None:
    cluster = system.cluster
    data = {
        "bootstrap.servers": secured.mutual,
        "auth.secret.ref.namespace": NAMESPACE,
        "auth.secret.ref.name": "by-certificate",
    }
    config = {"name": "kafka-channel-config", "namespace": NAMESPACE}
    channel = {
        "apiVersion": "messaging.knative.dev/v1beta1",
        "kind": "KafkaChannel",
        "metadata": {"name": "parted", "namespace": "default"},
    }
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": config, "data": data}, channel)
    cluster.apply(secret("by-certificate", secured.certificate(USER)))
    cluster.apply(*broker("by-certificate", secured.mutual))
    topics = ("knative-broker-default-by-certificate", "knative-messaging-kafka.default.parted")
    admin = Admin(secured.broker.settings)
    for what, topic in zip(("broker/by-certificate", "kafkachannel/parted"), topics, strict=True):
        system.wait_ready(what, "default")
        assert admin.describe(topic) is not None
    secured.broker.stop()
    cluster.kubectl("delete", "broker/by-certificate", "kafkachannel/parted", "--wait=false")

    def waits(what: str, topic: str) -> bool:
        ready = system.condition(what, "default")
        return ready.get("reason") == "Deleting" and f"topic {topic}" in ready["message"] and "Kafka at" in ready["message"]

    for what, topic in zip(("broker/by-certificate", "kafkachannel/parted"), topics, strict=True):
        system.wait(lambda what=what, topic=topic: waits(what, topic), 180, f"{what} says what it waits for")  # type: ignore[misc]
        assert cluster.get(what, "default")["metadata"]["finalizers"]
    # Their Secret is needed to the end, so it stays as well.
    cluster.kubectl("delete", "secret/by-certificate", "-n", NAMESPACE, "--wait=false")
    assert cluster.exists("secret/by-certificate", NAMESPACE)
    secured.broker.start()
    for what in ("broker/by-certificate", "kafkachannel/parted"):
        system.wait(lambda what=what: not cluster.exists(what, "default"), 180, f"{what} is gone")  # type: ignore[misc]
    assert [topic for topic in topics if admin.describe(topic) is not None] == []
    system.wait(lambda: not cluster.exists("secret/by-certificate", NAMESPACE), 120, "nobody holds the Secret any more")
    cluster.kubectl("delete", "configmap/by-certificate", "configmap/kafka-channel-config", "-n", NAMESPACE)
