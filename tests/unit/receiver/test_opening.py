"""Identities of ingresses: whose Secret is asked for, when again, and whose producer is shared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.base.clock import Deadline, VirtualClock
from headrace.base.errors import Retriable
from headrace.core.contract import Ingress, Reference, Resource
from headrace.kafka.settings import Auth, KafkaSettings
from headrace.receiver.config import Limits, Production
from headrace.receiver.latencies import Latencies
from headrace.receiver.opening import Opener
from headrace.receiver.pool import ProducerPool
from headrace.receiver.producer import KafkaProducer

OWN = KafkaSettings(
    "kafka-0:9092,kafka-1:9092", Auth.from_secret({"protocol": "SASL_PLAINTEXT", "user": "own", "password": "p"})
)
SECRET = Reference(namespace="ns", name="s", version="1")


class Unconnected(KafkaProducer):
    """A producer that goes nowhere."""

    def start(self) -> None:
        """Nothing."""

    def close(self, deadline: Deadline) -> int:
        return 0


class Secrets:
    """The Secrets there are, and how often they were asked for."""

    def __init__(self) -> None:
        self.passwords = {"s": "first"}
        self.asked: list[str] = []

    def __call__(self, reference: Reference) -> Auth:
        self.asked.append(reference.name)
        if reference.name == "broken":
            raise KeyError(reference.name)
        if reference.name not in self.passwords:
            raise Retriable("not there", subject=f"secret/{reference.name}")
        secret = {"protocol": "SASL_PLAINTEXT", "user": "u", "password": self.passwords[reference.name]}
        return Auth.from_secret(secret)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def secrets() -> Secrets:
    return Secrets()


@pytest.fixture
def opener(clock: VirtualClock, secrets: Secrets) -> Opener:
    pool = ProducerPool(Production(), Limits(), clock, make=Unconnected)
    return Opener(OWN, pool, secrets, clock, Latencies)


def resource(uid: str = "a", **changes: Any) -> Resource:
    made = Resource(uid=uid, topics=("t",), bootstrap_servers="other:9092", ingress=Ingress(path=f"/{uid}"))
    return replace(made, **changes)


def settings(opener: Opener, uid: str = "a") -> KafkaSettings:
    producer = opener.table.ingresses[uid].producer
    assert producer is not None
    return producer.settings


def test_our_own_kafka_is_written_to_with_our_own_identity(opener: Opener) -> None:
    opener.open([resource(bootstrap_servers="kafka-1:9092, kafka-0:9092"), resource("b")])
    assert settings(opener) is OWN
    assert settings(opener, "b") == KafkaSettings("other:9092")


def test_a_resource_without_servers_is_at_our_own_kafka(opener: Opener) -> None:
    opener.open([resource(bootstrap_servers=""), resource("b", bootstrap_servers="", auth_secret=SECRET)])
    assert settings(opener) is OWN
    assert (settings(opener, "b").bootstrap_servers, settings(opener, "b").auth.user) == (OWN.bootstrap_servers, "u")


def test_a_secret_is_another_identity_also_at_our_own_kafka(opener: Opener) -> None:
    opener.open([resource(bootstrap_servers=OWN.bootstrap_servers, auth_secret=SECRET)])
    assert settings(opener).auth.user == "u"


def test_a_secret_is_asked_for_once_for_all_and_again_after_a_while(
    opener: Opener, clock: VirtualClock, secrets: Secrets
) -> None:
    all_of_them = [resource(auth_secret=SECRET), resource("b", auth_secret=SECRET)]
    opener.open(all_of_them)
    opener.open(all_of_them)
    assert secrets.asked == ["s"]
    secrets.passwords["s"] = "second"
    clock.advance(30)
    opener.open(all_of_them)
    assert secrets.asked == ["s", "s"]
    assert settings(opener).auth.password == settings(opener, "b").auth.password == "second"


def test_another_version_of_a_secret_is_asked_for_at_once(opener: Opener, secrets: Secrets) -> None:
    opener.open([resource(auth_secret=SECRET)])
    opener.open([resource(auth_secret=replace(SECRET, version="2"))])
    assert secrets.asked == ["s", "s"]


def test_a_secret_that_is_gone_leaves_the_identity_in_force(opener: Opener, clock: VirtualClock, secrets: Secrets) -> None:
    opener.open([resource(auth_secret=SECRET)])
    secrets.passwords.clear()
    clock.advance(30)
    opener.open([resource(auth_secret=SECRET)])
    assert settings(opener).auth.password == "first"
    assert opener.unsettled


@pytest.mark.parametrize("name", ["absent", "broken"])
def test_a_secret_that_can_not_be_had_closes_its_ingress_only(opener: Opener, name: str) -> None:
    opener.open([resource(auth_secret=replace(SECRET, name=name)), resource("b")])
    seen = [(opener.table.serving, opener.unsettled, opener.has_secrets)]
    opener.open([resource("b")])
    seen.append((opener.table.serving, opener.unsettled, opener.has_secrets))
    assert seen == [(("b",), True, True), (("b",), False, False)]
