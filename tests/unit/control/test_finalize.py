"""The way out: dropped from the contract, let go of by the data plane, removed from Kafka, forgotten. In that order, and only then."""

from __future__ import annotations

import pytest

from headrace.control.model import DeleteGroup, DeleteTopic, DropPositions, ObjectKey, RemoveFinalizer, SettleGroup
from tests.unit.control.fakehome import FakeHome
from tests.unit.control.manifests import (
    BACKING,
    BROKER,
    CHANNEL,
    KAFKA_CHANNEL,
    OVER_CHANNEL,
    SUBSCRIPTION,
    TRIGGER,
    B,
    C,
    K,
    S,
    T,
)

CONFIGURED = """
apiVersion: v1
kind: Secret
metadata: {name: sec}
stringData: {protocol: PLAINTEXT}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: cm}
data: {bootstrap.servers: 'k:9092', auth.secret.ref.name: sec}
---
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: b}
spec: {config: {apiVersion: v1, kind: ConfigMap, name: cm}}
"""
SECRET, CONFIG_MAP = ObjectKey("", "Secret", "default", "sec"), ObjectKey("", "ConfigMap", "default", "cm")


def settled(*manifests: str) -> FakeHome:
    home = FakeHome()
    for text in manifests:
        home.apply(text)
    home.settle()
    home.log.clear()
    return home


def names(home: FakeHome) -> list[str]:
    return [type(action).__name__ for action in home.log]


def test_a_broker_goes_step_by_step() -> None:
    home = settled(BROKER)
    home.hold("r1")
    home.delete(B)
    home.settle()
    assert home.contract == {}
    assert home.log == []
    assert home.verdict(B) == ("False", "Deleting")
    assert home.condition(B)["message"] == "receivers still hold it"
    home.release()
    home.settle()
    assert names(home) == ["DeleteTopic", "RemoveFinalizer"]
    assert home.objects == {}
    assert home.topics == {}


def test_a_receiver_that_died_is_not_waited_for_beyond_its_lease() -> None:
    home = settled(BROKER)
    home.hold("r1")
    home.delete(B)
    plan = home.settle()
    assert plan.again_at is not None
    assert plan.again_at - home.now == pytest.approx(home.settings.lease_s, abs=0.01)
    home.receivers = ()
    home.settle()
    assert home.objects == {}


def test_the_topic_stays_while_a_worker_delivers_from_it() -> None:
    home = settled(BROKER, TRIGGER)
    home.hold("workers")
    home.delete(B)
    home.settle()
    assert home.contract == {}
    assert home.verdict(T) == ("False", "BrokerDoesNotExist")
    assert home.condition(B)["message"] == "workers still deliver from it"
    assert home.done(DeleteTopic) == []
    home.release()
    home.settle()
    assert home.objects.keys() == {T}
    assert names(home)[0] == "DeleteTopic"


@pytest.mark.spec("CP-T8")
def test_a_trigger_goes_step_by_step_and_its_group_with_it() -> None:
    home = settled(BROKER, TRIGGER)
    home.hold("workers")
    home.delete(T)
    home.settle()
    assert home.resource(B) is not None
    assert len(home.contract) == 1
    assert home.log == []
    assert home.condition(T)["message"] == "workers still deliver for it"
    home.release()
    home.settle()
    assert names(home) == ["DeleteGroup", "DropPositions", "RemoveFinalizer"]
    assert home.groups == set()
    assert home.positions == {}
    assert home.objects.keys() == {B}


def test_the_group_of_a_trigger_stays_until_the_driver_writes_to_it_no_more() -> None:
    home = settled(BROKER, TRIGGER)
    home.driver_at = home.end
    home.delete(T)
    home.settle()
    assert home.log == []
    assert home.groups == {"knative-trigger-default-t"}
    home.driver_at = None
    home.settle()
    assert names(home) == ["DeleteGroup", "DropPositions", "RemoveFinalizer"]


def test_a_trigger_that_keeps_its_position_leaves_its_group_settled() -> None:
    kept = TRIGGER.replace("name: t", "name: t, annotations: {headrace.dev/keep-position: 'true'}")
    home = settled(BROKER, kept)
    home.delete(T)
    home.settle()
    assert names(home) == ["SettleGroup", "DropPositions", "RemoveFinalizer"]
    assert home.groups == {"knative-trigger-default-t"}
    assert home.done(SettleGroup)[0].group == "knative-trigger-default-t"


def test_what_was_asked_for_last_counts_for_the_group() -> None:
    home = settled(BROKER, TRIGGER)
    home.apply(TRIGGER.replace("name: t", "name: t, annotations: {headrace.dev/keep-position: 'true'}"))
    home.delete(T)
    home.settle()
    assert names(home)[0] == "SettleGroup"


def test_a_trigger_whose_broker_went_first_still_finds_its_group() -> None:
    home = settled(BROKER, TRIGGER)
    home.delete(B)
    home.settle()
    assert home.objects.keys() == {T}
    home.delete(T)
    home.settle()
    assert home.objects == {}
    assert home.groups == set()


def test_a_trigger_that_never_got_anywhere_goes_at_once() -> None:
    home = settled(TRIGGER)
    home.delete(T)
    home.settle()
    assert names(home) == ["RemoveFinalizer"]
    assert home.objects == {}


def test_an_external_topic_outlives_its_broker() -> None:
    home = FakeHome()
    topic = home.make_topic("theirs")
    home.apply(BROKER.replace("name: b", "name: b, annotations: {kafka.eventing.knative.dev/external.topic: theirs}"))
    home.settle()
    home.delete(B)
    home.settle()
    assert home.objects == {}
    assert topic in home.topics


def test_a_topic_with_another_id_is_not_the_one_that_was_ours() -> None:
    home = settled(BROKER)
    home.delete(B)
    home.round()
    home.round()
    assert [action.topic_id for action in home.done(DeleteTopic)] == ["T1"]


def test_configuration_may_go_first() -> None:
    home = settled(CONFIGURED)
    assert home.verdict(B) == ("True", "")
    home.delete(CONFIG_MAP)
    home.delete(SECRET)
    home.settle()
    assert SECRET in home.objects, "it is needed to delete the topic"
    assert home.resource(B) is not None
    assert home.verdict(B) == ("False", "ConfigMapNotFound")
    home.delete(B)
    home.settle()
    assert home.objects == {}
    assert home.topics == {}


def test_a_secret_is_not_held_by_what_is_gone() -> None:
    home = settled(CONFIGURED)
    raw = home.objects[SECRET]
    home.objects[SECRET] = {
        **raw,
        "metadata": {**raw["metadata"], "finalizers": ["kafka.headrace.dev/long-gone", "example.com/other"]},
    }
    home.settle()
    finalizers = home.objects[SECRET]["metadata"]["finalizers"]
    assert finalizers == ["example.com/other", f"kafka.headrace.dev/{home.uid(B)}"]


def test_with_kafka_out_of_reach_deletion_waits_and_then_gives_up_with_a_notice() -> None:
    home = settled(BROKER, TRIGGER)
    home.kafka_down = "no broker answers"
    home.delete(T)
    home.delete(B)
    home.settle()
    assert home.condition(T)["message"] == "group knative-trigger-default-t is being deleted: no broker answers"
    assert home.condition(B)["message"] == "topic knative-broker-default-b is being deleted: no broker answers"
    home.now += home.settings.give_up_s
    home.settle()
    assert home.objects == {}
    assert {notice.reason for notice in home.notices} == {"TopicLeftBehind", "GroupLeftBehind"}
    assert all(notice.warning for notice in home.notices)
    assert home.positions == {}


def test_with_kafka_back_in_time_everything_is_removed() -> None:
    home = settled(BROKER, TRIGGER)
    home.kafka_down = "no broker answers"
    home.delete(T)
    home.delete(B)
    home.settle()
    home.kafka_down = ""
    home.now += 70
    home.settle()
    assert (home.objects, home.topics, home.groups) == ({}, {}, set())
    assert home.notices == []


def test_a_subscription_goes_when_its_channel_has_let_go_of_it() -> None:
    home = settled(KAFKA_CHANNEL, SUBSCRIPTION)
    uid = home.uid(S)
    home.hold("workers")
    home.delete(S)
    home.settle()
    assert home.objects[K]["spec"]["subscribers"] == []
    assert home.verdict(S) == ("False", "Deleting")
    assert home.condition(S)["message"] == "kafkachannel/default/k has not let go of it yet"
    assert home.done(DeleteGroup) == []
    home.release()
    home.settle()
    assert home.objects.keys() == {K}
    assert home.groups == set()
    assert home.positions == {}
    assert [type(action).__name__ for action in home.log if not isinstance(action, RemoveFinalizer)] == [
        "PatchObject",
        "DeleteGroup",
        "DropPositions",
    ]
    assert f"headrace.dev/lane.{uid}" not in home.status(K)["annotations"]
    assert "subscribers" not in home.status(K)


def test_a_kafka_channel_takes_the_groups_of_its_subscriptions_with_it() -> None:
    home = settled(KAFKA_CHANNEL, SUBSCRIPTION)
    home.delete(K)
    home.settle()
    assert home.objects.keys() == {S}
    assert (home.topics, home.groups, home.positions) == ({}, set(), {})
    assert home.verdict(S) == ("False", "ChannelReferenceFailed")
    home.delete(S)
    home.settle()
    assert home.objects == {}


def test_a_channel_takes_the_channel_behind_it_along() -> None:
    home = settled(CHANNEL, OVER_CHANNEL)
    home.delete(C)
    home.round()
    assert home.condition(C)["message"] == "kafkachannel/default/c is being deleted"
    home.settle()
    assert home.objects.keys() == {S}
    assert home.topics == {}
    assert BACKING not in home.objects


def test_everything_at_once() -> None:
    home = settled(CONFIGURED, TRIGGER, CHANNEL, OVER_CHANNEL)
    for key in list(home.objects):
        home.delete(key)
    home.settle()
    assert (home.objects, home.topics, home.groups, home.positions, home.contract) == ({}, {}, set(), {}, {})
    assert DropPositions in {type(action) for action in home.log}


def test_a_group_that_kafka_will_not_delete_is_told_in_the_condition() -> None:
    home = settled(BROKER, TRIGGER)
    home.refuse[DeleteGroup] = "the group has members"
    home.delete(T)
    home.settle()
    assert home.condition(T)["message"] == "group knative-trigger-default-t is being deleted: the group has members"
    home.refuse.clear()
    home.now += 100
    home.settle()
    assert home.objects.keys() == {B}
