"""Identities of Kafkas: a changed Secret is noticed, one that can't be had for a while changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.base.clock import VirtualClock
from headrace.base.errors import Retriable
from headrace.core.contract import Egress, Reference, Resource
from headrace.dispatcher.identities import Identities
from headrace.dispatcher.selection import TopicPlan, select
from headrace.kafka.settings import Auth, KafkaSettings

SECRET = Reference(namespace="ns", name="s", version="1")
RESOURCE = Resource(
    uid="r",
    topics=("t",),
    bootstrap_servers="other:9092",
    auth_secret=SECRET,
    egresses=(Egress(uid="e", destination="http://x"),),
)


class Secrets:
    """One Secret, and how often it was asked for."""

    def __init__(self) -> None:
        self.password = "first"
        self.asked = 0

    def __call__(self, reference: Reference) -> Auth:
        self.asked += 1
        if not self.password:
            raise Retriable("not there", subject=f"secret/{reference.name}")
        return Auth.from_secret({"protocol": "SASL_PLAINTEXT", "user": "u", "password": self.password})


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def secrets() -> Secrets:
    return Secrets()


@pytest.fixture
def identities(secrets: Secrets, clock: VirtualClock) -> Identities:
    return Identities(secrets, clock)


def plan(identities: Identities, resource: Resource = RESOURCE) -> TopicPlan:
    return select([resource], (), KafkaSettings("own:9092"), identities, lambda resource, egress: "")["t"]


def test_a_changed_secret_makes_another_plan(identities: Identities, secrets: Secrets, clock: VirtualClock) -> None:
    before = plan(identities)
    secrets.password = "second"
    clock.advance(31.0)
    after = plan(identities)
    assert before.settings != after.settings
    assert set(after.lanes) == {"e"}


def test_a_new_version_of_a_secret_is_asked_for_at_once(identities: Identities, secrets: Secrets) -> None:
    before = plan(identities)
    secrets.password = "second"
    after = plan(identities, replace(RESOURCE, auth_secret=replace(SECRET, version="2")))
    assert before.settings != after.settings


def test_a_secret_that_cant_be_had_for_a_while_closes_nothing(
    identities: Identities, secrets: Secrets, clock: VirtualClock
) -> None:
    before = plan(identities)
    secrets.password = ""
    clock.advance(31.0)
    assert plan(identities) == before
    clock.advance(3.0)
    secrets.password = "second"
    assert plan(identities).settings != before.settings


def test_a_secret_that_was_never_had_closes_its_egresses_and_says_why(identities: Identities, secrets: Secrets) -> None:
    secrets.password = ""
    closed = plan(identities)
    assert not closed.lanes
    assert "not there" in closed.closed["e"]


def test_a_secret_is_not_asked_for_at_every_turn(identities: Identities, secrets: Secrets, clock: VirtualClock) -> None:
    for _ in range(20):
        plan(identities)
        clock.advance(1.0)
    assert secrets.asked == 1
