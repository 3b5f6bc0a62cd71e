from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.control.model import CreateTopic, KafkaRef, ObjectKey, TopicKey
from headrace.control.settings import Settings
from headrace.core.contract import Reference
from tests.unit.control.fakehome import HOME_KAFKA, START, FakeHome
from tests.unit.control.manifests import BROKER, TRIGGER, B, T, eventing

CONFIGURED = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: b}
spec: {config: {apiVersion: v1, kind: ConfigMap, name: cm}}
"""
CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: cm}
data: {%s}
"""
SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: sec}
stringData: {protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, user: u, password: p}
"""
EXTERNAL = BROKER.replace("name: b", "name: b, annotations: {kafka.eventing.knative.dev/external.topic: theirs}")
OURS = TopicKey(HOME_KAFKA, "knative-broker-default-b")


@pytest.mark.spec("CP-B1", "CP-B3", "CP-D5", "CP-X2", "ES-1", "ES-2", "ES-3")
def test_a_broker_gets_a_topic_an_ingress_an_address_and_is_ready() -> None:
    home = FakeHome()
    home.apply(BROKER)
    home.settle()
    status = home.status(B)
    assert home.verdict(B) == ("True", "")
    assert status["observedGeneration"] == 1
    assert status["address"] == {"name": "http", "url": "http://127.0.0.1:8080/default/b"}
    assert [item["type"] for item in status["conditions"]] == [
        "Addressable",
        "DataPlaneAvailable",
        "TopicReady",
        "ConfigMapUpdated",
        "ConfigParsed",
        "ProbeSucceeded",
        "EventPoliciesReady",
        "Ready",
    ]
    assert {item["status"] for item in status["conditions"]} == {"True"}
    assert {item["lastTransitionTime"] for item in status["conditions"]} == {"2027-01-15T08:00:00Z"}
    resource = home.resource(B)
    assert resource is not None
    assert (resource.topics, resource.bootstrap_servers) == (("knative-broker-default-b",), "127.0.0.1:9092")
    assert resource.ingress is not None
    assert resource.ingress.path == "/default/b"
    assert not resource.absent_auth
    assert resource.auth_secret is None


def test_nothing_is_made_before_the_object_has_its_finalizer() -> None:
    home = FakeHome()
    home.apply(BROKER)
    plan = home.round()
    assert [type(action).__name__ for steps in plan.steps for action in steps.actions] == ["AddFinalizer"]
    assert plan.contract == {}


def test_a_broker_without_config_gets_the_defaults_of_the_home() -> None:
    home = FakeHome(Settings(HOME_KAFKA, partitions=5, replication=2, retention_ms=1_000))
    home.apply(BROKER)
    home.settle()
    assert home.done(CreateTopic) == [CreateTopic(OURS, 5, 2, (("retention.ms", "1000"),))]
    assert home.status(B)["annotations"]["default.topic.partitions"] == "5"
    assert home.status(B)["annotations"]["default.topic.replication.factor"] == "2"


def test_a_config_map_says_where_and_how() -> None:
    home = FakeHome()
    home.apply(CONFIGURED)
    data = (
        "bootstrap.servers: 'k1:9092, k2:9092', default.topic.partitions: '4', default.topic.replication.factor: '3', "
        "default.topic.config.retention.ms: '5', default.topic.config.cleanup.policy: delete, _example: '#'"
    )
    home.apply(CONFIG_MAP % data)
    home.settle()
    key = TopicKey(KafkaRef("k1:9092,k2:9092"), "knative-broker-default-b")
    assert home.done(CreateTopic) == [CreateTopic(key, 4, 3, (("cleanup.policy", "delete"), ("retention.ms", "5")))]
    assert home.verdict(B) == ("True", "")
    resource = home.resource(B)
    assert resource is not None
    assert resource.absent_auth, "another Kafka, opened with nothing"


@pytest.mark.parametrize(
    ("data", "reason", "text"),
    [
        (
            "default.topic.partitions: many",
            "ConfigInvalid",
            "default.topic.partitions: expected a whole number from 1",
        ),
        ("default.topic.partitions: '0'", "ConfigInvalid", "got 0"),
        ("default.topic.replication.factor: '-1'", "ConfigInvalid", "got -1"),
        ("bootstrap.servers: kafka", "ConfigInvalid", "expected host:port, got kafka"),
        ("bootstrap.servers: 'kafka:0'", "ConfigInvalid", "expected host:port"),
    ],
)
@pytest.mark.spec("ES-4", "ES-5", "ES-6")
def test_a_bogus_config_map_is_named(data: str, reason: str, text: str) -> None:
    home = FakeHome()
    home.apply(CONFIGURED + "---" + CONFIG_MAP % data)
    home.settle()
    assert home.verdict(B) == ("False", reason)
    assert text in home.condition(B, "ConfigParsed")["message"]
    assert home.contract == {}


def test_a_config_map_that_does_not_exist_is_named_and_waited_for() -> None:
    home = FakeHome()
    home.apply(CONFIGURED)
    home.settle()
    assert home.verdict(B) == ("False", "ConfigMapNotFound")
    assert home.condition(B)["message"] == "configmap/default/cm does not exist"
    home.apply(CONFIG_MAP % "default.topic.partitions: '1'")
    home.settle()
    assert home.verdict(B) == ("True", "")


def test_a_config_map_that_was_not_looked_up_yet_is_asked_for() -> None:
    home = FakeHome()
    home.looked_up = frozenset()
    home.apply(CONFIGURED)
    plan = home.settle()
    assert home.verdict(B, "ConfigParsed") == ("Unknown", "ConfigNotLookedUp")
    assert ObjectKey("", "ConfigMap", "default", "cm") in plan.references


def test_no_kafka_anywhere_is_a_fault_of_the_configuration() -> None:
    home = FakeHome(Settings(None))
    home.apply(BROKER)
    home.settle()
    assert home.verdict(B) == ("False", "BootstrapServersMissing")


def test_a_secret_goes_into_the_contract_by_reference() -> None:
    home = FakeHome()
    home.apply(CONFIGURED + "---" + CONFIG_MAP % "auth.secret.ref.name: sec" + "---" + SECRET)
    home.settle()
    assert home.verdict(B) == ("True", "")
    resource = home.resource(B)
    assert resource is not None
    secret = home.objects[ObjectKey("", "Secret", "default", "sec")]["metadata"]
    assert resource.auth_secret == Reference(
        uuid=secret["uid"], namespace="default", name="sec", version=secret["resourceVersion"]
    )
    assert home.status(B)["annotations"]["auth.secret.ref.name"] == "sec"


def test_a_missing_secret_is_named_and_waited_for() -> None:
    home = FakeHome()
    home.apply(CONFIGURED + "---" + CONFIG_MAP % "auth.secret.ref.name: sec")
    home.settle()
    assert home.verdict(B) == ("False", "SecretNotFound")
    assert "secret/default/sec" in home.condition(B)["message"]
    home.apply(SECRET)
    home.settle()
    assert home.verdict(B) == ("True", "")


def test_a_secret_that_cannot_be_used_is_named_without_its_values() -> None:
    home = FakeHome()
    home.apply(CONFIGURED + "---" + CONFIG_MAP % "auth.secret.ref.name: sec")
    home.apply(SECRET.replace("PLAIN,", "ROT13,").replace("password: p", "password: hunter2"))
    home.settle()
    assert home.verdict(B) == ("False", "SecretInvalid")
    assert "sasl.mechanism" in home.condition(B)["message"]
    assert "hunter2" not in str(home.status(B))


def test_an_external_topic_is_used_and_never_made() -> None:
    home = FakeHome()
    home.apply(EXTERNAL)
    home.settle()
    assert home.verdict(B) == ("False", "ExternalTopicNotFound")
    assert home.done(CreateTopic) == []
    home.make_topic("theirs", 7)
    home.settle()
    assert home.verdict(B) == ("True", "")
    assert home.status(B)["annotations"]["default.topic.partitions"] == "7"


def test_a_broker_whose_external_topic_vanished_is_not_ready_any_more() -> None:
    home = FakeHome()
    topic = home.make_topic("theirs")
    home.apply(EXTERNAL)
    home.settle()
    del home.topics[topic]
    home.settle()
    assert home.verdict(B) == ("False", "ExternalTopicNotFound")


def test_what_kafka_says_about_a_topic_it_will_not_create_is_told_and_tried_again_with_patience() -> None:
    home = FakeHome()
    home.refuse[CreateTopic] = "replication factor 3 is larger than the number of brokers"
    home.apply(BROKER)
    home.settle()
    assert home.verdict(B) == ("False", "TopicCreationFailed")
    assert "replication factor 3 is larger" in home.condition(B)["message"]
    plan = home.round()
    assert plan.steps == ()
    assert plan.again_at == START + 2
    home.refuse.clear()
    home.now += 2
    home.settle()
    assert home.verdict(B) == ("True", "")


def test_kafka_out_of_reach_keeps_a_new_broker_waiting_and_an_old_one_ready() -> None:
    home = FakeHome()
    home.apply(BROKER)
    home.kafka_down = "no broker answers"
    home.settle()
    assert home.verdict(B) == ("False", "KafkaUnreachable")
    home.kafka_down = ""
    home.settle()
    home.kafka_down = "no broker answers"
    home.settle()
    assert home.verdict(B) == ("True", "")
    assert home.verdict(B, "TopicReady") == ("True", "KafkaUnreachable")


def test_a_broker_whose_kafka_never_answered_goes_at_once_and_one_with_a_topic_waits_for_it() -> None:
    never, once = FakeHome(), FakeHome()
    for home in (never, once):
        home.apply(BROKER)
    once.settle()
    for home in (never, once):
        home.kafka_down = "no broker answers"
        home.settle()
        home.delete(B)
        home.settle()
    assert B not in never.objects
    assert never.topics == {}
    assert "no broker answers" in once.condition(B)["message"]
    once.kafka_down = ""
    once.settle()
    assert B not in once.objects
    assert once.topics == {}


def test_a_topic_that_somebody_deleted_is_made_again() -> None:
    home = FakeHome()
    home.apply(BROKER)
    home.settle()
    home.topics.clear()
    home.settle()
    assert len(home.done(CreateTopic)) == 2
    assert home.verdict(B) == ("True", "")


def test_a_broker_is_not_ready_before_every_receiver_has_it() -> None:
    home = FakeHome()
    home.receivers = ("r1", "r2")
    home.hold("r2")
    home.apply(BROKER)
    plan = home.settle()
    assert home.verdict(B, "ConfigMapUpdated") == ("True", "")
    assert home.verdict(B) == ("Unknown", "ReceiverNotUpToDate")
    assert home.condition(B)["message"] == "not applied yet by receiver r2"
    assert "address" not in home.status(B)
    assert plan.again_at is not None, "a receiver that died reports nothing: its lease ends"
    home.release()
    home.settle()
    assert home.verdict(B) == ("True", "")


def test_no_receiver_no_ready() -> None:
    home = FakeHome()
    home.receivers = ()
    home.apply(BROKER)
    home.settle()
    assert home.verdict(B, "DataPlaneAvailable") == ("False", "NoReceiver")
    assert home.verdict(B)[0] == "False"


def test_an_ingress_that_a_receiver_refuses_is_not_ready() -> None:
    home = FakeHome()
    home.apply(BROKER)
    home.closed = {"uid-1": "ingress.audience is not supported"}
    home.settle()
    assert home.verdict(B, "ProbeSucceeded") == ("False", "IngressClosed")
    assert "ingress.audience is not supported" in home.condition(B, "ProbeSucceeded")["message"]


def test_a_restart_of_the_data_plane_takes_no_ready_away() -> None:
    home = FakeHome()
    home.apply(BROKER + "---" + TRIGGER)
    home.settle()
    before = home.status(B), home.status(T)
    home.receivers, home.dispatcher = (), False
    home.now += 60
    home.settle()
    assert (home.status(B), home.status(T)) == before


def test_a_changed_broker_has_to_be_programmed_again() -> None:
    home = FakeHome()
    home.apply(BROKER)
    home.settle()
    home.hold("r1")
    home.apply(BROKER + "spec: {delivery: {retry: 1}}")
    home.settle()
    assert home.status(B)["observedGeneration"] == 2
    assert home.verdict(B) == ("True", ""), "the record of the ingress did not change: it is applied already"


@pytest.mark.spec("CP-B5")
def test_the_dead_letter_sink_is_resolved_into_the_status_before_ready() -> None:
    home = FakeHome()
    home.apply(
        BROKER + "spec: {delivery: {deadLetterSink: {ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: dead}}}}"
    )
    home.settle()
    assert home.verdict(B) == ("False", "DeadLetterSinkNotResolved")
    assert "broker/default/dead does not exist" in home.condition(B, "ConfigParsed")["message"]
    assert "deadLetterSinkUri" not in home.status(B)
    home.apply(BROKER.replace("name: b", "name: dead"))
    home.settle()
    assert home.verdict(B) == ("True", "")
    assert home.status(B)["deadLetterSinkUri"] == "http://127.0.0.1:8080/default/dead"


def test_brokers_of_other_classes_are_left_alone() -> None:
    home = FakeHome()
    other = BROKER.replace("name: b", "name: b, annotations: {eventing.knative.dev/broker.class: MTChannelBasedBroker}")
    home.apply(other + "---" + TRIGGER)
    home.settle()
    assert home.status(B) == {}
    assert home.status(T) == {}
    assert home.log == []


def test_the_class_may_be_written_in_lower_case() -> None:
    home = FakeHome()
    home.apply(BROKER.replace("name: b", "name: b, annotations: {eventing.knative.dev/broker.class: kafka}"))
    home.settle()
    assert home.verdict(B) == ("True", "")


def test_names_that_would_be_the_same_are_kept_apart_by_uid() -> None:
    home = FakeHome()
    for namespace, name in (("a-b", "c"), ("a", "b-c")):
        home.apply(BROKER.replace("name: b", f"name: {name}, namespace: {namespace}"))
        home.apply(TRIGGER.replace("name: t", f"name: {name}, namespace: {namespace}").replace("broker: b", f"broker: {name}"))
    home.settle()
    first, second = (home.status(eventing("Broker", *pair))["annotations"] for pair in (("c", "a-b"), ("b-c", "a")))
    assert first["default.topic"] == "knative-broker-a-b-c"
    assert second["default.topic"] == "knative-broker-a-b-c-" + home.uid(eventing("Broker", "b-c", "a"))[:8]
    groups = {home.status(eventing("Trigger", *pair))["annotations"]["group.id"] for pair in (("c", "a-b"), ("b-c", "a"))}
    assert len(groups) == 2
    home.settle()
    assert home.status(eventing("Broker", "b-c", "a"))["annotations"]["default.topic"] == second["default.topic"]


def test_a_name_too_long_for_kafka_is_cut_and_made_unique() -> None:
    home = FakeHome()
    name = "n" * 240
    home.apply(BROKER.replace("name: b", f"name: {name}"))
    home.settle()
    topic = home.status(eventing("Broker", name))["annotations"]["default.topic"]
    assert len(topic) <= 249
    assert topic.endswith("-uid-1")


def test_event_types_are_asked_for_where_the_feature_is_on() -> None:
    settings = Settings(HOME_KAFKA)
    home = FakeHome(replace(settings, features=replace(settings.features, eventtype_auto_create=True)))
    home.apply(BROKER)
    home.settle()
    resource = home.resource(B)
    assert resource is not None
    assert resource.feature_flags == {"enableEventTypeAutocreate": True}


def test_a_stored_object_that_cannot_be_read_is_marked_and_keeps_what_it_has() -> None:
    home = FakeHome()
    home.apply(BROKER + "---" + TRIGGER)
    home.settle()
    raw = home.objects[B]
    home.store(B, {**raw, "spec": {"delivery": {"retry": "many"}}})
    home.settle()
    assert home.verdict(B) == ("False", "InvalidObject")
    assert home.resource(B) is not None
    assert home.resource(T) is not None
    assert home.verdict(T) == ("True", "")


def test_fields_that_a_newer_server_knows_do_no_harm() -> None:
    home = FakeHome()
    home.apply(BROKER)
    home.objects[B]["spec"] = {"novelty": {"a": 1}, "delivery": {"retry": 1, "novelty": True}}
    home.settle()
    assert home.verdict(B) == ("True", "")
