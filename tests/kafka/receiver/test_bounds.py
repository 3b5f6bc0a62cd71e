"""Clients that are slow, greedy, rude or gone: the receiver stays healthy, and takes nothing that did not arrive whole."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any

import pytest

from headrace.kafka.settings import KafkaSettings
from headrace.receiver import Limits
from tests.conftest import TopicFactory
from tests.kafka.receiver.conftest import Benches
from tests.kafka.receiver.harness import EVENT, Bench, drain, exchange, read_all, records, resource, status_of
from tests.support.waiting import eventually

LIMITS = replace(Limits(), body=100_000, headers=16_384)
HEAD = "POST /ns/name HTTP/1.1\r\nHost: x\r\n" + "".join(f"{name}: {value}\r\n" for name, value in EVENT.items())


@pytest.fixture
def name(topic: TopicFactory) -> str:
    return topic(partitions=1)


Made = Callable[..., Bench]


@pytest.fixture
def bench(receivers: Benches, kafka: KafkaSettings, name: str) -> Made:
    def make(**limits: Any) -> Bench:
        return receivers(limits=replace(LIMITS, **limits)).start(resource(kafka, name))

    return make


@contextmanager
def connected(bench: Bench) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", bench.port), timeout=20) as connection:
        yield connection


def test_a_body_up_to_the_limit_is_taken_and_a_larger_one_answered_413(bench: Made, kafka: KafkaSettings, name: str) -> None:
    made = bench()
    assert made.send(body=b"x" * 100_000).status == 202
    assert made.send(body=b"x" * 100_001).status == 413
    assert made.send(body=b"x" * 3_000_000).status == 413
    assert [len(record.value or b"") for record in read_all(kafka, name)] == [100_000]


def test_a_body_in_chunks_is_taken_up_to_the_limit(bench: Made, kafka: KafkaSettings, name: str) -> None:
    made = bench()
    chunk = b"2710\r\n" + b"x" * 10_000 + b"\r\n"
    head = f"{HEAD}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
    assert status_of(made.raw(head + chunk * 10 + b"0\r\n\r\n")) == 202
    assert status_of(made.raw(head + b"0\r\n\r\n")) == 202
    assert status_of(made.raw(head + chunk * 11 + b"0\r\n\r\n")) == 413
    assert sorted(len(record.value or b"") for record in read_all(kafka, name)) == [0, 100_000]
    assert made.receiver.held == (0, 0)


def test_trailers_after_chunks_are_refused_as_a_body_that_was_cut_off(bench: Made, kafka: KafkaSettings, name: str) -> None:
    head = f"{HEAD}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
    assert status_of(bench().raw(head + b"2\r\n{}\r\n0\r\nx-check: 1\r\n\r\n")) == 400
    assert read_all(kafka, name) == []


@pytest.mark.parametrize(
    "framing", ["Content-Length: 1000\r\n\r\n" + "x" * 500, "Transfer-Encoding: chunked\r\n\r\n1f4\r\n" + "x" * 500]
)
@pytest.mark.parametrize("reset", [False, True])
def test_a_body_that_is_cut_off_is_no_event(bench: Made, kafka: KafkaSettings, name: str, framing: str, reset: bool) -> None:
    made = bench()
    for _ in range(20):
        with connected(made) as connection:
            connection.sendall((HEAD + framing).encode())
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    eventually(lambda: made.receiver.held == (0, 0), what="nothing is held any more")
    assert made.send(body=b"whole").status == 202
    assert [record.value for record in read_all(kafka, name)] == [b"whole"]


def test_requests_in_a_row_are_answered_in_order(bench: Made, kafka: KafkaSettings, name: str) -> None:
    good = f"{HEAD}Content-Length: 2\r\n\r\n{{}}"
    bad = good.replace("ce-id: 1", "ce-other: 1")
    last = good.replace("Content-Length", "Connection: close\r\nContent-Length")
    answers = bench().raw((good + bad + good + bad + last).encode())
    found = [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]
    assert found == [202, 400, 202, 400, 202]
    assert len(read_all(kafka, name)) == 3


def test_a_connection_serves_on_after_a_refusal(bench: Made) -> None:
    made = bench()
    with closing(HTTPConnection("127.0.0.1", made.port, timeout=10)) as connection:
        statuses = [
            exchange(connection, method, path, b"x" * size, EVENT if size < 90_000 else {}).status
            for method, path, size in (
                ("POST", "/none", 10),
                ("POST", "/ns/name", 10),
                ("PUT", "/ns/name", 10),
                ("POST", "/ns/name", 99_000),
                ("POST", "/none", 70_000),
                ("POST", "/ns/name", 70_000),
                ("POST", "/ns/name", 3_000_000),
                ("POST", "/ns/name", 10),
            )
        ]
    assert statuses == [404, 202, 405, 400, 404, 202, 413, 202]


def test_a_body_that_does_not_come_is_answered_408(bench: Made, kafka: KafkaSettings, name: str) -> None:
    made = bench(body_seconds=0.5)
    for framing in ("Content-Length: 10\r\n\r\nx", "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"):
        assert status_of(made.raw((HEAD + framing).encode())) == 408
    assert made.receiver.held == (0, 0)
    assert read_all(kafka, name) == []


def test_a_client_that_stops_talking_loses_its_connection(bench: Made) -> None:
    made = bench(header_seconds=1.0, idle_seconds=1.0)
    starts = [b"", b"P", b"PRI", b"POST /ns", HEAD.encode(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    with ExitStack() as stack:
        connections = [stack.enter_context(connected(made)) for _ in starts]
        for connection, start in zip(connections, starts, strict=True):
            connection.sendall(start)
        before = time.monotonic()
        for connection in connections:
            drain(connection)
        assert time.monotonic() - before < 19
    assert made.send().status == 202


def test_half_open_requests_of_many_clients_do_not_keep_others_out(bench: Made) -> None:
    made = bench()
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(connected(made)).sendall(f"{HEAD}Content-Length: 10\r\n\r\nx".encode())
        assert made.send().status == 202


def test_header_lines_beyond_their_limit_are_answered_431(bench: Made) -> None:
    made = bench()
    assert made.raw(f"{HEAD}x-large: {'a' * 40_000}\r\n\r\n".encode()).startswith(b"HTTP/1.1 431 ")
    assert made.raw((HEAD + "".join(f"x-{n}: 1\r\n" for n in range(200)) + "\r\n").encode()).startswith(b"HTTP/1.1 431 ")
    assert made.send().status == 202


def test_an_event_of_64_kib_may_be_all_headers(receivers: Benches, kafka: KafkaSettings, name: str) -> None:
    made = receivers().start(resource(kafka, name))
    assert made.send(headers={**EVENT, "ce-large": "a" * 64_000}).status == 202
    assert len(records(kafka, name, 1)[0].headers["ce_large"]) == 64_000


def test_an_event_that_its_topic_does_not_take_is_answered_413(
    receivers: Benches, kafka: KafkaSettings, topic: TopicFactory
) -> None:
    small = topic(config={"max.message.bytes": "2000"})
    made = receivers().start(resource(kafka, small))
    assert made.send(body=b"x" * 1000).status == 202
    assert made.send(body=b"x" * 5000).status == 413
    assert made.send(body=b"x" * 1000).status == 202


def test_bytes_beyond_the_limit_are_answered_429_and_nothing_is_lost(bench: Made, kafka: KafkaSettings, name: str) -> None:
    made = bench(bytes=250_000)
    waiting = f"{HEAD}Content-Length: 100000\r\n\r\n".encode()
    with connected(made) as first, connected(made) as second:
        for connection in (first, second):
            connection.sendall(waiting + b"x" * 10)
        eventually(lambda: made.receiver.held == (2, 200_000), what="room for both is reserved")
        refused = made.send(body=b"x" * 60_000)
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert made.send(body=b"x" * 40_000).status == 202
        for connection in (first, second):
            connection.sendall(b"x" * 99_990)
            assert status_of(connection.recv(1000)) == 202
    assert made.send(body=b"x" * 60_000).status == 202
    assert made.receiver.held == (0, 0)
    assert len(read_all(kafka, name)) == 4


def test_events_beyond_the_limit_are_answered_429(bench: Made) -> None:
    made = bench(events=3)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connected(made)).sendall(f"{HEAD}Content-Length: 10\r\n\r\nx".encode())
        eventually(lambda: made.receiver.held[0] == 3, what="room for three is reserved")
        assert made.send().status == 429
    eventually(lambda: made.receiver.held == (0, 0), what="nothing is held any more")
    assert made.send().status == 202
    batch = b"[" + b",".join(b'{"specversion":"1.0","id":"%d","source":"/s","type":"t"}' % n for n in range(4)) + b"]"
    headers = {"content-type": "application/cloudevents-batch+json"}
    assert made.send(body=batch, headers=headers).status == 429
    assert made.receiver.held == (0, 0)


def test_a_request_without_host_is_answered_400(bench: Made) -> None:
    made = bench()
    request = HEAD.replace("Host: x\r\n", "") + "Content-Length: 0\r\nConnection: close\r\n\r\n"
    assert status_of(made.raw(request.encode())) == 400
    assert made.raw(request.replace("HTTP/1.1", "HTTP/1.0").encode()).startswith(b"HTTP/1.0 202 ")


def test_one_waits_for_the_go_ahead_only_where_the_body_is_wanted(bench: Made) -> None:
    made = bench()
    expect = f"{HEAD}Expect: 100-continue\r\nContent-Length: "
    with connected(made) as connection:
        connection.sendall(f"{expect}2\r\n\r\n".encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"{}")
        assert status_of(connection.recv(1000)) == 202
    with connected(made) as connection:
        connection.sendall(f"{expect}2000000\r\n\r\n".encode())
        assert status_of(connection.recv(1000)) == 413
