"""Whatever happens in whatever order: it settles, nothing is Ready too early, and everything can be removed again."""

from __future__ import annotations

import copy
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.control.model import DeleteTopic, TopicFacts, WriteInitialPositions
from headrace.control.reconcile import reconcile
from tests.unit.control.fakehome import FakeHome
from tests.unit.control.manifests import BROKER, CHANNEL, KAFKA_CHANNEL, OVER_CHANNEL, SUBSCRIPTION, TRIGGER

MANIFESTS = (
    BROKER,
    BROKER.replace("name: b", "name: d"),
    TRIGGER,
    TRIGGER.replace("name: t", "name: u").replace(
        "uri: 'http://sink/'", "ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: d}"
    ),
    KAFKA_CHANNEL,
    SUBSCRIPTION,
    CHANNEL,
    OVER_CHANNEL.replace("name: s", "name: o"),
)


def _apply(text: str) -> Callable[[FakeHome], None]:
    def act(home: FakeHome) -> None:
        try:
            home.apply(text)
        except KeyError:
            return

    return act


def _delete(index: int) -> Callable[[FakeHome], None]:
    def act(home: FakeHome) -> None:
        keys = sorted(home.objects)
        if keys:
            home.delete(keys[index % len(keys)])

    return act


def _kafka(down: str) -> Callable[[FakeHome], None]:
    def act(home: FakeHome) -> None:
        home.kafka_down = down

    return act


def _grow(home: FakeHome) -> None:
    home.topics = {key: TopicFacts(facts.topic_id, facts.partitions + 1) for key, facts in home.topics.items()}


def _lose(home: FakeHome) -> None:
    left = {uid: {p: topic for p, topic in written.items() if p} for uid, written in home.positions.items()}
    home.positions = {uid: written for uid, written in left.items() if written}


def _refuse(home: FakeHome) -> None:
    home.refuse = {WriteInitialPositions: "no leader", DeleteTopic: "not controller"}


def _calm(home: FakeHome) -> None:
    home.release()
    home.refuse = {}
    home.kafka_down = ""
    home.receivers, home.dispatcher = ("r1",), True


def _silent(home: FakeHome) -> None:
    home.receivers, home.dispatcher = (), False


STEPS = st.one_of(
    st.sampled_from(MANIFESTS).map(_apply),
    st.sampled_from(MANIFESTS).map(_apply),
    st.integers(0, 20).map(_delete),
    st.sampled_from(["", "away"]).map(_kafka),
    st.sampled_from(
        [_grow, _lose, _refuse, _calm, _silent, lambda home: home.hold("workers"), lambda home: home.hold("r1"), FakeHome.round]
    ),
)


@given(st.lists(STEPS, min_size=1, max_size=14))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_it_settles_is_never_ready_too_early_and_leaves_nothing_behind(steps: list[Callable[[FakeHome], object]]) -> None:
    home = FakeHome()
    for step in steps:
        step(home)
        _settle(home)
        _check(home)
    _calm(home)
    for key in list(home.objects):
        if key in home.objects:
            home.delete(key)
    _settle(home)
    home.now += 1_000
    _settle(home)
    assert (home.objects, home.contract, home.topics, home.positions) == ({}, {}, {}, {})
    assert home.groups == set()


def _settle(home: FakeHome) -> None:
    home.now += 1
    home.settle(100)


def _check(home: FakeHome) -> None:
    for key, raw in home.objects.items():
        _check_conditions(raw.get("status", {}).get("conditions", []))
        if key.kind in ("Trigger", "Subscription") and home.verdict(key)[0] == "True":
            resource = home.resource(key)
            assert resource is not None, key
            assert (
                home.positions.get(home.uid(key)) or "PositionLost" in str(raw["status"]) or home.refuse or home.kafka_down
            ), key
        if key.kind in ("Broker", "KafkaChannel") and home.verdict(key)[0] == "True":
            assert home.resource(key) is not None, key
            assert raw["status"]["address"]["url"], key


def _check_conditions(conditions: list[dict[str, str]]) -> None:
    types = [item["type"] for item in conditions]
    assert len(types) == len(set(types)), "ES-1"
    assert not types or types[-1] == "Ready", "ES-3"
    for item in conditions:
        assert item["status"] == "True" or (item.get("reason") and item.get("message")), f"ES-5: {item}"


@given(st.lists(STEPS, min_size=1, max_size=8))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_reconcile_changes_nothing_that_it_is_shown_and_says_the_same_twice(steps: list[Callable[[FakeHome], object]]) -> None:
    home = FakeHome()
    for step in steps:
        step(home)
        home.round()
        observed = home.observed()
        before = copy.deepcopy((observed.objects, observed.contract, observed.positions, observed.failures))
        assert reconcile(observed) == reconcile(observed)
        assert (observed.objects, observed.contract, observed.positions, observed.failures) == before
