"""The HTTP client against real servers."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.base.errors import Terminal
from headrace.http.client import BodyLimits, Client, Exchange, Failure, check_url, joined
from tests.support.subscriber import Answer, subscriber
from tests.support.waiting import eventually

MANY = BodyLimits(keep=1 << 20, read=1 << 20)


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client()
    yield made
    made.close()


def exchange(
    url: str, lines: list[str] | None = None, body: bytes = b"", timeout_ms: int = 10_000, limits: BodyLimits = MANY
) -> Exchange:
    return Exchange(url, lines or [], body, timeout_ms, lambda status, headers: limits)


def finish(client: Client, count: int = 1, seconds: float = 20.0) -> list[Exchange]:
    end = time.monotonic() + seconds
    ended: list[Exchange] = []
    while len(ended) < count:
        assert time.monotonic() < end, f"only {len(ended)} of {count} ended"
        got = client.poll()
        ended += got
        if not got:
            client.wait(0.1)
    return ended


def run(client: Client, one: Exchange) -> Exchange:
    client.start(one)
    return finish(client)[0]


def push_until_ended(client: Client, one: Exchange) -> None:
    """Have an exchange end without its being handed out."""
    client.start(one)
    end = time.monotonic() + 20
    while client.active:
        assert time.monotonic() < end
        client.push()


def test_a_post_carries_lines_and_body_and_brings_back_the_response(client: Client) -> None:
    with subscriber(Answer(200, {"X-One": "1"}, b"hello")) as server:
        one = run(client, exchange(server.url("/p"), ["ce-id: 7", "Expect:", "content-type:"], b"data"))
        assert (one.status, one.body_kept, one.failure, one.cut) == (200, b"hello", None, False)
        assert ("X-One", "1") in one.headers
        got = server.requests[0]
        assert (got.path, got.id, got.body) == ("/p", "7", b"data")
        assert "content-type" not in got.headers
        assert "expect" not in got.headers


def test_joined_lines_arrive_as_the_single_ones_do(client: Client) -> None:
    many = [
        "ce-id: 7",
        "ce-empty;",
        "traceparent: 00-a: b",
        "content-type: text/plain",
        "Prefer: reply",
        "Expect:",
        "ce-type: a",
    ]
    without_type = [line for line in many if "content" not in line] + ["content-type:"]
    with subscriber() as server:
        for lines in (many, without_type):
            assert len(joined(lines)) < len(lines)
            run(client, exchange(server.url(), lines, b"data"))
            run(client, exchange(server.url(), joined(lines), b"data"))
        first, second, third, fourth = (request.headers for request in server.requests)
        assert dict(first) == dict(second)
        assert dict(third) == dict(fourth)
        assert (first["content-type"], first["ce-empty"], first["prefer"]) == ("text/plain", "", "reply")
        assert "content-type" not in third


def test_lines_without_a_value_are_not_joined_and_none_is_lost() -> None:
    assert joined(["a: 1", "Expect:", "b;", "content-type: t", "c: 2"]) == ["Expect:", "b;", "content-type: t\r\na: 1\r\nc: 2"]
    assert joined(["Expect:"]) == ["Expect:"]
    assert joined([]) == []


def test_what_ends_in_a_push_comes_back_from_the_next_poll_and_nobody_sleeps_over_it(client: Client) -> None:
    with subscriber() as server:
        one = exchange(server.url())
        push_until_ended(client, one)
        assert client.unfinished
        client.wait(3600.0)
        assert client.poll() == [one]
        assert (one.status, client.unfinished) == (202, False)


@pytest.mark.parametrize("url", ["", "not a URL"])
def test_what_is_broken_off_after_it_has_ended_does_not_come_back(client: Client, url: str) -> None:
    with subscriber() as server:
        one, other = exchange(url or server.url()), exchange(server.url())
        push_until_ended(client, one)
        client.abort(one)
        assert (client.unfinished, client.poll()) == (False, [])
        assert run(client, other) is other
        client.abort(other)
        assert client.poll() == []


def test_handles_and_connections_are_reused(client: Client) -> None:
    with subscriber() as server:
        for _ in range(5):
            run(client, exchange(server.url(), body=b"x" * 100))
        assert client.active == 0
        assert len(client._free) == 1
        assert server.most_open == 1


def test_nothing_of_an_exchange_stays_for_the_next(client: Client) -> None:
    with subscriber(lambda request: Answer(200, {"A": "1"}, b"body") if request.path == "/a" else 204) as server:
        run(client, exchange(server.url("/a"), ["x-a: 1"], b"payload"))
        second = run(client, exchange(server.url("/b")))
        assert (second.status, second.body_kept) == (204, b"")
        assert "A" not in dict(second.headers)
        assert server.requests[1].body == b""
        assert "x-a" not in server.requests[1].headers


def test_a_redirect_is_an_answer_and_is_not_followed(client: Client) -> None:
    with subscriber(lambda request: Answer(307, {"Location": "/elsewhere"})) as server:
        assert run(client, exchange(server.url("/here"))).status == 307
        assert [request.path for request in server.requests] == ["/here"]


def test_a_body_without_end_is_cut_at_the_limit_and_the_status_stands(client: Client) -> None:
    def endless(handler: Any) -> None:
        handler.send_response_only(500)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"x" * 65536)
        except OSError:
            pass

    with subscriber(Answer(raw=endless)) as server:
        one = run(client, exchange(server.url(), limits=BodyLimits(keep=1024, read=65536)))
        assert (one.status, one.failure, one.cut, len(one.body_kept)) == (500, None, True, 1024)


def test_a_timeout_is_a_failure_and_says_so(client: Client) -> None:
    with subscriber(Answer(delay=30)) as server:
        one = run(client, exchange(server.url(), timeout_ms=200))
        assert one.failure is Failure.TIMEOUT
        assert "timed out" in one.error.lower()


def test_a_refused_connection_is_a_failure(client: Client) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        one = run(client, exchange(f"http://127.0.0.1:{taken.getsockname()[1]}/"))
    assert one.failure is Failure.CONNECT


def test_a_connection_reset_in_mid_response_is_a_failure(client: Client) -> None:
    def reset(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart")
        handler.wfile.flush()
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.connection.close()

    with subscriber(Answer(raw=reset)) as server:
        assert run(client, exchange(server.url())).failure is Failure.TRANSFER


def test_an_answer_that_is_not_http_is_a_failure(client: Client) -> None:
    with subscriber(Answer(raw=lambda handler: handler.wfile.write(b"nonsense\r\n\r\n"))) as server:
        assert run(client, exchange(server.url())).failure is Failure.TRANSFER


@pytest.mark.parametrize(
    "url", ["http://", "nonsense", "http://bad host/", "ftp://127.0.0.1/x", "file:///etc/passwd", "http://h/\u00e9"]
)
def test_what_can_not_be_sent_comes_back_as_failed(client: Client, url: str) -> None:
    one = run(client, exchange(url))
    assert one.failure is not None
    assert client.active == 0


def test_many_requests_overlap(client: Client) -> None:
    with subscriber(Answer(delay=0.2)) as server:
        for _ in range(20):
            client.start(exchange(server.url()))
        ended = finish(client, 20)
        assert [one.status for one in ended] == [202] * 20
        assert server.most_open > 10


def test_an_aborted_request_does_not_come_back(client: Client) -> None:
    with subscriber(lambda request: Answer(delay=30) if request.path == "/slow" else 202) as server:
        slow = exchange(server.url("/slow"))
        client.start(slow)
        client.start(exchange(server.url("/fast")))
        assert [one.url for one in finish(client)] == [server.url("/fast")]
        client.abort(slow)
        client.abort(slow)
        assert client.active == 0
        assert run(client, exchange(server.url("/fast"))).status == 202


@pytest.mark.parametrize("busy", [False, True])
def test_wake_ends_a_wait_at_once(client: Client, busy: bool) -> None:
    with subscriber(Answer(delay=30)) as server:
        if busy:
            client.start(exchange(server.url()))
            while not server.requests:
                client.poll()
                client.wait(0.05)
        inbox: deque[int] = deque()

        def put() -> None:
            inbox.append(1)
            client.wake()

        timer = threading.Timer(0.1, put)
        timer.start()
        began = time.monotonic()
        while not inbox:
            client.poll()
            client.wait(20.0, inbox.__len__)
        assert time.monotonic() - began < 5
        timer.join()


def test_wait_returns_at_once_when_there_is_something_to_do(client: Client) -> None:
    began = time.monotonic()
    client.wait(20.0, lambda: True)
    assert time.monotonic() - began < 5


def test_only_the_final_response_counts(client: Client) -> None:
    def interim(handler: Any) -> None:
        handler.wfile.write(
            b"HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\nHTTP/1.1 200 OK\r\nX-Late: 2\r\nContent-Length: 0\r\n\r\n"
        )

    with subscriber(Answer(raw=interim)) as server:
        one = run(client, exchange(server.url()))
        assert one.status == 200
        assert dict(one.headers) == {"X-Late": "2", "Content-Length": "0"}


def test_limits_are_asked_with_status_and_headers(client: Client) -> None:
    seen: list[tuple[int, bool]] = []

    def limits(status: int, lines: list[bytes]) -> BodyLimits:
        seen.append((status, any(line.lower().startswith(b"kne-a:") for line in lines)))
        return BodyLimits(2, 100)

    with subscriber(Answer(422, {"Kne-A": "x"}, b"abcdef")) as server:
        one = run(client, Exchange(server.url(), [], b"", 5000, limits))
    assert seen == [(422, True)]
    assert (one.body_kept, one.cut) == (b"ab", True)


def test_urls_are_checked() -> None:
    check_url("http://127.0.0.1:8080/path")
    check_url("https://example.com")
    for url in ("", "example.com", "ftp://example.com", "/relative"):
        with pytest.raises(Terminal):
            check_url(url)


class Parts:
    """A response that says no length: two bytes, and two more when the test wants them."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def __call__(self, handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nab")
        handler.wfile.flush()
        self.go_on.wait(20)
        with contextlib.suppress(OSError):
            handler.wfile.write(b"cd")


def begun(client: Client, bytes_held: int) -> None:
    def worked() -> bool:
        assert client.poll() == []
        return client.held == bytes_held

    eventually(worked, what=f"{bytes_held} bytes are held")


def test_what_a_body_reserves_counts_as_held_until_it_has_ended(client: Client) -> None:
    parts = Parts()
    with subscriber(Answer(raw=parts)) as server:
        client.start(exchange(server.url(), limits=BodyLimits(100, 100, reserve=50)))
        begun(client, 50)
        parts.go_on.set()
        assert finish(client)[0].body_kept == b"abcd"
        assert client.held == 0


def test_a_body_that_outgrows_what_all_may_hold_is_cut_and_nothing_of_it_kept(client: Client) -> None:
    first, second = Parts(), Parts()
    with subscriber(Answer(raw=first)) as one, subscriber(Answer(raw=second)) as other:
        client.start(exchange(one.url(), limits=BodyLimits(100, 100, reserve=2, bound=5)))
        client.start(exchange(other.url(), limits=BodyLimits(100, 100, reserve=2, bound=5)))
        begun(client, 4)
        first.go_on.set()
        ended = finish(client)[0]
        assert (ended.status, ended.failure, ended.cut, ended.body_kept) == (200, None, True, b"")
        second.go_on.set()
        ended = finish(client)[0]
        assert (ended.failure, ended.cut, ended.body_kept) == (None, False, b"abcd")
        assert client.held == 0


def test_a_body_that_is_alone_may_outgrow_the_bound(client: Client) -> None:
    with subscriber(Answer(200, {}, b"x" * 50)) as server:
        one = run(client, exchange(server.url(), limits=BodyLimits(100, 100, reserve=2, bound=5)))
        assert (one.failure, one.cut, len(one.body_kept)) == (None, False, 50)
