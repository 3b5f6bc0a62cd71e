"""A Kafka that stalls, is away, and comes back: 503 in time, 429 while only the queue is full, nothing accepted lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from headrace.kafka import ports
from headrace.kafka.admin import Admin
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.java import java_home
from headrace.kafka.settings import KafkaSettings
from headrace.receiver import Limits, Production
from tests.kafka.receiver.conftest import Benches
from tests.kafka.receiver.harness import EVENT, Bench, read_all, resource
from tests.support.waiting import eventually

TIMEOUT = 1500
"""Milliseconds that Kafka may take in these tests."""


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A Kafka of this module's own, since it is stopped."""
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka"), java=java_home(os.environ.get("HEADRACE_JAVA", "auto"))) as made:
        yield made


@pytest.fixture
def name(embedded: EmbeddedKafka) -> str:
    topic = f"t-{time.monotonic_ns()}"
    Admin(embedded.settings).create_topic(topic, 1)
    return topic


Made = Callable[..., Bench]


@pytest.fixture
def bench(embedded: EmbeddedKafka, receivers: Benches, name: str) -> Made:
    def make(**limits: int) -> Bench:
        made = receivers(limits=replace(Limits(), **limits), production=Production(timeout_ms=TIMEOUT))
        return made.start(resource(embedded.settings, name))

    return make


@contextmanager
def stalled(embedded: EmbeddedKafka) -> Iterator[None]:
    """Kafka is there and says nothing."""
    assert embedded.pid is not None
    os.kill(embedded.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(embedded.pid, signal.SIGCONT)


class Crowd:
    """Senders of one event each, at the same time."""

    def __init__(self, bench: Bench, senders: int, first: int = 0) -> None:
        self.statuses: dict[str, int] = {}
        self.seconds: list[float] = []
        self._bench = bench
        self._threads = [threading.Thread(target=self._send, args=(str(first + number),)) for number in range(senders)]
        for thread in self._threads:
            thread.start()

    def join(self) -> list[int]:
        for thread in self._threads:
            thread.join()
        return list(self.statuses.values())

    def _send(self, event: str) -> None:
        before = time.monotonic()
        self.statuses[event] = self._bench.send(headers={**EVENT, "ce-id": event}).status
        self.seconds.append(time.monotonic() - before)


def test_only_a_full_queue_is_answered_429_and_what_kafka_does_not_take_503(
    bench: Made, embedded: EmbeddedKafka, name: str
) -> None:
    made = bench(events=10)
    assert made.send().status == 202
    with stalled(embedded):
        waiting = Crowd(made, 10)
        eventually(lambda: made.receiver.held[0] == 10, what="all wait for Kafka")
        refused = made.send()
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert waiting.join() == [503] * 10
        assert max(waiting.seconds) < TIMEOUT / 1000 + 2
        late = Crowd(made, 10, first=100)
        eventually(lambda: made.receiver.held[0] == 10, what="all wait for Kafka")
        assert made.send().status == 503
        late.join()
    eventually(lambda: made.send(headers={**EVENT, "ce-id": "after"}).status == 202, what="Kafka takes events again")
    assert made.receiver.held == (0, 0)


def test_a_kafka_that_is_away_is_answered_503_and_nothing_accepted_is_lost(
    bench: Made, embedded: EmbeddedKafka, name: str
) -> None:
    made = bench()
    before = Crowd(made, 20)
    assert before.join() == [202] * 20
    embedded.stop()
    try:
        away = Crowd(made, 5, first=100)
        assert away.join() == [503] * 5
        assert max(away.seconds) < TIMEOUT / 1000 + 2
        eventually(lambda: made.get_ops("/readyz").status == 503, what="not ready")
        assert "does not answer" in made.get_ops("/readyz").text
        assert made.get_ops("/healthz").status == 200
    finally:
        embedded.start()
    eventually(lambda: made.get_ops("/readyz").status == 200, what="ready again")
    after = Crowd(made, 20, first=200)
    assert after.join() == [202] * 20
    stored = {record.headers["ce_id"].decode() for record in read_all(embedded.settings, name)}
    assert {event for crowd in (before, after) for event in crowd.statuses} <= stored


def test_a_kafka_that_is_not_there_is_answered_503_and_others_do_not_notice(
    receivers: Benches, name: str, embedded: EmbeddedKafka
) -> None:
    nowhere = KafkaSettings(f"127.0.0.1:{ports.free_port()}")
    made = receivers(production=Production(timeout_ms=TIMEOUT))
    made.write(resource(nowhere, name, "/away"), resource(embedded.settings, name))
    made.start()
    eventually(lambda: made.send().status == 202, what="the other Kafka takes events")
    assert made.send("/away").status == 503
    assert made.send().status == 202


def test_a_topic_that_is_not_there_is_answered_503(bench: Made, embedded: EmbeddedKafka, name: str) -> None:
    made = bench()
    made.serve(resource(embedded.settings, "absent", "/absent"), resource(embedded.settings, name))
    assert made.send("/absent").status == 503
    assert made.send().status == 202
