"""Dispatchers that stop, die, or meet another one: nothing is lost, a planned stop repeats nothing, a crash only its last second."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.core.contract import Contract, Egress, EgressConfig, Reference, Resource, dump
from headrace.kafka.settings import KafkaSettings
from tests.conftest import TopicFactory
from tests.spark.dispatcher_process import DispatcherProcess
from tests.spark.plane import Plane, ids, repeated
from tests.support.subscriber import Answer, Subscriber, subscriber
from tests.support.waiting import eventually

Starter = Callable[..., DispatcherProcess]

pytestmark = pytest.mark.timeout(900)
"""Starting Spark takes long on a busy machine."""


@pytest.fixture
def plane(kafka: KafkaSettings) -> Iterator[Plane]:
    made = Plane(kafka)
    yield made
    made.close()


@pytest.fixture
def dispatcher(plane: Plane, tmp_path: Path) -> Iterator[Starter]:
    """Starts a dispatcher of the plane's instance; all are killed at the end."""
    started: list[DispatcherProcess] = []

    def start(name: str = "dispatcher", **settings: Any) -> DispatcherProcess:
        process = DispatcherProcess(plane.kafka, plane.instance, tmp_path / name, settings)
        started.append(process.start())
        return process

    yield start
    for process in started:
        process.kill()


def all_of(server: Subscriber, wanted: list[str], timeout: float = 120.0) -> None:
    eventually(lambda: set(wanted) <= set(server.ids), timeout, f"{len(wanted)} events", interval=0.05)


def in_order(received: list[str], sent: list[str]) -> bool:
    """Whether each id came the first time after all that were sent before it."""
    first = list(dict.fromkeys(received))
    return first == [one for one in sent if one in set(first)]


def test_a_planned_stop_and_a_planned_batch_end_in_mid_stream_repeat_and_lose_nothing(
    plane: Plane, dispatcher: Starter, topic: TopicFactory
) -> None:
    name = topic(partitions=2)
    with subscriber(Answer(delay=0.05)) as server:  # at most 128 are under way, so the stream lasts for more than a second
        uid = plane.subscribe(name, server.url())
        process = dispatcher(timing={"batch": 45})
        plane.wait_ready(uid, topic=name)
        plane.send(name, ids(4_000, "first"))
        eventually(lambda: len(server.ids) > 100, 60, "the stream")
        assert process.stop() == 0
        assert 100 < len(server.ids) < 4_000, "the stop came in mid-stream"
        process = dispatcher(timing={"batch": 45})
        plane.wait_ready(uid, topic=name)
        run = plane.run(name)
        all_of(server, ids(4_000, "first"))
        sent = 0
        while plane.run(name) == run:
            plane.send(name, [f"second-{sent}"])
            sent += 1
        plane.send(name, ids(20, "third"))
        all_of(server, [*(f"second-{number}" for number in range(sent)), *ids(20, "third")])
        assert plane.run(name) > run
        assert not repeated(server.ids)
        assert process.stop() == 0


def test_killing_the_driver_and_then_the_jvm_in_mid_stream_loses_nothing_and_keeps_order(
    plane: Plane, dispatcher: Starter, topic: TopicFactory
) -> None:
    name = topic(partitions=1)
    with subscriber() as server:
        uid = plane.subscribe(name, server.url(), delivery_order="ORDERED")
        process = dispatcher()
        plane.wait_ready(uid, topic=name)
        sent = ids(1_500, "first")
        plane.send(name, sent)
        eventually(lambda: len(server.ids) > 200, 60, "the stream")
        process.kill()

        process = dispatcher()
        eventually(lambda: len(set(server.ids)) > 800, 180, "the stream again")
        os.kill(process.jvm, signal.SIGKILL)
        assert process.process.wait(120) == 1
        assert "the JVM is gone" in process.log

        process = dispatcher()
        all_of(server, sent, 180)
        assert in_order(server.ids, sent)
        assert max(repeated(server.ids).values(), default=1) <= 3


def test_a_second_dispatcher_takes_over_and_the_first_ends_saying_so(
    plane: Plane, dispatcher: Starter, topic: TopicFactory
) -> None:
    name = topic(partitions=2)
    with subscriber() as server:
        uid = plane.subscribe(name, server.url())
        first = dispatcher("first")
        plane.wait_ready(uid, topic=name)
        run = plane.run(name)
        plane.send(name, ids(300, "first"))
        second = dispatcher("second")
        assert first.process.wait(300) == 1
        assert "taken over" in first.log or "another driver" in first.log
        eventually(lambda: plane.run(name) > run, 60, "the second's run")
        plane.wait_ready(uid, topic=name)
        plane.send(name, ids(300, "second"))
        all_of(server, ids(300, "first") + ids(300, "second"))
        assert second.process.poll() is None


def test_a_query_that_has_too_few_slots_is_not_started_but_reported(
    plane: Plane, dispatcher: Starter, topic: TopicFactory
) -> None:
    small, large = topic(partitions=2), topic(partitions=3)
    with subscriber() as server:
        one = plane.subscribe(small, server.url())
        process = dispatcher(master="local[4]", job_slots=0)
        plane.wait_ready(one, topic=small)
        two = plane.subscribe(large, server.url())
        eventually(lambda: plane.driver and plane.driver.topics.get(large), 60, "the report")
        eventually(lambda: plane.driver.topics[large].problem == "InsufficientSlots", 60, "the problem")  # type: ignore[union-attr]
        status, body = process.get("/readyz")
        assert status == 503
        assert "InsufficientSlots" in body
        plane.send(small, ids(20))
        plane.send(large, ids(20, "large"))
        all_of(server, ids(20))
        plane.unsubscribe(one)
        plane.wait_ready(two, topic=large)
        all_of(server, ids(20, "large"))
        assert not repeated(server.ids)


def egress(uid: str, url: str) -> Egress:
    return Egress(
        uid=uid,
        destination=url,
        consumer_group=f"group-{uid}",
        egress_config=EgressConfig(retry=5, backoff_delay=100),
        reference=Reference(uuid=uid, namespace="ns", name=uid),
    )


def test_a_contract_file_in_the_peers_format_is_served_republished_and_followed(
    plane: Plane, dispatcher: Starter, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic(partitions=2)
    plane.send(name, ids(10, "old"))
    file = tmp_path / "contract.json"

    def write(generation: int, *egresses: Egress) -> None:
        resources = tuple(
            Resource(
                uid=one.uid, topics=(name,), bootstrap_servers=plane.kafka.bootstrap_servers, absent_auth=True, egresses=(one,)
            )
            for one in egresses
        )
        part = file.with_suffix(".part")
        part.write_bytes(dump(Contract(generation=generation, resources=resources)))
        part.rename(file)

    with subscriber() as one, subscriber() as two:
        write(1, egress("one", one.url()))
        process = dispatcher(file=str(file))
        process.wait_ready()
        eventually(lambda: plane.live(name), 60, "the run")
        plane.send(name, ids(10, "first"))
        all_of(one, ids(10, "first"))
        run = plane.run(name)
        write(2, egress("one", one.url()), egress("two", two.url()))
        eventually(lambda: all("two" in report.lanes for report in plane.live(name)), 60, "the second lane")
        plane.send(name, ids(10, "second"))
        all_of(one, ids(10, "second"))
        all_of(two, ids(10, "second"))
        assert set(one.ids) == set(ids(10, "first") + ids(10, "second"))
        assert set(two.ids) == set(ids(10, "second"))
        assert plane.run(name) == run
        eventually(lambda: plane.admin.group_offsets("group-two", name) == plane.admin.end_offsets(name), 30, "the mirror")
        file.write_text("")
        eventually(lambda: plane.driver and plane.driver.topics[name].state == "STOPPED", 60, "the drain")
        assert json.loads(process.get("/readyz")[1])["missing"] == []
