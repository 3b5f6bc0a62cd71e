"""Tables of manifests and what admission says of them. The texts are Knative's where Knative has one."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.resources.admission import admit, subject_of
from headrace.core.resources.invalid import Invalid
from tests.unit.core_resources.manifests import OIDC, PEM, SUBSCRIPTION, TRIGGER, USER, Json, manifest, refusal


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        # Broker
        (
            "Broker",
            "metadata: {annotations: {eventing.knative.dev/broker.class: ''}}",
            "missing field(s): eventing.knative.dev/broker.class",
        ),
        ("Broker", "spec: {config: {apiVersion: v1, kind: Secret, name: c}}", "Expected ConfigMap"),
        ("Broker", "spec: {config: {apiVersion: v1, kind: ConfigMap}}", "missing field(s): spec.config.name"),
        (
            "Broker",
            "{metadata: {annotations: {eventing.knative.dev/broker.class: KafkaNamespaced}},"
            " spec: {config: {apiVersion: v1, kind: ConfigMap, name: c, namespace: o}}}",
            "Expected ConfigMap in same namespace with broker resource",
        ),
        ("Broker", "spec: {delivry: {}}", "unknown field(s): spec.delivry\ndid you mean delivery?"),
        ("Broker", "metadata: {annotations: {kafka.eventing.knative.dev/external.topic: 'a topic'}}", "expected a Kafka topic"),
        ("Broker", "metadata: {annotations: {headrace.dev/max-rate: '1'}}", "this annotation has no effect here"),
        # Trigger
        ("Trigger", "spec: {subscriber: {uri: 'http://s/'}}", "missing field(s): spec.broker"),
        (
            "Trigger",
            "spec: {broker: b, brokerRef: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: b}, subscriber: {uri: 'http://s/'}}",
            "expected exactly one, got both: spec.broker, spec.brokerRef",
        ),
        (
            "Trigger",
            "spec: {brokerRef: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: b, namespace: other}, subscriber: {uri: 'http://s/'}}",
            "must not set the field(s): spec.brokerRef.namespace",
        ),
        ("Trigger", "spec: {broker: b}", "expected at least one, got none: spec.subscriber.ref, spec.subscriber.uri"),
        ("Trigger", "{}", "missing field(s): spec"),
        (
            "Trigger",
            "spec: {broker: b, subscriber: {uri: 'http://s/'}, filter: {attributes: {Type: a}}}",
            'invalid key name "Type": spec.filter.attributes[Type]\n'
            "Attribute name must start with a letter and can only contain lowercase alphanumeric",
        ),
        (
            "Trigger",
            "spec: {broker: b, subscriber: {uri: 'http://s/'}, filters: [{exact: {type: a}, prefix: {type: b}}]}",
            "multiple dialects found, filters can have only one dialect set: spec.filters[0]",
        ),
        ("Trigger", "spec: {broker: b, subscriber: {uri: 'http://s/'}, filters: [{cesql: 'type ='}]}", "spec.filters[0].cesql"),
        (
            "Trigger",
            "spec: {broker: b, subscriber: {uri: 'http://s/'}, filters: [{any: [{not: {cesql: '('}}]}]}",
            "spec.filters[0].any[0].not.cesql",
        ),
        ("Trigger", "spec: {broker: b, subscriber: {uri: 'http://s/'}, filters: [{}]}", "no dialect found: spec.filters[0]"),
        (
            "Trigger",
            "spec: {broker: b, subscriber: {uri: 'http://s/'}, filters: [{all: []}]}",
            "expected at least one filter: spec.filters[0].all",
        ),
        (
            "Trigger",
            "spec: {broker: b, subscriber: {uri: 'http://s/'}, filters: [{sql: 'a'}]}",
            "unknown field(s): spec.filters[0].sql",
        ),
        (
            "Trigger",
            "spec: {broker: b, subscriber: {uri: 'http://s/'}, filters: [{exact: {type: 3}}]}",
            "spec.filters[0].exact.type\nexpected a string",
        ),
        (
            "Trigger",
            f"{{metadata: {{annotations: {{knative.dev/dependency: nonsense}}}}, {TRIGGER}}}",
            "was not a corev1.ObjectReference",
        ),
        (
            "Trigger",
            f'{{metadata: {{annotations: {{knative.dev/dependency: \'{{"kind": "K"}}\'}}}}, {TRIGGER}}}',
            "missing field(s): metadata.annotations[knative.dev/dependency].name",
        ),
        (
            "Trigger",
            "{metadata: {annotations: {knative.dev/dependency:"
            ' \'{"kind": "K", "name": "n", "apiVersion": "v", "namespace": "o"}\'}}, ' + TRIGGER + "}",
            'Namespace must be empty or equal to the trigger namespace "default"',
        ),
        (
            "Trigger",
            f"{{metadata: {{annotations: {{eventing.knative.dev/injection: 'yes'}}}}, {TRIGGER}}}",
            'can only be "enabled" or "disabled"',
        ),
        (
            "Trigger",
            "{metadata: {annotations: {eventing.knative.dev/injection: enabled}}, spec: {broker: b, subscriber: {uri: 'http://s/'}}}",
            "is only used for default broker",
        ),
        (
            "Trigger",
            f"{{metadata: {{annotations: {{kafka.eventing.knative.dev/delivery.order: sorted}}}}, {TRIGGER}}}",
            "expected one of ordered, unordered, key",
        ),
        # Destination
        (
            "Trigger",
            "spec: {broker: b, subscriber: {ref: {apiVersion: v1, kind: Service, name: s}, uri: 'http://s/'}}",
            "Absolute URI is not allowed when Ref or [apiVersion, kind, name] is present",
        ),
        (
            "Trigger",
            "spec: {broker: b, subscriber: {uri: /path}}",
            "Relative URI is not allowed when Ref and [apiVersion, kind, name] is absent",
        ),
        ("Trigger", "spec: {broker: b, subscriber: {uri: 'http:///path'}}", "Relative URI is not allowed"),
        ("Trigger", "spec: {broker: b, subscriber: {uri: 'ftp://s/'}}", "expected an http or https URL"),
        ("Trigger", "spec: {broker: b, subscriber: {uri: 'http://s:port/'}}", "expected a URL"),
        (
            "Trigger",
            "spec: {broker: b, subscriber: {ref: {kind: Service, name: s}}}",
            "missing field(s): spec.subscriber.ref.apiVersion",
        ),
        ("Trigger", "spec: {broker: b, subscriber: {uri: 'https://s/', CACerts: x}}", "CA Cert provided is invalid"),
        (
            "Trigger",
            "spec: {broker: b, subscriber: {uri: 'https://s/', CACerts: \"-----BEGIN CERTIFICATE-----\\n!!\\n-----END CERTIFICATE-----\"}}",
            "certificate 1 is not readable",
        ),
        # DeliverySpec
        ("Broker", "spec: {delivery: {retry: -1}}", "invalid value: -1: spec.delivery.retry"),
        ("Broker", "spec: {delivery: {retry: 2147483648}}", "spec.delivery.retry"),
        ("Broker", "spec: {delivery: {retry: '3'}}", "invalid value: 3: spec.delivery.retry\nexpected a whole number"),
        ("Broker", "spec: {delivery: {retry: true}}", "spec.delivery.retry\nexpected a whole number"),
        ("Broker", "spec: {delivery: {timeout: PT0S}}", "invalid value: PT0S: spec.delivery.timeout"),
        ("Broker", "spec: {delivery: {timeout: 5s}}", "expected an ISO 8601 duration"),
        ("Broker", "spec: {delivery: {backoffDelay: '1'}}", "invalid value: 1: spec.delivery.backoffDelay"),
        (
            "Broker",
            "spec: {delivery: {backoffPolicy: random}}",
            "spec.delivery.backoffPolicy\nexpected 'linear' or 'exponential'",
        ),
        ("Broker", "spec: {delivery: {retryAfterMax: -PT1S}}", "spec.delivery.retryAfterMax"),
        ("Broker", "spec: {delivery: {format: xml}}", "spec.delivery.format"),
        (
            "Broker",
            "spec: {delivery: {deadLetterSink: {}}}",
            "expected at least one, got none: spec.delivery.deadLetterSink.ref",
        ),
        # KafkaChannel
        ("KafkaChannel", "spec: {numPartitions: 0}", "invalid value: 0: spec.numPartitions"),
        ("KafkaChannel", "spec: {replicationFactor: -1}", "invalid value: -1: spec.replicationFactor"),
        ("KafkaChannel", "spec: {retentionDuration: -PT1H}", "invalid value: -PT1H: spec.retentionDuration"),
        ("KafkaChannel", "spec: {retentionDuration: week}", "invalid value: week: spec.retentionDuration"),
        (
            "KafkaChannel",
            "metadata: {annotations: {eventing.knative.dev/scope: planet}}",
            "expected either 'cluster' or 'namespace'",
        ),
        # Channel
        ("Channel", "spec: {channelTemplate: {kind: KafkaChannel}}", "missing field(s): spec.channelTemplate.apiVersion"),
        (
            "Channel",
            "spec: {channelTemplate: {apiVersion: messaging.knative.dev/v1}}",
            "missing field(s): spec.channelTemplate.kind",
        ),
        (
            "Channel",
            "spec: {subscribers: [{uid: u, subscriberUri: 'http://s/'}]}",
            "must not set the field(s): spec.subscribers",
        ),
        (
            "Channel",
            "spec: {channelTemplate: {apiVersion: messaging.knative.dev/v1, kind: KafkaChannel, spec: {numPartitions: 0}}}",
            "invalid value: 0: spec.channelTemplate.spec.numPartitions",
        ),
        # Subscription
        (
            "Subscription",
            "spec: {subscriber: {uri: 'http://s/'}}",
            "missing field(s): spec.channel\nthe Subscription must reference a channel",
        ),
        (
            "Subscription",
            "spec: {channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: c}}",
            "missing field(s): spec.subscriber\nthe Subscription must reference a subscriber",
        ),
        (
            "Subscription",
            "spec: {channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: c, namespace: o}, subscriber: {uri: 'http://s/'}}",
            "must not set the field(s): spec.channel.namespace",
        ),
        (
            "Subscription",
            "spec: {channel: {kind: Channel, name: c}, subscriber: {uri: 'http://s/'}}",
            "missing field(s): spec.channel.apiVersion",
        ),
        # EventPolicy
        ("EventPolicy", "spec: {from: [{sub: a}]}", "oidc-authentication feature not enabled"),
        # ConfigMap and Secret
        ("ConfigMap", "data: {a b: c}", 'invalid key name "a b"'),
        ("ConfigMap", "{data: {a: c}, binaryData: {a: YQ==}}", "the key is in data, too"),
        ("ConfigMap", "binaryData: {a: '***'}", "expected base64"),
        ("ConfigMap", "data: {a: 1}", "data.a\nexpected a string (in YAML, quote it)"),
        ("Secret", "data: {a: plain text}", "expected base64; plain text goes under stringData"),
        # metadata
        ("Broker", "metadata: {name: Big}", "invalid value: Big: metadata.name"),
        ("Broker", "metadata: {name: ''}", "missing field(s): metadata.name"),
        ("Broker", "metadata: {namespace: a.b}", "invalid value: a.b: metadata.namespace"),
        ("Broker", "metadata: {labels: {a: 'b c'}}", "invalid value: b c: metadata.labels.a"),
        ("Broker", "metadata: {labels: {'a/b/c': d}}", 'invalid key name "a/b/c"'),
        ("Broker", "metadata: {anotations: {}}", "unknown field(s): metadata.anotations\ndid you mean annotations?"),
        (
            "Broker",
            "metadata: {annotations: {headrace.dev/hoplimit: '3'}}",
            "unknown annotation: metadata.annotations[headrace.dev/hoplimit]\ndid you mean headrace.dev/hop-limit?",
        ),
    ],
)
def test_a_faulty_object_is_refused_in_these_words(kind: str, body: str, message: str) -> None:
    assert message in refusal(kind, body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("spec: {from: [{}]}", "expected exactly one, got neither: spec.from[0].ref, spec.from[0].sub"),
        (
            "spec: {from: [{sub: a, ref: {apiVersion: v1, kind: K, name: n}}]}",
            "expected exactly one, got both: spec.from[0].ref, spec.from[0].sub",
        ),
        ("spec: {from: [{sub: 'a*b'}]}", "'*' is only allowed as suffix"),
        ("spec: {from: [{ref: {kind: K, name: n}}]}", "missing field(s): spec.from[0].ref.apiVersion"),
        ("spec: {to: [{}]}", "expected exactly one, got neither: spec.to[0].ref, spec.to[0].selector"),
        ("spec: {to: [{ref: {apiVersion: v1, kind: K}}]}", "missing field(s): spec.to[0].ref.name"),
        ("spec: {filters: [{cesql: '('}]}", "spec.filters[0].cesql"),
    ],
)
def test_a_faulty_policy_is_refused_in_these_words(body: str, message: str) -> None:
    assert message in refusal("EventPolicy", body, OIDC)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("Broker", "{}"),
        ("Broker", "metadata: {annotations: {eventing.knative.dev/broker.class: kafka}}"),
        ("Broker", "metadata: {annotations: {eventing.knative.dev/broker.class: MTChannelBasedBroker}}"),
        (
            "Broker",
            "spec: {delivery: {retry: 0, timeout: PT1S, backoffPolicy: linear, backoffDelay: PT0S, retryAfterMax: PT0S, format: json}}",
        ),
        ("Broker", "metadata: {annotations: {headrace.dev/hop-limit: '16'}}"),
        ("Trigger", TRIGGER),
        ("Trigger", "spec: {broker: b, subscriber: {ref: {apiVersion: v1, kind: Service, name: s}, uri: /path}}"),
        ("Trigger", "spec: {broker: b, subscriber: {ref: {group: serving.knative.dev, kind: Service, name: s}}}"),
        ("Trigger", f"spec: {{broker: b, subscriber: {{uri: 'https://s/', CACerts: {PEM!r}}}}}".replace("\\n", "\n\n")),
        ("Trigger", "spec: {broker: b, subscriber: {uri: 'http://s/'}, filters: [{cesql: ''}]}"),
        ("Trigger", "spec: {broker: b, subscriber: {uri: 'http://s/'}, filters: [], filter: {attributes: {type: ''}}}"),
        ("Trigger", "spec: {broker: b, subscriber: {uri: 'http://s/', CACerts: null}, delivery: null}"),
        (
            "Trigger",
            "spec: {brokerRef: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: b}, subscriber: {uri: 'http://s/'}}",
        ),
        ("KafkaChannel", "spec: {numPartitions: 12, replicationFactor: 3, retentionDuration: PT0S}"),
        ("Channel", "{}"),
        ("Channel", "spec: {channelTemplate: {apiVersion: messaging.knative.dev/v1, kind: InMemoryChannel}}"),
        ("Subscription", SUBSCRIPTION),
        ("ConfigMap", "data: {bootstrap.servers: 'k:9092', _example: '#'}"),
        ("Secret", "stringData: {password: x}"),
    ],
)
def test_a_sound_object_is_taken(kind: str, body: str) -> None:
    admitted = admit(manifest(kind, body), None, USER)
    assert admitted["kind"] == kind
    assert admit(admitted, admitted, USER) == admitted


@pytest.mark.parametrize(
    "attribute",
    [
        "source",
        "id",
        "specversion",
        "type",
        "subject",
        "time",
        "datacontenttype",
        "dataschema",
        "aaa",
        "c1d2e3",
        "abcdefghijklmnopqrst",
    ],
)
def test_a_filter_may_name_any_legal_attribute(attribute: str) -> None:
    body = f"spec: {{broker: b, subscriber: {{uri: 'http://s/'}}, filter: {{attributes: {{{attribute}: x}}}}}}"
    assert admit(manifest("Trigger", body), None, USER)["spec"]["filter"] == {"attributes": {attribute: "x"}}


@pytest.mark.parametrize("attribute", ["Aaa", "a a", "a_a", "a-a", "1a", "a☺", "a!", ""])
def test_a_filter_may_not_name_an_illegal_attribute(attribute: str) -> None:
    for spec in ({"filter": {"attributes": {attribute: "x"}}}, {"filters": [{"suffix": {attribute: "x"}}]}):
        raw = manifest("Trigger", TRIGGER)
        raw["spec"] |= spec
        with pytest.raises(Invalid, match="Attribute name must start with a letter"):
            admit(raw, None, USER)


def test_every_fault_is_named_at_once() -> None:
    text = refusal("Broker", "spec: {delivery: {retry: -1, timeout: x, backoffDelay: y}}")
    assert [part in text for part in ("retry", "timeout", "backoffDelay")] == [True] * 3


def test_a_message_names_its_object() -> None:
    with pytest.raises(Invalid, match=r"^broker/default/x: "):
        admit(manifest("Broker", "spec: {a: b}"), None, USER)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, "missing field(s): apiVersion, kind"),
        ({"apiVersion": "v1"}, "missing field(s): kind"),
        ({"apiVersion": "v1", "kind": "Broker"}, "this kind is served as Broker in eventing.knative.dev/v1"),
        (
            {"apiVersion": "eventing.knative.dev/v2", "kind": "Broker"},
            'no matches for kind "Broker" in version "eventing.knative.dev/v2"',
        ),
        ({"apiVersion": "eventing.knative.dev/v1", "kind": "Triger"}, "did you mean Trigger?"),
        ({"apiVersion": "apps/v1", "kind": "Deployment"}, "the kinds served are Broker, Channel"),
    ],
)
def test_a_kind_that_is_not_served_is_refused_with_what_is(raw: Json, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        admit(raw, None, USER)
    assert message in caught.value.message


def test_what_is_not_an_object_is_refused() -> None:
    raw: Any = ["a"]
    with pytest.raises(Invalid, match="expected an object"):
        admit(raw, None, USER)
    assert subject_of(raw) == "object"


def test_an_object_nested_without_end_is_refused() -> None:
    deep: Json = {"exact": {"type": "a"}}
    for _ in range(2_000):
        deep = {"not": deep}
    raw = manifest("Trigger", TRIGGER)
    raw["spec"]["filters"] = [deep]
    with pytest.raises(Invalid):
        admit(raw, None, USER)
    for _ in range(1_960):
        deep = deep["not"]
    raw["spec"]["filters"] = [deep]
    with pytest.raises(Invalid, match="32"):
        admit(raw, None, USER)


def test_values_of_a_secret_are_in_no_message() -> None:
    for body in (
        "data: {password: 12345678}",
        "data: {password: '!hunter2!'}",
        "stringData: {password: [hunter2]}",
        "data: hunter2",
    ):
        text = refusal("Secret", body)
        assert "hunter2" not in text
        assert "12345678" not in text


def test_string_data_becomes_data() -> None:
    admitted = admit(manifest("Secret", "{data: {a: Yg==}, stringData: {c: d}}"), None, USER)
    assert admitted["data"] == {"a": "Yg==", "c": "ZA=="}
    assert "stringData" not in admitted
