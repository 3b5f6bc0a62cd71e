"""The dispatcher on a Spark standalone cluster: code shipped to executors that have none of it, an executor killed in mid-stream."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.kafka.settings import KafkaSettings
from tests.conftest import TopicFactory
from tests.spark.cluster import Cluster, base_python
from tests.spark.dispatcher_process import DispatcherProcess
from tests.spark.plane import Plane, ids, repeated
from tests.support.subscriber import Answer, subscriber
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster")
    yield made
    made.close()


def test_the_same_events_are_delivered_by_executors_and_killing_one_loses_nothing(
    kafka: KafkaSettings, topic: TopicFactory, cluster: Cluster, tmp_path: Path
) -> None:
    python = base_python()
    lacks_our_code = subprocess.run(
        [python, "-c", "import headrace"], capture_output=True, check=False, cwd=tmp_path
    ).returncode
    assert lacks_our_code, "the executors' Python must not have our code already"
    plane = Plane(kafka)
    process = DispatcherProcess(
        kafka,
        plane.instance,
        tmp_path / "dispatcher",
        {
            "master": cluster.master,
            "python": python,
            "job_slots": 2,
            "spark_conf": [["spark.driver.host", "127.0.0.1"], ["spark.executor.memory", "512m"]],
        },
    ).start()
    try:
        name = topic(partitions=4)
        plane.send(name, ids(300, "old"))
        with subscriber() as live, subscriber(Answer(202, delay=0.01)) as late:
            first = plane.subscribe(name, live.url())
            plane.wait_ready(first, topic=name, timeout=600)
            assert len(cluster.executors) == 2
            assert all("headrace-env" in path for path in cluster.python_path_of_workers)
            second = plane.subscribe(name, late.url(), at="begin")
            plane.send(name, ids(400, "first"))
            eventually(lambda: len(live.ids) > 50, 120, "the stream")
            run = plane.run(name)
            os.kill(cluster.executors[0], signal.SIGKILL)
            plane.send(name, ids(400, "second"))
            wanted = {*ids(400, "first"), *ids(400, "second")}
            eventually(lambda: wanted <= set(live.ids), 300, "every event", interval=0.1)
            eventually(lambda: wanted | set(ids(300, "old")) <= set(late.ids), 300, "every event", interval=0.1)
            assert plane.run(name) > run
            assert max(repeated(live.ids).values(), default=1) <= 3
            plane.wait_ready(first, second, topic=name, timeout=300)
            before = len(live.ids)
            plane.send(name, ids(50, "third"))
            eventually(lambda: set(ids(50, "third")) <= set(live.ids), 60, "the last events")
            assert len(live.ids) == before + 50
        assert process.stop() == 0
    finally:
        process.kill()
        plane.close()
