"""What admission fills in, and what may change afterwards."""

from __future__ import annotations

import pytest

from headrace.core.resources.admission import admit, convert
from headrace.core.resources.features import Features
from headrace.core.resources.invalid import Invalid
from headrace.core.resources.rules import Rules
from tests.unit.core_resources.manifests import (
    CONTROLLER,
    OIDC,
    SUBSCRIPTION,
    TRIGGER,
    USER,
    change,
    manifest,
    refusal,
    refused_change,
)


@pytest.mark.spec("CP-B6")
def test_a_broker_without_class_gets_one() -> None:
    admitted = admit(manifest("Broker"), None, USER)
    assert admitted["metadata"]["annotations"] == {"eventing.knative.dev/broker.class": "Kafka"}
    assert admit(manifest("Broker"), admitted, USER) == admitted


@pytest.mark.spec("CP-B6")
def test_a_class_that_nobody_serves_is_refused_where_that_is_known() -> None:
    rules = Rules(broker_classes=frozenset({"Kafka", "kafka"}))
    assert "not served here, only Kafka, kafka" in refusal(
        "Broker", "metadata: {annotations: {eventing.knative.dev/broker.class: Other}}", rules
    )


@pytest.mark.spec("CP-B7")
def test_a_brokers_class_stays() -> None:
    other = "metadata: {annotations: {eventing.knative.dev/broker.class: kafka}}"
    text = refused_change("Broker", "{}", other)
    assert text.startswith("Immutable annotations changed (-old +new): annotations\n")
    assert '-"Kafka" +"kafka"' in text
    assert change("Broker", other, "{}")["metadata"]["annotations"]["eventing.knative.dev/broker.class"] == "kafka"


@pytest.mark.spec("CP-B7")
@pytest.mark.parametrize("after", ["{}", "spec: {config: {apiVersion: v1, kind: ConfigMap, name: other}}"])
def test_a_brokers_config_stays(after: str) -> None:
    text = refused_change("Broker", "spec: {config: {apiVersion: v1, kind: ConfigMap, name: one}}", after)
    assert text.startswith("Immutable fields changed (-old +new): spec\n")
    assert "spec.config" in text


def test_a_brokers_delivery_changes_but_not_its_external_topic() -> None:
    assert change("Broker", "{}", "spec: {delivery: {retry: 3}}")["spec"]["delivery"] == {"retry": 3}
    external = "metadata: {annotations: {kafka.eventing.knative.dev/external.topic: t}}"
    assert "Immutable annotations changed" in refused_change("Broker", "{}", external)


@pytest.mark.spec("CP-T5")
def test_a_trigger_stays_with_its_broker() -> None:
    text = refused_change("Trigger", TRIGGER, TRIGGER.replace("default", "other"))
    assert text.startswith("Immutable fields changed (-old +new): spec\nspec.broker: ")


@pytest.mark.spec("CP-T6")
def test_the_rest_of_a_trigger_changes() -> None:
    filters = "filter: {attributes: {type: a}}, filters: [{exact: {type: b}}]"
    after = f"spec: {{broker: default, subscriber: {{uri: 'http://other/'}}, {filters}, delivery: {{retry: 1}}}}"
    assert change("Trigger", TRIGGER, after)["spec"]["subscriber"] == {"uri": "http://other/"}


@pytest.mark.spec("CP-S4")
def test_a_subscription_needs_a_subscriber_even_with_a_reply() -> None:
    body = "spec: {channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: c}, reply: {uri: 'http://s/'}}"
    assert "the Subscription must reference a subscriber" in refusal("Subscription", body)


@pytest.mark.spec("CP-S6")
def test_a_subscription_stays_with_its_channel_and_the_rest_changes() -> None:
    text = refused_change("Subscription", SUBSCRIPTION, SUBSCRIPTION.replace("name: c", "name: d"))
    assert text.startswith("Immutable fields changed (-old +new): spec.channel\n")
    after = SUBSCRIPTION.replace("sink", "other").replace("}}", "}, reply: {uri: 'http://r/'}, delivery: {retry: 2}}")
    assert change("Subscription", SUBSCRIPTION, after)["spec"]["delivery"] == {"retry": 2}


@pytest.mark.spec("CP-C6")
def test_a_channels_template_is_defaulted_and_stays() -> None:
    default = {"apiVersion": "messaging.knative.dev/v1", "kind": "KafkaChannel"}
    assert admit(manifest("Channel"), None, USER)["spec"]["channelTemplate"] == default
    other = "spec: {channelTemplate: {apiVersion: messaging.knative.dev/v1, kind: KafkaChannel, spec: {numPartitions: 3}}}"
    assert "Immutable fields changed (-old +new): spec" in refused_change("Channel", "{}", other)
    assert change("Channel", other, "{}")["spec"]["channelTemplate"]["spec"] == {"numPartitions": 3}
    assert "Immutable fields changed" in refused_change("Channel", "{}", "spec: {delivery: {retry: 1}}")


@pytest.mark.parametrize("after", ["numPartitions: 2", "replicationFactor: 2", "retentionDuration: PT1H"])
def test_a_kafka_channels_topic_stays(after: str) -> None:
    assert "Immutable fields changed (-old +new): spec\n" in refused_change("KafkaChannel", "{}", f"spec: {{{after}}}")


def test_a_kafka_channels_delivery_changes() -> None:
    assert change("KafkaChannel", "{}", "spec: {delivery: {retry: 2}}")["spec"]["delivery"] == {"retry": 2}


@pytest.mark.spec("CP-X6")
def test_subscribers_of_a_channel_are_the_controllers_own() -> None:
    with_one = "spec: {subscribers: [{uid: u, subscriberUri: 'http://s/'}]}"
    text = "Channel.Spec.Subscribers changed by user jo which was not the controller service account: spec.subscribers"
    assert text in refusal("KafkaChannel", with_one)
    assert text in refused_change("KafkaChannel", "{}", with_one)
    assert text in refused_change("KafkaChannel", with_one, "spec: {subscribers: []}")
    assert len(change("KafkaChannel", with_one, "{}")["spec"]["subscribers"]) == 1
    assert len(change("KafkaChannel", "{}", with_one, CONTROLLER)["spec"]["subscribers"]) == 1


def test_each_subscriber_needs_somewhere_to_send_to() -> None:
    with pytest.raises(
        Invalid, match=r"missing field\(s\): spec.subscribers\[0\].replyUri, spec.subscribers\[0\].subscriberUri"
    ):
        admit(manifest("KafkaChannel", "spec: {subscribers: [{uid: u}]}"), None, CONTROLLER)


def test_a_policys_spec_cannot_change_while_authentication_is_off() -> None:
    old = admit(manifest("EventPolicy", "spec: {from: [{sub: a}]}"), None, OIDC)
    with pytest.raises(Invalid, match="oidc-authentication feature not enabled"):
        admit(manifest("EventPolicy", "spec: {from: [{sub: b}]}"), old, USER)
    assert admit(old | {"metadata": old["metadata"] | {"labels": {"a": "b"}}}, old, USER)["spec"] == old["spec"]


def test_immutable_data_stays() -> None:
    assert "Immutable fields changed" in refused_change(
        "ConfigMap", "{data: {a: b}, immutable: true}", "{data: {a: c}, immutable: true}"
    )
    assert "Immutable fields changed" in refused_change(
        "Secret", "{data: {a: Yg==}, immutable: true}", "{data: {a: Yw==}, immutable: true}"
    )
    assert "Immutable fields changed" in refused_change("Secret", "type: a", "type: b")
    assert change("ConfigMap", "data: {a: b}", "data: {a: c}")["data"] == {"a": "c"}


def test_switched_off_features_forbid_their_fields() -> None:
    rules = Rules(features=Features(delivery_timeout=False, delivery_retryafter=False))
    text = refusal("Broker", "spec: {delivery: {timeout: PT1S, retryAfterMax: PT1S}}", rules)
    assert "must not set the field(s): spec.delivery.timeout" in text
    assert "must not set the field(s): spec.delivery.retryAfterMax" in text


def test_a_trigger_gets_its_defaults() -> None:
    admitted = admit(
        manifest("Trigger", "spec: {broker: b, subscriber: {ref: {apiVersion: v1, kind: Service, name: s}}}"), None, USER
    )
    assert admitted["spec"]["filter"] == {}
    assert admitted["spec"]["subscriber"]["ref"]["namespace"] == "default"
    assert admitted["metadata"]["labels"] == {"eventing.knative.dev/broker": "b"}


def test_a_kafka_channel_gets_its_defaults() -> None:
    admitted = admit(manifest("KafkaChannel"), None, USER)
    assert admitted["spec"] == {"numPartitions": 1, "replicationFactor": 1, "retentionDuration": "PT168H"}
    assert admitted["metadata"]["annotations"] == {"messaging.knative.dev/subscribable": "v1"}


def test_an_object_that_is_being_deleted_may_always_lose_its_finalizer() -> None:
    old = admit(manifest("Broker"), None, USER)
    old["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["headrace.dev/finalizer"]}
    old["spec"] = {"delivery": {"retry": -5}}
    new = {**old, "metadata": {**old["metadata"], "finalizers": []}}
    assert admit(new, old, USER)["metadata"]["finalizers"] == []


def test_the_status_is_not_written_with_the_object() -> None:
    raw = manifest("Broker") | {"status": {"nonsense": 1}}
    assert "status" not in admit(raw, None, USER)
    old = admit(manifest("Broker"), None, USER) | {"status": {"observedGeneration": 1}}
    assert admit(raw, old, USER)["status"] == {"observedGeneration": 1}


def test_a_kafka_channel_is_the_same_in_both_versions() -> None:
    old = admit(manifest("KafkaChannel"), None, USER)
    new = convert(old, "v1beta1")
    assert new["apiVersion"] == "messaging.knative.dev/v1beta1"
    assert convert(admit(new, old, USER), "v1") == old
    with pytest.raises(Invalid, match="no matches for kind"):
        convert(old, "v2")
