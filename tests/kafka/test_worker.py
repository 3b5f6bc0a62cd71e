"""A worker against a real Kafka and real subscribers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings
from tests.support.subscriber import Subscriber, subscriber
from tests.support.waiting import eventually
from tests.support.workbench import Workbench, egress


@pytest.fixture
def bench(kafka: KafkaSettings, admin: Admin) -> Iterator[Workbench]:
    made = Workbench(kafka, admin)
    yield made
    made.close()


@pytest.fixture
def sink() -> Iterator[Subscriber]:
    with subscriber() as server:
        yield server


def test_every_event_is_delivered_and_progress_follows(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url()))
    worker = bench.start({"lane": 0})
    worker.events(50)
    eventually(lambda: len(sink.requests) == 50, what="all delivered")
    assert sorted(sink.ids, key=int) == [str(offset) for offset in range(50)]
    eventually(lambda: "lane" in bench.progress and bench.progress["lane"].progress.low == 50, what="progress")
    worker.end_input()
    worker.join()
