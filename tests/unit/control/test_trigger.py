from __future__ import annotations

from typing import Any

import pytest

from headrace.control.model import WriteInitialPositions
from headrace.control.settings import Settings
from headrace.core.contract import BackoffPolicy, DeliveryOrder, Egress, to_json
from tests.unit.control.fakehome import HOME_KAFKA, FakeHome
from tests.unit.control.manifests import BROKER, TRIGGER, B, T

SINK = "http://sink/"


def trigger(spec: str = "", annotations: str = "") -> str:
    return (
        "apiVersion: eventing.knative.dev/v1\nkind: Trigger\n"
        f"metadata: {{name: t, annotations: {{{annotations}}}}}\n"
        f"spec: {{broker: b, subscriber: {{uri: 'http://sink/'}}{', ' + spec if spec else ''}}}\n"
    )


def broker(spec: str = "", annotations: str = "") -> str:
    return f"apiVersion: eventing.knative.dev/v1\nkind: Broker\nmetadata: {{name: b, annotations: {{{annotations}}}}}\nspec: {{{spec}}}\n"


def egress(home: FakeHome) -> Egress:
    resource = home.resource(T)
    assert resource is not None
    (one,) = resource.egresses
    return one


def settled(*manifests: str, settings: Settings | None = None) -> FakeHome:
    home = FakeHome(settings)
    for text in manifests:
        home.apply(text)
    home.settle()
    return home


@pytest.mark.spec("CP-B2", "CP-B4", "CP-T2", "CP-E1", "CP-X2", "CP-X3")
def test_a_trigger_becomes_a_lane_over_its_brokers_topic() -> None:
    home = settled(BROKER, TRIGGER)
    assert home.verdict(T) == ("True", "")
    status = home.status(T)
    assert status["subscriberUri"] == SINK
    assert status["observedGeneration"] == 1
    assert status["annotations"]["group.id"] == "knative-trigger-default-t"
    assert [item["type"] for item in status["conditions"]] == [
        "BrokerReady",
        "SubscriptionReady",
        "DependencyReady",
        "SubscriberResolved",
        "DeadLetterSinkResolved",
        "OIDCIdentityCreated",
        "Ready",
    ]
    resource = home.resource(T)
    assert resource is not None
    assert to_json(resource) == {
        "uid": "uid-2",
        "topics": ["knative-broker-default-b"],
        "bootstrapServers": "127.0.0.1:9092",
        "egresses": [
            {
                "consumerGroup": "knative-trigger-default-t",
                "destination": SINK,
                "replyToOriginalTopic": {},
                "uid": "uid-2",
                "egressConfig": {"retry": 10, "backoffDelay": "200"},
                "reference": {
                    "uuid": "uid-2",
                    "namespace": "default",
                    "name": "t",
                    "kind": "Trigger",
                    "groupVersion": "eventing.knative.dev/v1",
                },
                "vReplicas": 1,
                "headrace": {"initialised": True},
            }
        ],
        "reference": {
            "uuid": "uid-2",
            "namespace": "default",
            "name": "t",
            "kind": "Trigger",
            "groupVersion": "eventing.knative.dev/v1",
        },
    }


@pytest.mark.spec("CP-T1")
def test_a_trigger_may_come_before_its_broker() -> None:
    home = settled(TRIGGER)
    assert home.verdict(T) == ("False", "BrokerDoesNotExist")
    assert home.condition(T)["message"] == "broker/default/b does not exist"
    assert home.contract == {}
    home.apply(BROKER)
    home.settle()
    assert home.verdict(T) == ("True", "")


@pytest.mark.spec("CP-T1", "ES-4")
def test_a_trigger_of_a_broker_that_is_not_ready_is_not_ready_either() -> None:
    home = settled(broker("config: {apiVersion: v1, kind: ConfigMap, name: gone}"), TRIGGER)
    assert home.verdict(T) == ("False", "BrokerNotReady")
    assert "ConfigMapNotFound: configmap/default/gone does not exist" in home.condition(T)["message"]


@pytest.mark.spec("CP-T3", "CP-D4", "ES-5")
def test_a_subscriber_that_is_not_there_is_named_and_has_no_uri() -> None:
    home = settled(
        BROKER, TRIGGER.replace("uri: 'http://sink/'", "ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: other}")
    )
    assert home.verdict(T) == ("False", "ReferenceNotFound")
    assert home.condition(T)["message"] == "broker/default/other does not exist"
    assert "subscriberUri" not in home.status(T)
    assert home.resource(T) is None


@pytest.mark.spec("CP-T3")
def test_a_subscriber_that_vanishes_stops_the_lane_and_its_events_wait() -> None:
    by_ref = TRIGGER.replace("uri: 'http://sink/'", "ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: other}")
    home = settled(BROKER, BROKER.replace("name: b", "name: other"), by_ref)
    assert home.status(T)["subscriberUri"] == "http://127.0.0.1:8080/default/other"
    other = home.objects.pop(next(key for key in home.objects if key.name == "other"))
    home.settle()
    assert home.verdict(T) == ("False", "ReferenceNotFound")
    assert "subscriberUri" not in home.status(T)
    assert home.resource(T) is None
    assert home.positions[home.uid(T)], "its place in the topic is kept"
    home.write({**other, "metadata": {"name": "other"}})
    home.settle()
    assert home.verdict(T) == ("True", "")
    assert len(home.done(WriteInitialPositions)) == 1, "it goes on where it was"


@pytest.mark.spec("CP-T4")
def test_the_dead_letter_sink_is_resolved_before_ready() -> None:
    delivery = (
        "delivery: {deadLetterSink: {ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: dead}, uri: /letters}}"
    )
    home = settled(BROKER, trigger(delivery))
    assert home.verdict(T) == ("False", "ReferenceNotFound")
    assert home.verdict(T, "DeadLetterSinkResolved")[0] == "False"
    assert home.resource(T) is None
    home.apply(BROKER.replace("name: b", "name: dead"))
    home.settle()
    assert home.verdict(T) == ("True", "")
    assert home.status(T)["deadLetterSinkUri"] == "http://127.0.0.1:8080/letters"
    assert egress(home).egress_config.dead_letter == "http://127.0.0.1:8080/letters"


def test_no_dead_letter_sink_is_no_fault() -> None:
    assert settled(BROKER, TRIGGER).verdict(T, "DeadLetterSinkResolved") == ("True", "DeadLetterSinkNotConfigured")


@pytest.mark.spec("CP-T6")
def test_a_changed_subscriber_is_ready_once_every_worker_has_it() -> None:
    home = settled(BROKER, TRIGGER)
    home.hold("workers")
    home.now += 5
    home.apply(TRIGGER.replace("http://sink/", "http://other/"))
    home.settle()
    assert home.status(T)["observedGeneration"] == 2
    assert home.verdict(T) == ("Unknown", "WorkersNotUpToDate")
    home.release()
    home.settle()
    assert home.verdict(T) == ("True", "")
    assert egress(home).destination == "http://other/"


def test_a_transition_time_stays_while_the_status_stays() -> None:
    home = settled(BROKER, TRIGGER)
    before = home.condition(T, "SubscriberResolved")["lastTransitionTime"]
    home.now += 100
    home.hold("workers")
    home.apply(TRIGGER.replace("http://sink/", "http://other/"))
    home.settle()
    assert home.condition(T, "SubscriberResolved")["lastTransitionTime"] == before
    assert home.condition(T, "SubscriptionReady")["lastTransitionTime"] != before


@pytest.mark.parametrize(
    ("spec", "filter_", "dialected"),
    [
        ("", {}, []),
        ("filter: {attributes: {type: a, source: ''}}", {"attributes": {"type": "a", "source": ""}}, []),
        ("filters: [], filter: {attributes: {type: a}}", {"attributes": {"type": "a"}}, []),
        ("filters: [{prefix: {type: a}}], filter: {attributes: {type: b}}", {}, [{"prefix": {"attributes": {"type": "a"}}}]),
        (
            "filters: [{any: [{not: {suffix: {subject: z}}}, {cesql: \"type = 'a'\"}]}, {exact: {id: '1'}}]",
            {},
            [
                {
                    "any": {
                        "filters": [
                            {"not": {"filter": {"suffix": {"attributes": {"subject": "z"}}}}},
                            {"cesql": {"expression": "type = 'a'"}},
                        ]
                    }
                },
                {"exact": {"attributes": {"id": "1"}}},
            ],
        ),
    ],
)
def test_filters_go_into_the_contract(spec: str, filter_: dict[str, Any], dialected: list[Any]) -> None:
    one = egress(settled(BROKER, trigger(spec)))
    assert one.filter == filter_
    assert list(one.dialected_filter) == dialected


@pytest.mark.spec("CP-X4", "CP-X7")
@pytest.mark.parametrize(
    ("of_broker", "of_trigger", "wanted"),
    [
        ("", "", {"retry": 10, "backoffDelay": "200"}),
        ("delivery: {retry: 3}", "", {"retry": 3, "backoffDelay": "200"}),
        (
            "delivery: {retry: 3, deadLetterSink: {uri: 'http://dead/'}}",
            "delivery: {timeout: PT2S}",
            {"backoffDelay": "200", "timeout": "2000"},
        ),
        (
            "delivery: {retry: 0}",
            "delivery: {retry: 1, backoffPolicy: linear, backoffDelay: PT1S, retryAfterMax: PT5S, format: json}",
            {
                "retry": 1,
                "backoffPolicy": "Linear",
                "backoffDelay": "1000",
                "format": "json",
                "headrace": {"retryAfterMax": 5000},
            },
        ),
        (
            "delivery: {retry: 2, deadLetterSink: {uri: 'http://dead/'}}",
            "",
            {"retry": 2, "backoffDelay": "200", "deadLetter": "http://dead/"},
        ),
    ],
)
def test_a_triggers_delivery_replaces_the_brokers_as_a_whole(of_broker: str, of_trigger: str, wanted: dict[str, Any]) -> None:
    home = settled(broker(of_broker), trigger(of_trigger))
    assert home.verdict(T) == ("True", "")
    assert to_json(egress(home).egress_config) == wanted


@pytest.mark.spec("CP-X4")
def test_the_delivery_matrix_of_knatives_tests() -> None:
    dead, own = "deadLetterSink: {uri: 'http://dead/'}", "deadLetterSink: {uri: 'http://own/'}"
    table = [
        ("", "", (10, "")),
        (f"delivery: {{{dead}, retry: 3}}", "", (3, "http://dead/")),
        ("delivery: {retry: 0}", f"delivery: {{{own}, retry: 3}}", (3, "http://own/")),
        ("delivery: {retry: 0}", "delivery: {retry: 1}", (1, "")),
        (f"delivery: {{{dead}, retry: 1}}", f"delivery: {{{own}, retry: 3}}", (3, "http://own/")),
        (f"delivery: {{{dead}, retry: 1}}", "", (1, "http://dead/")),
    ]
    for of_broker, of_trigger, wanted in table:
        config = egress(settled(broker(of_broker), trigger(of_trigger))).egress_config
        assert (config.retry, config.dead_letter) == wanted


def test_the_homes_default_delivery_can_be_none() -> None:
    config = egress(settled(BROKER, TRIGGER, settings=Settings(HOME_KAFKA, delivery=None))).egress_config
    assert (config.retry, config.backoff_policy, config.backoff_delay) == (0, BackoffPolicy.EXPONENTIAL, 200)


@pytest.mark.parametrize(
    ("annotations", "order", "extras"),
    [
        ("", DeliveryOrder.UNORDERED, {}),
        ("kafka.eventing.knative.dev/delivery.order: ordered", DeliveryOrder.ORDERED, {}),
        ("kafka.eventing.knative.dev/delivery.order: unordered", DeliveryOrder.UNORDERED, {}),
        ("kafka.eventing.knative.dev/delivery.order: key", DeliveryOrder.KEY, {"order": "KEY"}),
        ("headrace.dev/paused: 'true'", DeliveryOrder.UNORDERED, {"paused": True}),
        ("headrace.dev/max-rate: '2.5'", DeliveryOrder.UNORDERED, {"maxRate": 2.5}),
        ("headrace.dev/max-in-flight: '3'", DeliveryOrder.UNORDERED, {"maxInFlight": 3}),
        ("headrace.dev/on-undeliverable: park", DeliveryOrder.UNORDERED, {"onUndeliverable": "park"}),
        ("headrace.dev/hop-limit: '4'", DeliveryOrder.UNORDERED, {"hopLimit": 4}),
    ],
)
def test_annotations_go_into_the_contract(annotations: str, order: DeliveryOrder, extras: dict[str, Any]) -> None:
    one = egress(settled(BROKER, trigger(annotations=annotations)))
    assert one.order is order
    assert one.headrace == {"initialised": True, **extras}


def test_what_the_peer_does_not_know_as_order_is_ordered_for_it() -> None:
    one = egress(settled(BROKER, trigger(annotations="kafka.eventing.knative.dev/delivery.order: key")))
    assert one.delivery_order is DeliveryOrder.ORDERED


def test_a_brokers_hop_limit_holds_for_its_triggers_unless_they_have_their_own() -> None:
    limited = broker(annotations="headrace.dev/hop-limit: '9'")
    assert egress(settled(limited, TRIGGER)).headrace["hopLimit"] == 9
    assert egress(settled(limited, trigger(annotations="headrace.dev/hop-limit: '2'"))).headrace["hopLimit"] == 2


def test_a_paused_trigger_says_so() -> None:
    home = settled(BROKER, trigger(annotations="headrace.dev/paused: 'true'"))
    assert home.verdict(T) == ("True", "")
    assert home.condition(T, "Paused")["severity"] == "Info"


DEPENDS = 'knative.dev/dependency: \'{"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "other"}\''


def test_a_trigger_waits_for_what_it_depends_on() -> None:
    home = settled(BROKER, trigger(annotations=DEPENDS))
    assert home.verdict(T) == ("False", "DependencyDoesNotExist")
    assert home.resource(T) is None
    home.receivers = ("r1", "r2")
    home.hold("r2")
    home.apply(BROKER.replace("name: b", "name: other"))
    home.settle()
    assert home.verdict(T, "DependencyReady")[1] == "DependencyNotReady"
    home.release()
    home.settle()
    assert home.verdict(T) == ("True", "")


def test_a_broker_in_another_namespace_by_reference() -> None:
    home = FakeHome()
    home.apply(BROKER.replace("name: b", "name: b, namespace: far"))
    raw = trigger().replace("broker: b", "brokerRef: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: b}")
    home.apply(raw.replace("name: t", "name: t, namespace: far", 1))
    home.settle()
    (key,) = [key for key in home.objects if key.kind == "Trigger"]
    assert home.verdict(key) == ("True", "")


@pytest.mark.spec("CP-R4")
def test_two_triggers_with_one_destination_are_two_lanes() -> None:
    home = settled(BROKER, TRIGGER, TRIGGER.replace("name: t", "name: u"))
    egresses = [one for record in home.contract.values() for one in record.resource.egresses]
    assert [one.destination for one in egresses] == [SINK, SINK]
    assert len({one.uid for one in egresses}) == len({one.consumer_group for one in egresses}) == 2


def test_replies_go_back_to_the_brokers_own_topic() -> None:
    one = egress(settled(BROKER, TRIGGER))
    assert one.reply_to_original_topic
    assert not one.reply_url
    assert not one.discard_reply


def test_what_the_data_plane_says_of_a_lane_is_told_for_information() -> None:
    from headrace.core.heartbeat import LaneReport

    home = settled(BROKER, TRIGGER)
    home.driver_lanes = {home.uid(T): {"PositionLost": "from 5 on", "GroupHasMembers": "somebody consumes"}}
    home.lane_reports = {home.uid(T): LaneReport(state="PARKED", retrying=1, oldest_ms=61_000, last_error="HTTP 503")}
    home.settle()
    assert home.verdict(T) == ("True", "")
    assert home.verdict(T, "PositionLost") == ("True", "RetentionOrLoss")
    assert home.verdict(T, "GroupHasMembers") == ("True", "ForeignMembers")
    assert home.verdict(T, "Lagging") == ("True", "CatchingUp")
    assert home.condition(T, "Stalled")["message"] == "no progress for a minute: HTTP 503"
    assert {home.condition(T, name)["severity"] for name in ("PositionLost", "Lagging", "Stalled")} == {"Info"}
    home.driver_lanes, home.lane_reports = {}, {}
    home.settle()
    assert home.condition(T, "Lagging") == {}
    assert home.verdict(T, "PositionLost") == ("True", "RetentionOrLoss"), "a loss is not forgotten"


@pytest.mark.parametrize("condition", ["PositionLost", "OffsetsExpired"])
def test_a_lane_that_lost_events_says_so_for_good(condition: str) -> None:
    home = settled(BROKER, TRIGGER)
    home.driver_lanes = {home.uid(T): {condition: "3 are gone"}}
    home.settle()
    home.driver_lanes = {}
    home.settle()
    assert home.verdict(T, "PositionLost") == ("True", "RetentionOrLoss")
    assert home.condition(T, "PositionLost")["message"] == "3 are gone"


def test_a_lane_that_is_behind_and_gets_no_slots_stalls_while_those_that_are_served_are_ready() -> None:
    from headrace.core.heartbeat import LaneReport

    home = settled(BROKER, TRIGGER)
    [topic] = {record.resource.topics[0] for record in home.contract.values()}
    home.shortages = {topic: "InsufficientSlots"}
    home.settle()
    assert home.verdict(T) == ("True", "")
    assert home.condition(T, "Stalled") == {}
    home.lane_reports = {home.uid(T): LaneReport(state="PARKED")}
    home.settle()
    assert home.verdict(T) == ("True", "")
    assert home.verdict(T, "Stalled") == ("True", "InsufficientSlots")


def test_an_egress_that_a_worker_refuses_is_not_ready() -> None:
    home = FakeHome()
    home.apply(BROKER + "---" + TRIGGER)
    home.closed = {"uid-2": "egress.destinationAudience is not supported"}
    home.settle()
    assert home.verdict(T) == ("False", "EgressClosed")
    assert "egress.destinationAudience is not supported" in home.condition(T)["message"]


@pytest.mark.parametrize(("problem", "reason"), [("InsufficientSlots", "InsufficientSlots"), ("Whatever", "DispatcherProblem")])
def test_a_query_that_cannot_run_is_a_reason(problem: str, reason: str) -> None:
    home = FakeHome()
    home.apply(BROKER + "---" + TRIGGER)
    home.problems = {"knative-broker-default-b": problem}
    home.settle()
    assert home.verdict(T) == ("False", reason)
    home.problems = {}
    home.settle()
    assert home.verdict(T) == ("True", "")
    home.problems = {"knative-broker-default-b": problem}
    home.settle()
    assert home.verdict(T) == ("True", ""), "it passes by itself"
    assert home.verdict(T, "Stalled") == ("True", reason)


def test_without_a_dispatcher_no_trigger_becomes_ready() -> None:
    home = FakeHome()
    home.dispatcher = False
    home.apply(BROKER + "---" + TRIGGER)
    home.settle()
    assert home.verdict(T) == ("False", "NoDispatcher")
    assert home.verdict(B) == ("True", "")


def test_events_that_wait_for_a_token_are_told_at_once_and_until_there_is_one() -> None:
    from headrace.core.heartbeat import LaneReport

    home = settled(BROKER, TRIGGER)
    home.lane_reports = {home.uid(T): LaneReport(in_flight=1, blocked="no token for a: nobody answers")}
    home.settle()
    assert home.verdict(T) == ("True", "")
    assert home.verdict(T, "Stalled") == ("True", "NoToken")
    assert home.condition(T, "Stalled")["message"] == "its events wait: no token for a: nobody answers"
    home.lane_reports = {home.uid(T): LaneReport(in_flight=1)}
    home.settle()
    assert "Stalled" not in {one["type"] for one in home.status(T)["conditions"]}
