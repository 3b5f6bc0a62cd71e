from __future__ import annotations

import pytest

from headrace.control.model import CreateObject, CreateTopic, KafkaRef, ObjectKey, TopicKey
from headrace.control.settings import Settings
from headrace.core.contract import DeliveryOrder, Egress
from tests.unit.control.fakehome import CONTROLLER, HOME_KAFKA, FakeHome
from tests.unit.control.manifests import (
    BACKING,
    BROKER,
    CHANNEL,
    KAFKA_CHANNEL,
    OVER_CHANNEL,
    SUBSCRIPTION,
    C,
    K,
    S,
    eventing,
    messaging,
)


def settled(*manifests: str, settings: Settings | None = None) -> FakeHome:
    home = FakeHome(settings)
    for text in manifests:
        home.apply(text)
    home.settle()
    return home


def egress(home: FakeHome) -> Egress:
    resource = home.resource(S)
    assert resource is not None
    (one,) = resource.egresses
    return one


@pytest.mark.spec("CP-C1", "CP-C3", "CP-D5", "CP-X2")
def test_a_kafka_channel_gets_a_topic_an_ingress_an_address_and_is_ready() -> None:
    home = settled(KAFKA_CHANNEL)
    topic = TopicKey(HOME_KAFKA, "knative-messaging-kafka.default.k")
    assert home.done(CreateTopic) == [CreateTopic(topic, 2, 1, (("retention.ms", "604800000"),))]
    assert home.verdict(K) == ("True", "")
    assert home.status(K)["address"]["url"] == "http://127.0.0.1:8080/channels/default/k"
    assert [item["type"] for item in home.status(K)["conditions"]] == [
        "Subscribers",
        "TopicReady",
        "ConfigMapUpdated",
        "ConfigParsed",
        "ProbeSucceeded",
        "Addressable",
        "EventPoliciesReady",
        "Ready",
    ]
    resource = home.resource(K)
    assert resource is not None
    assert resource.ingress is not None
    assert (resource.ingress.path, resource.ingress.host) == ("/channels/default/k", "k-kn-channel.default.svc.cluster.local")


def test_a_channels_address_is_its_host_where_the_home_has_host_names() -> None:
    home = settled(KAFKA_CHANNEL, settings=Settings(HOME_KAFKA, host_addresses=True, cluster_domain="example.local"))
    assert home.status(K)["address"]["url"] == "http://k-kn-channel.default.svc.example.local"


def test_a_long_channel_name_is_its_host_label_as_it_is() -> None:
    name = "n" * 60
    home = settled(KAFKA_CHANNEL.replace("name: k", f"name: {name}"))
    resource = home.resource(messaging("KafkaChannel", name))
    assert resource is not None
    assert resource.ingress is not None
    assert resource.ingress.host == f"{name}.default.svc.cluster.local"


def test_kafka_channels_take_their_connection_from_the_config_map_of_the_installation() -> None:
    settings = Settings(HOME_KAFKA, channel_config=ObjectKey("", "ConfigMap", "knative-eventing", "kafka-channel-config"))
    home = FakeHome(settings)
    home.apply(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kafka-channel-config, namespace: knative-eventing}\n"
        "data: {bootstrap.servers: 'other:9092', auth.secret.ref.name: sec, auth.secret.ref.namespace: vault}\n"
        "---\napiVersion: v1\nkind: Secret\nmetadata: {name: sec, namespace: vault}\nstringData: {protocol: PLAINTEXT}\n"
    )
    home.apply(KAFKA_CHANNEL)
    home.settle()
    (created,) = home.done(CreateTopic)
    assert created.topic.kafka == KafkaRef("other:9092", ObjectKey("", "Secret", "vault", "sec"))
    assert home.verdict(K) == ("True", "")
    assert settled(KAFKA_CHANNEL, settings=settings).verdict(K) == ("True", ""), "without the ConfigMap: the home's own"


@pytest.mark.spec("CP-C2", "CP-C4", "CP-E1", "CP-S2", "CP-S3", "CP-S7", "CP-X2", "CP-X3")
def test_a_subscription_is_entered_at_its_channel_and_delivered() -> None:
    home = settled(KAFKA_CHANNEL, SUBSCRIPTION)
    assert home.verdict(S) == ("True", "")
    assert home.status(S)["physicalSubscription"] == {"subscriberUri": "http://sink/"}
    assert [item["type"] for item in home.status(S)["conditions"]] == [
        "ReferencesResolved",
        "AddedToChannel",
        "ChannelReady",
        "OIDCIdentityCreated",
        "Ready",
    ]
    uid = home.uid(S)
    assert home.objects[K]["spec"]["subscribers"] == [
        {"uid": uid, "name": "s", "generation": 1, "subscriberUri": "http://sink/"}
    ]
    assert home.status(K)["subscribers"] == [{"uid": uid, "observedGeneration": 1, "ready": "True"}]
    one = egress(home)
    assert one.consumer_group == f"kafka.default.k.{uid}"
    assert one.destination == "http://sink/"
    assert one.delivery_order is DeliveryOrder.ORDERED
    assert (one.reference.kind, one.reference.name, one.reference.namespace) == ("Subscription", "s", "default")


@pytest.mark.spec("CP-S5", "CP-E4")
def test_without_a_reply_answers_are_dropped() -> None:
    assert egress(settled(KAFKA_CHANNEL, SUBSCRIPTION)).discard_reply


@pytest.mark.spec("CP-E4", "CP-S3", "CP-D1")
def test_answers_go_where_the_reply_says() -> None:
    home = settled(
        KAFKA_CHANNEL, BROKER, SUBSCRIPTION + "  reply: {ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: b}}\n"
    )
    one = egress(home)
    assert one.reply_url == "http://127.0.0.1:8080/default/b"
    assert not one.discard_reply
    assert home.status(S)["physicalSubscription"]["replyUri"] == one.reply_url


@pytest.mark.spec("CP-S1")
@pytest.mark.parametrize(("text", "channel"), [(SUBSCRIPTION, KAFKA_CHANNEL), (OVER_CHANNEL, CHANNEL)])
def test_a_subscription_may_come_before_its_channel(text: str, channel: str) -> None:
    home = settled(text)
    assert home.verdict(S) == ("False", "ChannelReferenceFailed")
    assert "does not exist" in home.condition(S)["message"]
    assert "physicalSubscription" not in home.status(S) or "subscriberUri" in home.status(S)["physicalSubscription"]
    home.apply(channel)
    home.settle()
    assert home.verdict(S) == ("True", "")


@pytest.mark.spec("CP-S2")
def test_a_subscription_over_a_channel_is_entered_at_the_channel_behind() -> None:
    home = settled(CHANNEL, OVER_CHANNEL)
    assert home.verdict(S) == ("True", "")
    assert [entry["uid"] for entry in home.objects[BACKING]["spec"]["subscribers"]] == [home.uid(S)]
    assert home.status(C)["subscribers"] == home.status(BACKING)["subscribers"]


def test_what_is_no_channel_is_named() -> None:
    text = SUBSCRIPTION.replace(
        "messaging.knative.dev/v1, kind: KafkaChannel, name: k", "eventing.knative.dev/v1, kind: Broker, name: b"
    )
    home = settled(BROKER, text)
    assert home.verdict(S) == ("False", "ChannelReferenceFailed")
    assert "is no channel that is served here" in home.condition(S)["message"]


@pytest.mark.spec("CP-S3", "ES-5")
@pytest.mark.parametrize(
    ("change", "reason", "field"),
    [
        (
            ("subscriber: {uri: 'http://sink/'}", "subscriber: {ref: {apiVersion: v1x/v1, kind: Gone, name: g}}"),
            "SubscriberResolveFailed",
            "subscriberUri",
        ),
        (
            ("  subscriber:", "  reply: {ref: {apiVersion: v1x/v1, kind: Gone, name: g}}\n  subscriber:"),
            "ReplyResolveFailed",
            "replyUri",
        ),
        (
            ("  subscriber:", "  delivery: {deadLetterSink: {ref: {apiVersion: v1x/v1, kind: Gone, name: g}}}\n  subscriber:"),
            "DeadLetterSinkResolveFailed",
            "deadLetterSinkUri",
        ),
    ],
)
def test_a_reference_that_is_not_there_is_named_and_has_no_uri(change: tuple[str, str], reason: str, field: str) -> None:
    home = settled(KAFKA_CHANNEL, SUBSCRIPTION.replace(*change))
    assert home.verdict(S) == ("False", reason)
    assert home.condition(S)["message"] == "gone/default/g does not exist"
    assert field not in home.status(S).get("physicalSubscription", {})
    assert home.contract.keys() == {home.uid(K)}


@pytest.mark.spec("CP-S3")
def test_a_subscriber_that_vanishes_stops_the_lane_and_its_events_wait() -> None:
    text = SUBSCRIPTION.replace("uri: 'http://sink/'", "ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: b}")
    home = settled(KAFKA_CHANNEL, BROKER, text)
    assert home.verdict(S) == ("True", "")
    broker = home.objects.pop(eventing("Broker", "b"))
    home.settle()
    assert home.verdict(S) == ("False", "SubscriberResolveFailed")
    assert home.resource(S) is None
    assert home.positions[home.uid(S)]
    home.write({**broker, "metadata": {"name": "b"}})
    home.settle()
    assert home.verdict(S) == ("True", "")


@pytest.mark.spec("CP-X5")
@pytest.mark.parametrize(
    ("of_channel", "of_subscription", "wanted"),
    [
        ("", "", (10, "")),
        ("retry: 3, deadLetterSink: {uri: 'http://dead/'}", "", (3, "http://dead/")),
        ("retry: 3, deadLetterSink: {uri: 'http://dead/'}", "retry: 1", (1, "")),
        ("retry: 3, deadLetterSink: {uri: 'http://dead/'}", "timeout: PT1S", (0, "")),
        ("retry: 3", "deadLetterSink: {uri: 'http://own/'}", (0, "http://own/")),
    ],
)
def test_a_subscriptions_delivery_replaces_the_channels_as_a_whole(
    of_channel: str, of_subscription: str, wanted: tuple[int, str]
) -> None:
    channel = KAFKA_CHANNEL.replace("numPartitions: 2", f"delivery: {{{of_channel}}}") if of_channel else KAFKA_CHANNEL
    home = settled(channel, SUBSCRIPTION + (f"  delivery: {{{of_subscription}}}\n" if of_subscription else ""))
    config = egress(home).egress_config
    assert (config.retry, config.dead_letter) == wanted


def test_a_dead_letter_sink_by_reference_is_entered_by_its_address() -> None:
    sink = "deadLetterSink: {ref: {apiVersion: messaging.knative.dev/v1, kind: KafkaChannel, name: dead}}"
    home = settled(
        KAFKA_CHANNEL, KAFKA_CHANNEL.replace("name: k", "name: dead"), SUBSCRIPTION + f"  delivery: {{retry: 1, {sink}}}\n"
    )
    url = "http://127.0.0.1:8080/channels/default/dead"
    assert home.objects[K]["spec"]["subscribers"][0]["delivery"] == {"deadLetterSink": {"uri": url}, "retry": 1}
    assert home.status(S)["physicalSubscription"]["deadLetterSinkUri"] == url
    assert egress(home).egress_config.dead_letter == url


@pytest.mark.spec("CP-C5")
def test_a_channels_dead_letter_sink_is_resolved_into_its_status_before_ready() -> None:
    sink = "delivery: {deadLetterSink: {ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: b}}}"
    home = settled(CHANNEL + f"spec: {{{sink}}}\n")
    assert home.verdict(C)[0] == "False"
    assert home.verdict(C, "DeadLetterSinkResolved") == ("False", "DeadLetterSinkNotResolved")
    home.apply(BROKER)
    home.settle()
    assert home.verdict(C) == ("True", "")
    for key in (C, BACKING):
        assert home.status(key)["deadLetterSinkUri"] == "http://127.0.0.1:8080/default/b"


@pytest.mark.spec("CP-S6")
def test_a_changed_subscription_is_ready_once_every_worker_has_it() -> None:
    home = settled(KAFKA_CHANNEL, SUBSCRIPTION)
    home.hold("workers")
    home.apply(SUBSCRIPTION.replace("http://sink/", "http://other/"))
    home.settle()
    assert home.verdict(S) == ("Unknown", "SubscriptionNotMarkedReadyByChannel")
    assert "WorkersNotUpToDate: applied by 0 of 2 workers" in home.condition(S)["message"]
    home.release()
    home.settle()
    assert home.verdict(S) == ("True", "")
    assert egress(home).destination == "http://other/"


@pytest.mark.spec("CP-S7")
def test_a_subscription_waits_for_its_channel() -> None:
    home = FakeHome()
    home.receivers = ("r1", "r2")
    home.hold("r2")
    home.apply(KAFKA_CHANNEL + "---" + SUBSCRIPTION)
    home.settle()
    assert home.verdict(S, "ChannelReady") == ("Unknown", "ChannelNotReady")
    assert home.verdict(S)[0] == "Unknown"
    home.release()
    home.settle()
    assert home.verdict(S) == ("True", "")


@pytest.mark.spec("CP-R11")
def test_two_subscriptions_with_one_destination_are_two_lanes() -> None:
    home = settled(KAFKA_CHANNEL, SUBSCRIPTION, SUBSCRIPTION.replace("name: s", "name: u"))
    egresses = [one for record in home.contract.values() for one in record.resource.egresses]
    assert [one.destination for one in egresses] == ["http://sink/"] * 2
    assert len({one.consumer_group for one in egresses}) == 2


def test_one_subscriber_that_is_not_ready_leaves_channel_and_others_ready() -> None:
    home = settled(KAFKA_CHANNEL, SUBSCRIPTION)
    home.hold("workers")
    home.apply(SUBSCRIPTION.replace("name: s", "name: u"))
    home.settle()
    assert home.verdict(K) == ("True", "")
    assert home.verdict(K, "Subscribers") == ("True", "SubscribersNotReady")
    assert home.condition(K, "Subscribers")["message"] == "not ready yet: u"
    assert home.verdict(S) == ("True", "")
    assert home.verdict(messaging("Subscription", "u"))[0] == "Unknown"


def test_a_restart_of_the_data_plane_takes_no_ready_away() -> None:
    home = settled(CHANNEL, OVER_CHANNEL)
    before = [home.status(key) for key in (C, BACKING, S)]
    home.receivers, home.dispatcher = (), False
    home.now += 60
    home.settle()
    assert [home.status(key) for key in (C, BACKING, S)] == before


def test_a_new_subscriber_while_the_receivers_restart_leaves_the_others_ready() -> None:
    home = settled(KAFKA_CHANNEL, SUBSCRIPTION)
    home.receivers = ()
    home.apply(SUBSCRIPTION.replace("name: s", "name: u"))
    home.settle()
    assert home.status(K)["observedGeneration"] == 3
    assert home.verdict(K) == ("True", "")
    assert home.verdict(S) == ("True", "")
    assert home.verdict(messaging("Subscription", "u")) == ("True", "")


def test_annotations_of_a_subscription_reach_its_lane() -> None:
    note = "name: s, annotations: {kafka.eventing.knative.dev/delivery.order: key, headrace.dev/max-rate: '5'}"
    one = egress(settled(KAFKA_CHANNEL, SUBSCRIPTION.replace("name: s", note)))
    assert one.order is DeliveryOrder.KEY
    assert one.headrace["maxRate"] == 5.0


@pytest.mark.spec("CP-X6")
def test_entries_that_no_subscription_wants_are_removed() -> None:
    home = settled(KAFKA_CHANNEL, SUBSCRIPTION)
    raw = home.objects[K]
    entries = [{"uid": "stranger", "subscriberUri": "http://x/"}, *raw["spec"]["subscribers"]]
    home.write({**raw, "spec": {**raw["spec"], "subscribers": entries}}, user=CONTROLLER)
    home.settle()
    assert [entry["uid"] for entry in home.objects[K]["spec"]["subscribers"]] == [home.uid(S)]
    assert "stranger" not in home.contract


def test_beside_knatives_core_entries_of_others_are_served_and_left_alone() -> None:
    ours = frozenset({"messaging.knative.dev/KafkaChannel"})
    home = FakeHome(Settings(HOME_KAFKA, reconciled=ours))
    entry = {"uid": "u-1", "generation": 3, "subscriberUri": "http://x/", "delivery": {"retry": 2}}
    spec = {"numPartitions": 1, "subscribers": [entry]}
    home.write(
        {"apiVersion": "messaging.knative.dev/v1", "kind": "KafkaChannel", "metadata": {"name": "k"}, "spec": spec},
        user=CONTROLLER,
    )
    home.apply(SUBSCRIPTION)
    home.settle()
    assert home.status(S) == {}
    assert home.objects[K]["spec"]["subscribers"] == [entry]
    assert home.status(K)["subscribers"] == [{"uid": "u-1", "observedGeneration": 3, "ready": "True"}]
    assert home.contract["u-1"].resource.egresses[0].egress_config.retry == 2


@pytest.mark.spec("CP-C1", "CP-C6")
def test_a_channel_is_backed_by_a_kafka_channel_of_its_name_and_mirrors_it() -> None:
    template = "{apiVersion: messaging.knative.dev/v1beta1, kind: KafkaChannel, spec: {numPartitions: 4}}"
    home = settled(CHANNEL + f"spec: {{channelTemplate: {template}, delivery: {{retry: 7}}}}\n")
    backing = home.objects[BACKING]
    assert backing["spec"]["numPartitions"] == 4
    assert backing["spec"]["delivery"] == {"retry": 7}
    assert backing["metadata"]["ownerReferences"][0]["uid"] == home.uid(C)
    assert home.verdict(C) == ("True", "")
    assert home.status(C)["address"] == home.status(BACKING)["address"]
    assert home.status(C)["channel"]["kind"] == "KafkaChannel"


def test_a_channel_of_another_kind_cannot_be_made_here() -> None:
    home = settled(CHANNEL + "spec: {channelTemplate: {apiVersion: messaging.knative.dev/v1, kind: InMemoryChannel}}\n")
    assert home.verdict(C) == ("False", "ChannelTemplateNotSupported")
    assert "InMemoryChannel" in home.condition(C)["message"]


def test_a_kafka_channel_of_somebody_else_is_not_taken_over() -> None:
    home = settled(KAFKA_CHANNEL.replace("name: k", "name: c"), CHANNEL)
    assert home.verdict(C) == ("False", "BackingChannelNotOwned")
    assert home.verdict(BACKING) == ("True", "")


def test_a_backing_channel_that_cannot_be_made_is_told() -> None:
    home = FakeHome()
    home.refuse[CreateObject] = "denied"
    home.apply(CHANNEL)
    home.settle()
    assert home.verdict(C) == ("False", "BackingChannelCreationFailed")


@pytest.mark.parametrize(
    ("first", "second", "place"),
    [
        ("a" * 49, "a" * 49 + "-kn-channel", ".default.svc.cluster.local belongs to kafkachannel/default/"),
    ],
)
def test_of_two_channels_with_one_host_the_older_keeps_it(first: str, second: str, place: str) -> None:
    home = settled(KAFKA_CHANNEL.replace("name: k", f"name: {first}"))
    home.now += 10
    home.apply(KAFKA_CHANNEL.replace("name: k", f"name: {second}"))
    home.settle()
    one, other = messaging("KafkaChannel", first), messaging("KafkaChannel", second)
    assert home.verdict(one) == ("True", "")
    assert home.verdict(other) == ("False", "AddressConflict")
    assert place in home.condition(other)["message"]
    assert "address" not in home.status(other)
    home.delete(one)
    home.settle()
    assert home.verdict(other) == ("True", "")
