"""What the publisher makes of librdkafka's errors, with its producer played by a few lines."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.dispatcher.worker import publisher as publishers
from headrace.dispatcher.worker.publisher import Publisher
from headrace.kafka.settings import KafkaSettings
from tests.support.waiting import eventually

FATAL = KafkaError(KafkaError._FATAL, "out of order", fatal=True)


class Client:
    """librdkafka's producer: it answers with `outcome` once that is set; `raising` is raised by whatever is called."""

    def __init__(self, conf: dict[str, Any]) -> None:
        self.conf = conf
        self.queue: list[Any] = []
        self.outcome: list[KafkaError | None] = []
        self.raising: KafkaException | None = None
        self.purged = False

    def produce(self, topic: str, value: object, key: object, partition: int, *, headers: object, on_delivery: Any) -> None:
        self._maybe_raise()
        self.queue.append(on_delivery)

    def poll(self, seconds: float) -> int:
        self._maybe_raise()
        while self.queue and self.outcome:
            self.queue.pop(0)(self.outcome[0], None)
        threading.Event().wait(min(seconds, 0.01))
        return 0

    def flush(self, seconds: float) -> int:
        if self.purged:
            while self.queue:
                self.queue.pop(0)(KafkaError(KafkaError._PURGE_QUEUE), None)
        self._maybe_raise()
        return len(self.queue)

    def purge(self) -> None:
        self.purged = True

    def _maybe_raise(self) -> None:
        if self.raising is not None:
            raise self.raising


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    made: list[Client] = []

    def connect(conf: dict[str, Any]) -> Client:
        made.append(Client(conf))
        return made[-1]

    monkeypatch.setattr(publishers, "Producer", connect)
    return made


@pytest.fixture
def publisher(clients: list[Client]) -> Iterator[Publisher]:
    made = Publisher(KafkaSettings("127.0.0.1:9092"), 1 << 20)
    yield made
    clients[-1].raising = None
    made.close(0.1)


Answers = list[tuple[str, bool]]


def publish(publisher: Publisher) -> Answers:
    answers: Answers = []
    publisher.publish("t", b"v", lambda error, final: answers.append((error, final)))
    return answers


def test_a_producer_that_fails_for_good_while_nobody_writes_is_replaced_and_its_records_are_answered(
    publisher: Publisher, clients: list[Client]
) -> None:
    first = publish(publisher)
    clients[0].raising = KafkaException(FATAL)
    eventually(lambda: len(clients) == 2)
    [(error, final)] = eventually(lambda: first)
    assert error
    assert not final
    clients[1].outcome = [None]
    assert eventually(lambda second=publish(publisher): second) == [("", False)]  # type: ignore[misc]
    assert publisher.pending == 0


def test_a_flush_that_meets_the_end_of_its_producer_raises_nothing(publisher: Publisher, clients: list[Client]) -> None:
    clients[0].raising = KafkaException(FATAL)
    assert not publisher.flush(0.1)
    eventually(lambda: len(clients) == 2)


@pytest.mark.parametrize(
    ("code", "final"),
    [
        (KafkaError._MSG_TIMED_OUT, False),
        (KafkaError.NOT_ENOUGH_REPLICAS, False),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, False),
        (KafkaError.MSG_SIZE_TOO_LARGE, True),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, True),
        (KafkaError.INVALID_RECORD, True),
    ],
)
def test_what_would_be_refused_again_is_told_from_what_passes(
    publisher: Publisher, clients: list[Client], code: int, final: bool
) -> None:
    clients[0].outcome = [KafkaError(code)]
    assert [answer[1] for answer in eventually(lambda answers=publish(publisher): answers)] == [final]  # type: ignore[misc]
    clients[0].raising = KafkaException(KafkaError(code))
    assert [answer[1] for answer in publish(publisher)] == [final]


def test_bodies_as_large_as_a_subscriber_may_answer_fit_in(clients: list[Client]) -> None:
    made = Publisher(KafkaSettings("127.0.0.1:9092"), 50_000_000)
    assert clients[0].conf["message.max.bytes"] > 50_000_000
    made.close(0.1)
