"""The producer's limits and what it makes of errors, with librdkafka's producer played by a few lines."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.base.clock import Deadline, SystemClock, VirtualClock
from headrace.base.errors import HeadraceError
from headrace.kafka.settings import KafkaSettings
from headrace.receiver.config import Limits, Production
from headrace.receiver.pool import ProducerPool
from headrace.receiver.producer import KafkaProducer
from tests.support.waiting import eventually

SETTINGS = KafkaSettings("127.0.0.1:9092")
TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)
FATAL = KafkaError(KafkaError._FATAL, "out of order", fatal=True)


class Client:
    """librdkafka's producer: `outcome` says what becomes of each event; without one it stays queued."""

    def __init__(self, conf: dict[str, Any], outcome: Callable[[], KafkaError | None] | None = lambda: None) -> None:
        self.conf = conf
        self.outcome = outcome
        self.queue: deque[Callable[[KafkaError | None, Any], None]] = deque()
        self.raising: Exception | None = None
        self.purged = False

    def produce(self, topic: str, value: object, key: object, *, headers: object, on_delivery: Any) -> None:
        if self.raising is not None:
            raise self.raising
        self.queue.append(on_delivery)

    def poll(self, seconds: float) -> int:
        if self.purged:
            while self.queue:
                self.queue.popleft()(KafkaError(KafkaError._PURGE_QUEUE), None)
        elif self.outcome is not None and self.queue:
            self.queue.popleft()(self.outcome(), None)
        elif seconds:
            threading.Event().wait(min(seconds, 0.01))
        return 0

    def purge(self) -> None:
        self.purged = True

    def __len__(self) -> int:
        return len(self.queue)


class Clients(list[Client]):
    """Those that were made."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome: Callable[[], KafkaError | None] | None = lambda: None

    def make(self, conf: dict[str, Any]) -> Client:
        self.append(Client(conf, self.outcome))
        return self[-1]


@pytest.fixture
def clients() -> Clients:
    return Clients()


@pytest.fixture
def producer(clients: Clients) -> Iterator[KafkaProducer]:
    made = KafkaProducer(SETTINGS, Production(), Limits(events=10, bytes=1000), SystemClock(), make=clients.make)
    made.start()
    yield made
    made.close(Deadline(0))


def send(producer: KafkaProducer, reports: list[KafkaError | None]) -> int:
    """Send one event; the status of a refusal, else 0."""
    refusal = producer.send("t", b"x", None, {}, lambda error, message: reports.append(error))
    return refusal.status if refusal is not None else 0


def test_settings_are_those_of_an_idempotent_producer(producer: KafkaProducer, clients: Clients) -> None:
    wanted = {
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "message.timeout.ms": 5000,
        "socket.nagle.disable": True,
    }
    assert wanted.items() <= clients[0].conf.items()


def test_room_is_reserved_and_given_back(producer: KafkaProducer) -> None:
    assert producer.admit(600) is None
    assert producer.admit(400, 9) is None
    assert (producer.held_events, producer.held_bytes) == (10, 1000)
    for size, events in ((1, 0), (0, 1)):
        refusal = producer.admit(size, events)
        assert refusal is not None
        assert refusal.status == 429
    producer.release(600)
    assert producer.admit(600) is None
    producer.confirmed_events += 1
    producer.confirmed_bytes += 600
    assert (producer.held_events, producer.held_bytes) == (9, 400)


def test_a_full_queue_is_answered_429_and_503_while_kafka_takes_nothing(producer: KafkaProducer, clients: Clients) -> None:
    clients[0].raising = BufferError()
    assert send(producer, []) == 429
    producer.reachable = False
    assert send(producer, []) == 503
    producer.delivered()
    assert send(producer, []) == 429
    producer.refusal(TIMED_OUT)
    assert send(producer, []) == 503
    producer.delivered()
    assert send(producer, []) == 429


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (KafkaError._MSG_TIMED_OUT, 503),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, 503),
        (KafkaError.NOT_ENOUGH_REPLICAS, 503),
        (KafkaError.MSG_SIZE_TOO_LARGE, 413),
        (KafkaError.RECORD_LIST_TOO_LARGE, 413),
    ],
)
def test_an_error_of_kafka_becomes_an_answer(producer: KafkaProducer, clients: Clients, code: int, status: int) -> None:
    assert producer.refusal(KafkaError(code)).status == status
    assert producer.failing is (status == 503)
    clients[0].raising = KafkaException(KafkaError(code))
    assert send(producer, []) == status


def test_reports_come_without_further_events(producer: KafkaProducer) -> None:
    reports: list[KafkaError | None] = []
    assert send(producer, reports) == 0
    eventually(lambda: reports == [None], what="the report")


def test_reports_of_many_events_come(producer: KafkaProducer) -> None:
    reports: list[KafkaError | None] = []
    for _ in range(100):
        assert send(producer, reports) == 0
    eventually(lambda: len(reports) == 100, what="all reports")


def test_a_report_that_can_not_be_handled_does_not_end_the_fetching(producer: KafkaProducer) -> None:
    def fail(error: KafkaError | None, message: object) -> None:
        raise ValueError("not to be handled")

    producer.send("t", b"x", None, {}, fail)
    reports: list[KafkaError | None] = []
    send(producer, reports)
    eventually(lambda: reports == [None], what="the report of the next event")


def test_a_fatal_error_makes_a_new_producer_and_fails_what_the_old_one_holds(producer: KafkaProducer, clients: Clients) -> None:
    clients[0].outcome = None
    held: list[KafkaError | None] = []
    assert send(producer, held) == 0
    clients[0].raising = KafkaException(FATAL)
    assert send(producer, []) == 503
    eventually(lambda: len(clients) == 2, what="a new producer")
    eventually(lambda: held, what="the report of what the old one held")
    assert producer.refusal(held[0] or TIMED_OUT).status == 503
    reports: list[KafkaError | None] = []
    assert send(producer, reports) == 0
    eventually(lambda: reports == [None], what="the new one takes events")
    assert producer.replaced == 1
    assert producer.waiting == 0


def test_a_fatal_error_that_librdkafka_tells_by_itself_does_the_same(producer: KafkaProducer, clients: Clients) -> None:
    clients[0].conf["error_cb"](FATAL)
    eventually(lambda: len(clients) == 2, what="a new producer")


def test_a_broker_that_can_not_be_reached_is_known_until_events_pass(producer: KafkaProducer, clients: Clients) -> None:
    seen = [producer.reachable]
    for step in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
        clients[0].conf["error_cb"](KafkaError(step))
        seen.append(producer.reachable)
    producer.delivered()
    assert [*seen, producer.reachable] == [None, None, False, True]


def test_closing_waits_for_reports_until_the_deadline(clients: Clients) -> None:
    clients.outcome = None
    producer = KafkaProducer(SETTINGS, Production(), Limits(), SystemClock(), make=clients.make)
    producer.start()
    send(producer, [])
    assert producer.close(Deadline(0.05)) == 1


def test_settings_that_librdkafka_refuses_are_an_error() -> None:
    with pytest.raises(HeadraceError):
        KafkaProducer(SETTINGS, Production(linger_ms=-1), Limits(), SystemClock()).start()


class Pooled(KafkaProducer):
    """A producer whose closing can be seen."""

    closed = False

    def start(self) -> None:
        """Connects to nothing."""

    def close(self, deadline: Deadline) -> int:
        self.closed = True
        return 0


def test_a_pool_has_one_producer_per_connection_and_lets_go_of_those_not_used() -> None:
    clock = VirtualClock()
    pool = ProducerPool(Production(), Limits(), clock, make=Pooled)
    first, second = pool.get(SETTINGS), pool.get(KafkaSettings("127.0.0.1:9093"))
    assert isinstance(first, Pooled)
    assert pool.get(KafkaSettings("127.0.0.1:9092")) is first
    assert pool.producers == [first, second]
    first.admit(1)
    pool.keep([second])
    assert pool.producers == [second]
    closed = []
    steps: list[Callable[[], object]] = [list, lambda: clock.advance(61), lambda: first.release(1)]
    for step in steps:
        step()
        pool.tidy()
        closed.append(first.closed)
    # A request may have looked it up a moment ago; it holds an event; it is done.
    assert closed == [False, False, True]
    assert pool.get(SETTINGS) is not first
