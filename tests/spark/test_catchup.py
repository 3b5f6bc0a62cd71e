"""Lanes that fall behind: jobs bring them to the end and hand them back, the others do not notice; a topic that is behind changes gear."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.kafka.settings import KafkaSettings
from tests.conftest import TopicFactory
from tests.spark.dispatcher_process import DispatcherProcess
from tests.spark.plane import Plane, ids, repeated
from tests.support.processes import connected
from tests.support.subscriber import Answer, Request, Subscriber, subscriber
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(900)
"""Starting Spark takes long on a busy machine."""

RING = 200
SETTINGS = {
    "limits": {"ring_events": RING},
    "timing": {"describe": 1.0, "job": 3.0, "bulk": 3.0},
    "real_time_rate": 400.0,
}


@pytest.fixture(scope="module")
def plane(kafka: KafkaSettings) -> Iterator[Plane]:
    made = Plane(kafka)
    yield made
    made.close()


@pytest.fixture(scope="module")
def dispatcher(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    """Rings of 200 events, jobs of 3 s, and 2,000 events count as 5 s of work."""
    folder: Path = tmp_path_factory.mktemp("dispatcher")
    process = DispatcherProcess(plane.kafka, plane.instance, folder, SETTINGS).start()
    process.wait_ready()
    yield process
    assert process.stop() == 0


@pytest.fixture
def subscriptions(plane: Plane) -> Iterator[list[str]]:
    uids: list[str] = []
    yield uids
    for uid in uids:
        plane.unsubscribe(uid)


def all_of(server: Subscriber, wanted: list[str], timeout: float = 180.0) -> None:
    eventually(lambda: set(wanted) <= set(server.ids), timeout, f"{len(wanted)} events", interval=0.05)


def states(plane: Plane, topic: str, uid: str) -> set[str]:
    """States of a lane in all partitions."""
    return {report.lanes[uid].state for report in plane.live(topic) if uid in report.lanes}


def test_a_new_lane_with_a_long_backlog_catches_up_beside_a_live_one_and_is_handed_back(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic(partitions=2)
    plane.send(name, ids(1_500, "old"))
    with subscriber() as live, subscriber() as late:
        subscriptions.append(plane.subscribe(name, live.url()))
        plane.wait_ready(*subscriptions, topic=name)
        run = plane.run(name)
        subscriptions.append(plane.subscribe(name, late.url(), at="begin"))
        plane.wait_ready(*subscriptions, topic=name)
        sent: list[str] = []
        while states(plane, name, subscriptions[1]) != {"LIVE"} or len(sent) < 100:
            some = [f"new-{len(sent) + number}" for number in range(10)]
            plane.send(name, some)
            sent += some
            assert len(sent) < 20_000
            all_of(live, some)
        all_of(late, ids(1_500, "old") + sent)
        plane.send(name, ids(20, "last"))
        all_of(late, ids(20, "last"))
        all_of(live, ids(20, "last"))
        assert not repeated(live.ids)
        assert not repeated(late.ids)
        assert set(live.ids) == {*sent, *ids(20, "last")}
        assert plane.run(name) == run


def test_a_subscriber_that_hangs_is_parked_and_the_others_do_not_wait_for_it(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic(partitions=1)
    awake = threading.Event()

    def slow(request: Request) -> Answer:
        awake.wait(30)
        return Answer(202)

    with subscriber() as quick, subscriber(slow) as hanging:
        subscriptions.append(plane.subscribe(name, quick.url()))
        subscriptions.append(plane.subscribe(name, hanging.url()))
        plane.wait_ready(*subscriptions, topic=name)
        for turn in range(10):
            plane.send(name, ids(100, f"turn-{turn}"))
            all_of(quick, ids(100, f"turn-{turn}"), 60)
        eventually(lambda: "PARKED" in states(plane, name, subscriptions[1]), 60, "the lane parked")
        awake.set()
        everything = [one for turn in range(10) for one in ids(100, f"turn-{turn}")]
        all_of(hanging, everything)
        eventually(lambda: states(plane, name, subscriptions[1]) == {"LIVE"}, 120, "the lane live again")
        plane.send(name, ids(20, "last"))
        all_of(hanging, ids(20, "last"), 60)
        assert not repeated(quick.ids)


def test_a_parked_lane_whose_subscriber_takes_longer_than_a_job_gets_everything(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic(partitions=1)
    with subscriber() as quick, subscriber(lambda request: Answer(202, delay=5.0)) as slow:
        subscriptions.append(plane.subscribe(name, quick.url()))
        subscriptions.append(plane.subscribe(name, slow.url()))
        plane.wait_ready(*subscriptions, topic=name)
        everything = ids(RING + 40)
        plane.send(name, everything)
        all_of(quick, everything, 60)
        all_of(slow, everything, 300)
        assert max(repeated(slow.ids).values(), default=1) <= 4
        assert not repeated(quick.ids)


def test_a_lost_job_leaves_its_range_to_the_next_one(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic(partitions=1)
    plane.send(name, ids(1_200))
    with subscriber() as live, subscriber(lambda request: Answer(202, delay=0.02)) as late:
        subscriptions.append(plane.subscribe(name, live.url()))
        plane.wait_ready(*subscriptions, topic=name)
        run = plane.run(name)
        subscriptions.append(plane.subscribe(name, late.url(), at="begin"))
        eventually(lambda: len(late.ids) > 30, 60, "the job")
        [victim] = connected(dispatcher.workers, late.port)
        os.kill(victim, signal.SIGKILL)
        all_of(late, ids(1_200))
        assert "A catch-up job is lost" in dispatcher.log
        assert plane.run(name) == run
        assert len(repeated(late.ids)) < 300


def test_a_topic_that_is_far_behind_goes_to_bulk_gear_and_comes_back(
    plane: Plane, dispatcher: DispatcherProcess, topic: TopicFactory, subscriptions: list[str]
) -> None:
    name = topic(partitions=3)
    plane.send(name, ids(4_000))
    with subscriber() as server:
        subscriptions.append(plane.subscribe(name, server.url(), at="begin"))
        eventually(
            lambda: plane.driver and name in plane.driver.topics and plane.driver.topics[name].state == "BULK", 60, "bulk"
        )
        all_of(server, ids(4_000))
        plane.wait_ready(*subscriptions, topic=name)
        plane.send(name, ids(50, "new"))
        all_of(server, ids(50, "new"))
        assert plane.driver is not None
        assert plane.driver.topics[name].state == "RUNNING"
        assert not repeated(server.ids)
        group = f"group-{subscriptions[0]}"
        eventually(lambda: plane.admin.group_offsets(group, name) == plane.admin.end_offsets(name), 30, "the mirror")


def test_micro_batches_by_setting_deliver_the_same_and_try_a_failed_last_event_again(
    plane: Plane, kafka: KafkaSettings, topic: TopicFactory, tmp_path: Path
) -> None:
    def failing_once(request: Request) -> int:
        return 503 if request.id == "second-99" and second.ids.count("second-99") == 1 else 202

    other = Plane(kafka)
    process = DispatcherProcess(kafka, other.instance, tmp_path / "micro", {"batch_interval": 0.5}).start()
    try:
        name = topic(partitions=2)
        with subscriber() as first, subscriber(failing_once) as second:
            other.subscribe(name, first.url())
            process.wait_ready()
            eventually(lambda: other.driver and name in other.driver.topics and other.driver.topics[name].state == "BULK", 60)
            other.send(name, ids(100, "first"))
            all_of(first, ids(100, "first"))
            uid = other.subscribe(name, second.url())
            mark = other.offsets[uid]
            eventually(lambda: other.driver and other.driver.contract_offset >= mark, 30, "the second trigger ready")
            other.send(name, ids(100, "second"))
            all_of(first, ids(100, "second"))
            all_of(second, ids(100, "second"))
            assert set(second.ids) == set(ids(100, "second"))
            ends = other.admin.end_offsets(name)
            eventually(lambda: {p: one.progress.low for p, one in other.stored(uid).items()} == ends, 60, "all is done")
            assert not repeated(first.ids)
            assert repeated(second.ids) == {"second-99": 2}
            assert process.stop() == 0
    finally:
        process.kill()
        other.close()
