"""Events through the whole dispatcher: real Kafka, real Spark, real HTTP subscribers. One dispatcher process serves all tests here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.kafka.settings import KafkaSettings
from tests.conftest import TopicFactory
from tests.spark.dispatcher_process import DispatcherProcess
from tests.spark.plane import Plane, ids, repeated
from tests.support.subscriber import subscriber
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def plane(kafka: KafkaSettings) -> Iterator[Plane]:
    made = Plane(kafka)
    yield made
    made.close()


@pytest.fixture(scope="module")
def dispatcher(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    folder: Path = tmp_path_factory.mktemp("dispatcher")
    process = DispatcherProcess(plane.kafka, plane.instance, folder).start()
    process.wait_ready()
    yield process
    process.stop()


def test_every_event_reaches_every_subscriber_that_wants_it_once(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory
) -> None:
    name = topic(partitions=3)
    with subscriber() as everything, subscriber() as some:
        one = plane.subscribe(name, everything.url())
        two = plane.subscribe(name, some.url(), dialected_filter=({"exact": {"attributes": {"type": "b"}}},))
        plane.wait_ready(one, two, topic=name)
        plane.send(name, ids(50, "a"), kind="a")
        plane.send(name, ids(50, "b"), kind="b")
        eventually(lambda: len(everything.ids) >= 100 and len(some.ids) >= 50, 60, f"{len(everything.ids)} {len(some.ids)}")
        assert set(everything.ids) == {*ids(50, "a"), *ids(50, "b")}
        assert set(some.ids) == set(ids(50, "b"))
        assert not repeated(everything.ids)
        assert not repeated(some.ids)
        plane.unsubscribe(one)
        plane.unsubscribe(two)
        print(dispatcher.log)
