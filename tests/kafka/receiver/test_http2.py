"""HTTP/2 without TLS (prior knowledge): the same answers, and nothing taken that a client has given up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from headrace.kafka.settings import KafkaSettings
from tests.conftest import TopicFactory
from tests.kafka.receiver.conftest import Benches
from tests.kafka.receiver.harness import EVENT, Bench, read_all, records, resource
from tests.support.http2 import CANCEL, NO_ERROR, Http2Client
from tests.support.waiting import eventually

PATH = "/ns/name"
BODY = b"x" * 1000


@pytest.fixture
def name(topic: TopicFactory) -> str:
    return topic(partitions=1)


@pytest.fixture
def bench(receivers: Benches, kafka: KafkaSettings, name: str) -> Bench:
    return receivers().start(resource(kafka, name))


@pytest.fixture
def client(bench: Bench) -> Iterator[Http2Client]:
    made = Http2Client(bench.port)
    yield made
    made.close()


def test_a_connection_carries_many_requests_at_once(client: Http2Client, kafka: KafkaSettings, name: str) -> None:
    for number in range(40):
        client.request(2 * number + 1, PATH, {**EVENT, "ce-id": str(number), "content-length": "2"})
    for number in range(40):
        client.data(2 * number + 1, b"{}", end=True)
    for number in range(40):
        assert client.status(2 * number + 1) == 202
    assert {record.headers["ce_id"] for record in records(kafka, name, 40)} == {b"%d" % number for number in range(40)}


def test_a_body_of_unknown_length_is_taken(client: Http2Client, kafka: KafkaSettings, name: str) -> None:
    def whole(stream: int) -> None:
        client.data(stream, BODY, end=True)

    def empty_last(stream: int) -> None:
        client.data(stream, BODY)
        client.data(stream, b"", end=True)

    def trailers(stream: int) -> None:
        client.data(stream, BODY)
        client.trailers(stream, {"x-check": "1"})

    for number, send in enumerate((whole, empty_last, trailers)):
        client.request(2 * number + 1, PATH, EVENT)
        send(2 * number + 1)
        assert client.status(2 * number + 1) == 202
    client.request(99, PATH, EVENT, end=True)
    assert client.status(99) == 202
    assert [record.value for record in records(kafka, name, 4)] == [BODY, BODY, BODY, None]


@pytest.mark.parametrize("length", [{}, {"content-length": "2000"}])
@pytest.mark.parametrize(
    "leave",
    [
        lambda client: client.reset(1, CANCEL),
        lambda client: client.reset(1, NO_ERROR),
        lambda client: client.close(),
        lambda client: client.close(hard=True),
    ],
    ids=["cancel", "reset without error", "close", "hard close"],
)
def test_a_body_that_the_client_gives_up_is_no_event(
    bench: Bench, kafka: KafkaSettings, name: str, length: dict[str, str], leave: Callable[[Http2Client], None]
) -> None:
    for _ in range(5):
        client = Http2Client(bench.port)
        client.request(1, PATH, EVENT | length)
        client.data(1, BODY)
        eventually(lambda: bench.receiver.held[0] >= 1, what="the request has arrived")
        leave(client)
        eventually(lambda: bench.receiver.held == (0, 0), what="nothing is held any more", timeout=10)
        client.close()
    assert bench.send(body=b"whole").status == 202
    assert [record.value for record in read_all(kafka, name)] == [b"whole"]


def test_refusals_are_the_same(client: Http2Client) -> None:
    client.request(1, "/none", {**EVENT, "content-length": "0"}, end=True)
    assert client.status(1) == 404
    client.request(3, PATH, {"ce-id": "1", "content-length": "0"}, end=True)
    assert client.status(3) == 400
    client.request(5, PATH, {**EVENT, "content-length": "9000000"})
    assert client.status(5) == 413
    client.request(7, PATH, EVENT, end=True)
    assert client.status(7) == 202


def test_a_channel_is_found_by_its_authority(receivers: Benches, kafka: KafkaSettings, name: str) -> None:
    bench = receivers().start(resource(kafka, name, "", ingress_host="127.0.0.1"))
    client = Http2Client(bench.port)
    client.request(1, "/", {**EVENT, "content-length": "0"}, end=True)
    assert client.status(1) == 202
    client.close()
