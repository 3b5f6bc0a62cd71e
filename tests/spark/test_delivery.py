"""Events through the whole dispatcher: real Kafka, real Spark, real HTTP subscribers. One dispatcher process serves all tests here."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from headrace.dispatcher.mirror import GROUP_HAS_MEMBERS
from headrace.dispatcher.positions import OFFSETS_EXPIRED
from headrace.kafka.settings import KafkaSettings
from tests.conftest import TopicFactory
from tests.spark.dispatcher_process import DispatcherProcess
from tests.spark.plane import Plane, ids, repeated
from tests.support.subscriber import Subscriber, subscriber
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(900)
"""Starting Spark takes long on a busy machine."""


@pytest.fixture(scope="module")
def plane(kafka: KafkaSettings) -> Iterator[Plane]:
    made = Plane(kafka)
    yield made
    made.close()


@pytest.fixture(scope="module")
def dispatcher(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    folder: Path = tmp_path_factory.mktemp("dispatcher")
    process = DispatcherProcess(plane.kafka, plane.instance, folder, {"timing": {"describe": 1.0}}).start()
    process.wait_ready()
    yield process
    assert process.stop() == 0


@pytest.fixture
def subscriptions(plane: Plane) -> Iterator[list[str]]:
    """Uids that are unsubscribed after the test, so that its query ends."""
    uids: list[str] = []
    yield uids
    for uid in uids:
        plane.unsubscribe(uid)


def all_of(server: Subscriber, wanted: list[str], timeout: float = 60.0) -> None:
    """Wait until the subscriber has had each of `wanted`."""
    eventually(lambda: set(wanted) <= set(server.ids), timeout, f"{len(wanted)} events", interval=0.05)


def _served(dispatcher: DispatcherProcess, count: int) -> list[int]:
    """The workers, once those of earlier tests are gone."""
    workers = dispatcher.workers
    return workers if len(workers) == count else []


def test_every_event_reaches_every_subscriber_that_wants_it_once(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic(partitions=3)
    with subscriber() as everything, subscriber() as some:
        subscriptions.append(plane.subscribe(name, everything.url()))
        subscriptions.append(plane.subscribe(name, some.url(), dialected_filter=({"exact": {"attributes": {"type": "b"}}},)))
        plane.wait_ready(*subscriptions, topic=name)
        plane.send(name, ids(50, "a"), kind="a")
        plane.send(name, ids(50, "b"), kind="b")
        all_of(everything, ids(50, "a") + ids(50, "b"))
        all_of(some, ids(50, "b"))
        assert set(some.ids) == set(ids(50, "b"))
        assert not repeated(everything.ids)
        assert not repeated(some.ids)


def test_the_contract_changes_without_a_restart(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic(partitions=2)
    with subscriber() as first, subscriber() as second, subscriber() as moved:
        subscriptions.append(plane.subscribe(name, first.url()))
        plane.wait_ready(*subscriptions, topic=name)
        run = plane.run(name)
        plane.send(name, ids(10, "before"))
        all_of(first, ids(10, "before"))

        subscriptions.append(plane.subscribe(name, second.url()))
        plane.wait_ready(*subscriptions, topic=name)
        plane.send(name, ids(10, "both"))
        all_of(first, ids(10, "both"))
        all_of(second, ids(10, "both"))

        plane.subscribe(name, moved.url(), uid=subscriptions[0], at={})
        plane.wait_ready(*subscriptions, topic=name)
        plane.send(name, ids(10, "after"))
        all_of(moved, ids(10, "after"))
        all_of(second, ids(10, "after"))
        assert set(first.ids) == set(ids(10, "before") + ids(10, "both"))
        assert set(second.ids) == set(ids(10, "both") + ids(10, "after"))
        assert not repeated(first.ids + moved.ids)
        assert plane.run(name) == run


def test_the_group_follows_and_metrics_count(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic(partitions=2)
    with subscriber() as server:
        subscriptions.append(plane.subscribe(name, server.url()))
        plane.wait_ready(*subscriptions, topic=name)
        plane.send(name, ids(20))
        all_of(server, ids(20))
        group = f"group-{subscriptions[0]}"
        eventually(lambda: plane.admin.group_offsets(group, name) == plane.admin.end_offsets(name), 30, "the mirror")
        for partition in (0, 1):
            labels = f'consumer="{plane.instance}#{partition}",partition="{partition}",topic="{name}"'
            line = f"eventing_kafka_consumed_msg_count{{{labels}}} 10.0"
            eventually(lambda line=line: line in dispatcher.get("/metrics")[1], 10, line)  # type: ignore[misc]
        status, ready = dispatcher.get("/readyz")
        assert (status, json.loads(ready)["missing"]) == (200, [])


def test_a_group_that_somebody_consumes_with_is_reported_and_not_fought(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic()
    with subscriber() as server:
        uid = plane.subscribe(name, server.url())
        subscriptions.append(uid)
        member = Consumer(plane.kafka.client(**{"group.id": f"group-{uid}", "enable.auto.commit": False, "log_level": 2}))
        member.subscribe([name])
        eventually(lambda: member.poll(0.1) or member.assignment(), 30, "the member's assignment")
        plane.wait_ready(uid, topic=name)
        plane.send(name, ids(5))
        all_of(server, ids(5))

        def reported() -> bool:
            member.poll(0)
            return plane.driver is not None and GROUP_HAS_MEMBERS in plane.driver.lanes.get(uid, {})

        eventually(reported, 60, GROUP_HAS_MEMBERS, interval=0.2)
        member.close()


def test_added_partitions_are_served_from_their_beginning_and_nothing_is_repeated(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic(partitions=1)
    with subscriber() as server:
        subscriptions.append(plane.subscribe(name, server.url()))
        plane.wait_ready(*subscriptions, topic=name)
        plane.send(name, ids(30, "before"))
        all_of(server, ids(30, "before"))
        plane.admin.add_partitions(name, 3)
        plane.send(name, ids(30, "after"))
        all_of(server, ids(30, "after"), 90)
        assert not repeated(server.ids)


def test_a_topic_made_anew_is_served_from_its_beginning(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic(partitions=2)
    with subscriber() as server:
        subscriptions.append(plane.subscribe(name, server.url()))
        plane.wait_ready(*subscriptions, topic=name)
        plane.send(name, ids(30, "before"))
        all_of(server, ids(30, "before"))
        plane.admin.delete_topic(name)
        eventually(lambda: plane.admin.describe(name) is None, 30, "the topic gone")
        plane.admin.create_topic(name, 2)
        plane.send(name, ids(30, "after"))
        all_of(server, ids(30, "after"), 120)
        assert not repeated(server.ids)


def test_offsets_that_retention_removed_are_skipped_and_told(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic()
    plane.send(name, ids(20))
    plane.expire(name, {0: 15})
    with subscriber() as server:
        uid = plane.subscribe(name, server.url(), at={0: 5})
        subscriptions.append(uid)
        all_of(server, ids(20)[15:], 90)
        assert sorted(server.ids) == sorted(ids(20)[15:])
        eventually(lambda: plane.driver and OFFSETS_EXPIRED in plane.driver.lanes.get(uid, {}), 10, OFFSETS_EXPIRED)
        assert "10 offsets" in plane.driver.lanes[uid][OFFSETS_EXPIRED]  # type: ignore[union-attr]


def test_a_killed_worker_of_an_idle_partition_is_noticed_and_replaced(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic(partitions=2)
    with subscriber() as server:
        subscriptions.append(plane.subscribe(name, server.url()))
        plane.wait_ready(*subscriptions, topic=name)
        plane.send(name, ids(10, "before"), partition=0)
        all_of(server, ids(10, "before"))
        # Either worker may be the one that dies: what was done in the last second would come again, by right.
        eventually(lambda: plane.stored(subscriptions[-1])[0].progress.low == 10, 30, "all is stored")
        run = plane.run(name)
        workers = eventually(lambda: _served(dispatcher, 2), 30)
        os.kill(workers[0], signal.SIGKILL)
        eventually(lambda: plane.run(name) > run, 60, "a new run")
        plane.wait_ready(*subscriptions, topic=name)
        plane.send(name, ids(10, "after"), partition=1)
        all_of(server, ids(10, "after"))
        assert not repeated(server.ids)


def test_a_hanging_worker_is_replaced_and_ends_when_it_wakes_up(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic()
    with subscriber() as server:
        subscriptions.append(plane.subscribe(name, server.url()))
        plane.wait_ready(*subscriptions, topic=name)
        run = plane.run(name)
        (victim,) = eventually(lambda: _served(dispatcher, 1), 30)
        os.kill(victim, signal.SIGSTOP)
        plane.send(name, ids(20))
        eventually(lambda: plane.run(name) > run, 60, "a new run")
        all_of(server, ids(20))
        os.kill(victim, signal.SIGCONT)
        eventually(lambda: victim not in dispatcher.workers, 30, "the old worker's end")
        assert not repeated(server.ids)


def test_killed_workers_under_load_lose_nothing_and_repeat_only_their_last_second(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic(partitions=2)
    with subscriber() as server:
        subscriptions.append(plane.subscribe(name, server.url()))
        plane.wait_ready(*subscriptions, topic=name)
        for turn in range(3):
            some = ids(200, f"turn-{turn}")
            plane.send(name, some)
            eventually(lambda some=some: len(set(server.ids) & set(some)) > 50, 60, "the stream")  # type: ignore[misc]
            for victim in dispatcher.workers[: 1 + turn]:
                os.kill(victim, signal.SIGKILL)
            all_of(server, some, 90)
            plane.wait_ready(*subscriptions, topic=name)
        again = repeated(server.ids)
        assert all(count <= 4 for count in again.values())
        assert len(again) < 500
