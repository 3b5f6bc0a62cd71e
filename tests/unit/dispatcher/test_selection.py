"""Which topics a dispatcher serves, with which lanes, and by whose identity."""

from __future__ import annotations

import pytest

from headrace.base.errors import Terminal, UsageError
from headrace.core.contract import Egress, Ingress, Reference, Resource
from headrace.dispatcher.config import ContractSource, Only, no_secrets
from headrace.dispatcher.selection import select, settings_of
from headrace.kafka.settings import Auth, KafkaSettings

KAFKA = KafkaSettings("k1:9092,k2:9092")


def broker(name: str, topic: str) -> Resource:
    return Resource(
        uid=f"b-{name}",
        topics=(topic,),
        bootstrap_servers=KAFKA.bootstrap_servers,
        ingress=Ingress(path=f"/ns/{name}"),
        reference=Reference(kind="Broker", namespace="ns", name=name),
    )


def trigger(uid: str, topic: str, servers: str = KAFKA.bootstrap_servers) -> Resource:
    return Resource(
        uid=uid,
        topics=(topic,),
        bootstrap_servers=servers,
        egresses=(Egress(uid=uid, destination="http://x", consumer_group=uid),),
    )


def never(resource: Resource, egress: Egress) -> str:
    return ""


def test_topics_without_egresses_are_not_served() -> None:
    plans = select([broker("a", "ta"), broker("b", "tb"), trigger("t1", "ta")], (), KAFKA, no_secrets, never)
    assert {topic: set(plan.lanes) for topic, plan in plans.items()} == {"ta": {"t1"}}


def test_egresses_of_several_resources_share_their_topic() -> None:
    plans = select([trigger("t1", "ta"), trigger("t2", "ta")], (), KAFKA, no_secrets, never)
    assert set(plans["ta"].lanes) == {"t1", "t2"}


def test_a_closed_egress_is_no_lane_but_is_told() -> None:
    plans = select([trigger("t1", "ta")], (), KAFKA, no_secrets, lambda resource, egress: "audience is not supported")
    assert not plans["ta"].lanes
    assert plans["ta"].closed == {"t1": "audience is not supported"}


def test_only_selects_the_topics_of_what_it_names() -> None:
    resources = [broker("a", "ta"), broker("b", "tb"), trigger("t1", "ta"), trigger("t2", "tb")]
    plans = select(resources, (Only.parse("Broker/ns/b"),), KAFKA, no_secrets, never)
    assert set(plans) == {"tb"}
    assert not select(resources, (Only.parse("Broker/ns/c"),), KAFKA, no_secrets, never)


def test_two_kafkas_with_one_topic_name_are_not_mixed_up() -> None:
    plans = select([trigger("t1", "ta"), trigger("t2", "ta", "other:9092")], (), KAFKA, no_secrets, never)
    assert set(plans["ta"].lanes) == {"t1"}
    assert "served at" in plans["ta"].closed["t2"]


def test_the_own_identity_is_for_the_own_kafka_alone() -> None:
    auth = Auth.from_secret({"protocol": "SASL_PLAINTEXT", "user": "u", "password": "p"}, subject="test")
    own = KafkaSettings("k1:9092,k2:9092", auth)
    assert settings_of(trigger("t", "ta", "k2:9092, k1:9092"), own, no_secrets) == own
    assert settings_of(trigger("t", "ta", ""), own, no_secrets) == own
    assert settings_of(trigger("t", "ta", "other:9092"), own, no_secrets) == KafkaSettings("other:9092")


def test_a_secret_that_nobody_can_look_up_closes_the_topic() -> None:
    resource = Resource(uid="t", topics=("ta",), auth_secret=Reference(namespace="ns", name="s"), egresses=(Egress(uid="t"),))
    plan = select([resource], (), KAFKA, no_secrets, never)["ta"]
    assert plan.settings is None
    assert "can't look Secrets up" in plan.closed["t"]


def test_an_identity_of_several_secrets_is_refused() -> None:
    with pytest.raises(Terminal, match="multiAuthSecret"):
        settings_of(Resource(uid="t", multi_auth_secret={"protocol": "SSL"}), KAFKA, no_secrets)


def test_options_are_checked() -> None:
    assert ContractSource.parse("", "x.contract") == ContractSource("x.contract")
    assert ContractSource.parse("kafka:mine", "x.contract").topic == "mine"
    source = ContractSource.parse("file:/etc/contract.json", "x.contract")
    assert (source.topic, str(source.file)) == ("x.contract", "/etc/contract.json")
    for text in ("file:", "mine", "http://x"):
        with pytest.raises(UsageError):
            ContractSource.parse(text, "x.contract")
    with pytest.raises(UsageError):
        Only.parse("Broker/b")
