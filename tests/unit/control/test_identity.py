"""With authentication switched on: audiences, policies, identities. With it off: nothing of that anywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from headrace.control.model import CreateObject, ObjectKey
from headrace.control.naming import service_account
from headrace.control.settings import Settings
from headrace.core.resources.features import Features
from tests.unit.control.fakehome import CONTROLLER, HOME_KAFKA, FakeHome
from tests.unit.control.manifests import BACKING, BROKER, CHANNEL, KAFKA_CHANNEL, SUBSCRIPTION, TRIGGER, B, C, K, S, T, eventing
from tests.unit.core_resources.manifests import PEM

Json = dict[str, Any]
ON = Settings(HOME_KAFKA, features=Features(authentication_oidc=True))
P = eventing("EventPolicy", "p")


def policy(spec: str, name: str = "p") -> Json:
    head = {"apiVersion": "eventing.knative.dev/v1alpha1", "kind": "EventPolicy", "metadata": {"name": name}}
    return {**head, "spec": yaml.safe_load(spec)}


def home_with(settings: Settings, *manifests: str, policies: tuple[Json, ...] = ()) -> FakeHome:
    home = FakeHome(settings)
    for text in manifests:
        home.apply(text)
    for index, raw in enumerate(policies):
        key = eventing("EventPolicy", raw["metadata"]["name"], raw["metadata"].get("namespace", "default"))
        meta = {"namespace": "default", "uid": f"p-{index}", "generation": 1, "resourceVersion": "1", **raw["metadata"]}
        home.objects[key] = {**raw, "metadata": meta}
    home.settle()
    return home


def ingress_policies(home: FakeHome, key: ObjectKey = B) -> list[Json]:
    resource = home.resource(key)
    assert resource is not None
    assert resource.ingress is not None
    return list(resource.ingress.event_policies)


def matcher(kind: str, sub: str) -> Json:
    return {kind: {"attributes": {"sub": sub}}}


def test_with_authentication_off_there_is_no_audience_and_no_policy() -> None:
    home = home_with(Settings(HOME_KAFKA), BROKER, TRIGGER, policies=(policy("{from: [{sub: a}]}"),))
    resource = home.resource(B)
    assert resource is not None
    assert resource.ingress is not None
    assert (resource.ingress.audience, resource.ingress.event_policies) == ("", ())
    assert home.verdict(B, "EventPoliciesReady") == ("True", "OIDCDisabled")
    assert home.verdict(P) == ("False", "OIDCDisabled")
    assert "auth" not in home.status(T)
    assert "audience" not in home.status(B)["address"]


def test_an_audience_that_nobody_checks_is_not_in_the_contract() -> None:
    text = TRIGGER.replace("uri: 'http://sink/'", "uri: 'http://sink/', audience: me")
    for settings, wanted in ((Settings(HOME_KAFKA), ""), (ON, "me")):
        resource = home_with(settings, BROKER, text).resource(T)
        assert resource is not None
        assert resource.egresses[0].destination_audience == wanted


def test_with_authentication_on_an_ingress_has_its_audience() -> None:
    home = home_with(ON, BROKER, KAFKA_CHANNEL)
    for key, wanted in ((B, "eventing.knative.dev/broker/default/b"), (K, "messaging.knative.dev/kafkachannel/default/k")):
        resource = home.resource(key)
        assert resource is not None
        assert resource.ingress is not None
        assert resource.ingress.audience == wanted
        assert home.status(key)["address"]["audience"] == wanted


@pytest.mark.parametrize(
    ("mode", "policies"),
    [
        ("allow-same-namespace", [{"tokenMatchers": [matcher("prefix", "system:serviceaccount:default:")]}]),
        ("allow-all", [{"tokenMatchers": [matcher("prefix", "")]}]),
        ("deny-all", []),
    ],
)
def test_without_a_policy_the_default_mode_says_who_may_send(mode: str, policies: list[Json]) -> None:
    settings = replace(ON, features=replace(ON.features, default_authorization_mode=mode))
    home = home_with(settings, BROKER)
    assert ingress_policies(home) == policies
    assert home.verdict(B, "EventPoliciesReady") == ("True", "DefaultAuthorizationMode")


def test_a_policy_lets_its_subjects_in_with_its_filters() -> None:
    spec = "{from: [{sub: 'alice'}, {sub: 'team-*'}], filters: [{prefix: {type: a}}]}"
    home = home_with(ON, BROKER, policies=(policy(spec),))
    assert home.verdict(P) == ("True", "")
    assert home.status(P)["from"] == ["alice", "team-*"]
    assert ingress_policies(home) == [
        {
            "tokenMatchers": [matcher("exact", "alice"), matcher("prefix", "team-")],
            "filters": [{"prefix": {"attributes": {"type": "a"}}}],
        }
    ]
    assert home.status(B)["policies"] == [{"name": "p", "apiVersion": "eventing.knative.dev/v1alpha1"}]
    assert home.verdict(B) == ("True", "")


def test_a_policy_from_an_object_lets_that_objects_identity_in() -> None:
    spec = "{from: [{ref: {apiVersion: eventing.knative.dev/v1, kind: Trigger, name: t}}]}"
    home = home_with(ON, BROKER, policies=(policy(spec),))
    assert home.verdict(P) == ("False", "SubjectsNotResolved")
    assert "trigger/default/t" in home.condition(P)["message"]
    assert home.verdict(B) == ("False", "EventPoliciesNotReady")
    assert home.condition(B)["message"] == "event policies not ready: p"
    assert ingress_policies(home) == [], "a policy that is not ready lets nobody in"
    home.apply(TRIGGER)
    home.settle()
    account = f"system:serviceaccount:default:{service_account('t', 'eventing.knative.dev', 'Trigger')}"
    assert home.status(P)["from"] == [account]
    assert ingress_policies(home) == [{"tokenMatchers": [matcher("exact", account)]}]
    assert home.verdict(B) == ("True", "")


def test_a_kafka_channel_is_not_ready_either_while_a_policy_is_not() -> None:
    spec = "{from: [{ref: {apiVersion: x/v1, kind: Gone, name: g}}]}"
    home = home_with(ON, KAFKA_CHANNEL, policies=(policy(spec),))
    assert home.verdict(K) == ("False", "EventPoliciesNotReady")


SELECTOR = "selector: {{apiVersion: eventing.knative.dev/v1, kind: Broker{}}}"
GOLD = ", matchLabels: {tier: gold}"


def expression(text: str) -> str:
    return f", matchExpressions: [{{{text}}}]"


@pytest.mark.parametrize(
    ("to", "applies"),
    [
        ("ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: b}", True),
        ("ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: other}", False),
        ("ref: {apiVersion: messaging.knative.dev/v1, kind: Broker, name: b}", False),
        (SELECTOR.format(""), True),
        (SELECTOR.format(GOLD), True),
        (SELECTOR.format(GOLD.replace("gold", "tin")), False),
        (SELECTOR.format(expression("key: tier, operator: In, values: [gold]")), True),
        (SELECTOR.format(expression("key: zone, operator: In, values: [gold]")), False),
        (SELECTOR.format(expression("key: tier, operator: NotIn, values: [gold]")), False),
        (SELECTOR.format(expression("key: zone, operator: NotIn, values: [gold]")), True),
        (SELECTOR.format(expression("key: tier, operator: Exists")), True),
        (SELECTOR.format(expression("key: tier, operator: DoesNotExist")), False),
    ],
)
def test_a_policy_is_about_what_its_targets_say(to: str, applies: bool) -> None:
    broker = BROKER.replace("name: b", "name: b, labels: {tier: gold}")
    home = home_with(ON, broker, policies=(policy(f"{{to: [{{{to}}}], from: [{{sub: a}}]}}"),))
    assert ("policies" in home.status(B)) is applies


def test_a_policy_of_another_namespace_is_about_nothing_here() -> None:
    raw = policy("{from: [{sub: a}]}")
    raw["metadata"]["namespace"] = "other"
    home = home_with(ON, BROKER, policies=(raw,))
    assert "policies" not in home.status(B)


def test_a_policy_about_a_channel_holds_for_the_channel_behind_it() -> None:
    channel = CHANNEL.replace("name: c", "name: c, labels: {tier: gold}")
    for to in (
        "ref: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: c}",
        SELECTOR.format(GOLD).replace("Broker", "Channel"),
    ):
        text = to.replace("eventing.knative.dev/v1, kind: Channel", "messaging.knative.dev/v1, kind: Channel")
        home = home_with(ON, channel, KAFKA_CHANNEL, policies=(policy(f"{{to: [{{{text}}}], from: [{{sub: a}}]}}"),))
        assert ingress_policies(home, BACKING) == [{"tokenMatchers": [matcher("exact", "a")]}]
        assert home.status(C)["policies"] == home.status(BACKING)["policies"]
        assert "policies" not in home.status(K)


def test_trust_bundles_of_the_installation_go_into_the_contract() -> None:
    bundle = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s, labels: {%s: 'true'}}\ndata: {b: PEM-B, a: PEM-A}\n"
    home = FakeHome()
    label = "networking.knative.dev/trust-bundle"
    for name, namespace, key in (
        ("one", "knative-eventing", label),
        ("two", "elsewhere", label),
        ("three", "knative-eventing", "x"),
    ):
        home.apply(bundle % (name, namespace, key))
    assert home.round().trust_bundles == ("PEM-A", "PEM-B")


def test_triggers_and_subscriptions_send_under_an_identity_of_their_own() -> None:
    home = home_with(ON, BROKER, TRIGGER, KAFKA_CHANNEL, SUBSCRIPTION)
    for key in (T, S):
        name = service_account(key.name, key.group, key.kind)
        assert home.status(key)["auth"] == {"serviceAccountName": name}
        resource = home.resource(key)
        assert resource is not None
        assert resource.egresses[0].oidc_service_account_name == name
    assert home.done(CreateObject) == [], "standalone has no accounts to make"


def test_a_subscriber_and_a_reply_are_asked_for_with_their_own_audiences() -> None:
    one, other = PEM, PEM + PEM
    subscriber = {"subscriberUri": "http://s/", "subscriberCACerts": one, "subscriberAudience": "them"}
    reply = {"replyUri": "http://r/", "replyCACerts": other, "replyAudience": "answers"}
    first, second = ("http://s/", one, "them"), ("http://r/", other, "answers")
    for entry, to, answers in ((subscriber | reply, first, second), (reply, second, ("", "", ""))):
        home = FakeHome(replace(ON, reconciled=frozenset({"messaging.knative.dev/KafkaChannel"})))
        spec = {"numPartitions": 1, "subscribers": [{"uid": "u-1", "generation": 1, **entry}]}
        head = {"apiVersion": "messaging.knative.dev/v1", "kind": "KafkaChannel", "metadata": {"name": "k"}}
        home.write({**head, "spec": spec}, user=CONTROLLER)
        home.settle()
        egress = home.contract["u-1"].resource.egresses[0]
        assert (egress.destination, egress.destination_ca_certs, egress.destination_audience) == to
        assert (egress.reply_url, egress.reply_url_ca_certs, egress.reply_url_audience) == answers


def test_in_kubernetes_the_account_is_made_first() -> None:
    home = FakeHome(replace(ON, own_accounts=True))
    home.refuse[CreateObject] = "forbidden"
    home.apply(BROKER + "---" + TRIGGER)
    home.settle()
    assert home.verdict(T) == ("False", "ServiceAccountNotCreated")
    assert "forbidden" in home.condition(T)["message"]
    assert home.resource(T) is None
    account = ObjectKey("", "ServiceAccount", "default", service_account("t", "eventing.knative.dev", "Trigger"))
    home.objects[account] = {"metadata": {"uid": "a"}}
    home.settle()
    assert home.verdict(T) == ("True", "")


@pytest.mark.parametrize("name", ["t", "a-very-long-name-for-a-trigger-that-fits-nowhere", "n" * 253])
def test_an_account_name_is_a_legal_name_and_its_own(name: str) -> None:
    account = service_account(name, "eventing.knative.dev", "Trigger")
    assert len(account) <= 63
    assert account == account.lower()
    assert account != service_account(name + "x", "eventing.knative.dev", "Trigger")
