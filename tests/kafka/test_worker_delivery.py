"""What a subscriber, a reply and a dead letter sink see of a worker, against a real Kafka."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.dispatcher.spec import Limits
from headrace.kafka.admin import Admin
from tests.support.frames import frame
from tests.support.subscriber import Answer, Request, Subscriber, subscriber
from tests.support.waiting import eventually
from tests.support.workbench import Workbench, egress

REPLY = {"ce-specversion": "1.0", "ce-id": "r", "ce-source": "/reply", "ce-type": "reply.type", "content-type": "text/plain"}


@pytest.fixture
def dead_letters() -> Iterator[Subscriber]:
    with subscriber() as server:
        yield server


def failing_first(times: int, status: int = 503) -> Callable[[Request], int]:
    """An answer for each event: `status` for its first `times` requests, then 202."""
    seen: Counter[str] = Counter()
    lock = threading.Lock()

    def answer(request: Request) -> int:
        with lock:
            seen[request.id] += 1
            return status if seen[request.id] <= times else 202

    return answer


def finished(bench: Workbench, low: int, uid: str = "lane") -> None:
    """Wait until all below `low` is finished in the stored progress of a lane."""
    eventually(lambda: uid in bench.progress and bench.progress[uid].progress.low >= low, what=f"progress of {uid} at {low}")


def lane_report(bench: Workbench, uid: str = "lane") -> Any:
    """The last report of a lane."""

    def reported() -> Any:
        report = bench.report()
        return report and report.lanes.get(uid)

    return eventually(reported)


@pytest.mark.spec("DP-5", "DP-20", "CP-R3")
def test_an_event_arrives_in_binary_mode_with_all_it_had(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url("/in")))
    worker = bench.start({"lane": 0})
    headers: list[tuple[str, bytes | None]] = [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"id 1"),
        ("ce_source", b"/s"),
        ("ce_type", b"t"),
        ("ce_note", "Euro €".encode()),
        ("content-type", b"application/x-any"),
        ("traceparent", b"00-abc-def-01"),
        ("foreign", b"stays out"),
    ]
    worker.feed([frame(0, 0, headers=headers, value=b"\x00\xff body")])
    eventually(lambda: sink.requests)
    got = sink.requests[0]
    assert got.path == "/in"
    assert got.body == b"\x00\xff body"
    assert {
        name: got.headers[name] for name in ("ce-id", "ce-note", "content-type", "traceparent", "prefer", "kn-namespace")
    } == {
        "ce-id": "id%201",
        "ce-note": "Euro%20%E2%82%AC",
        "content-type": "application/x-any",
        "traceparent": "00-abc-def-01",
        "prefer": "reply",
        "kn-namespace": "ns",
    }
    assert (got.headers["ce-knativekafkapartition"], got.headers["ce-knativekafkaoffset"]) == ("0", "0")
    assert "foreign" not in got.headers


def test_place_extensions_of_an_earlier_hop_are_replaced_and_can_be_turned_off(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url()))
    worker = bench.start({"lane": 0})
    worker.events(3, knativekafkaoffset="99", knativekafkapartition="7")
    eventually(lambda: len(sink.requests) == 3)
    assert {request.headers["ce-knativekafkaoffset"] for request in sink.requests} == {"0", "1", "2"}
    worker.end_input()
    worker.join()
    other = bench.start({"lane": 3}, start=3, offset_extensions=False)
    other.events(1)
    eventually(lambda: len(sink.requests) == 4)
    assert "ce-knativekafkaoffset" not in sink.requests[3].headers


def test_json_format_sends_structured_events(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url(), format="json"))
    worker = bench.start({"lane": 0})
    worker.events(1, data=b'{"a":1}', datacontenttype="application/json")
    eventually(lambda: sink.requests)
    got = sink.requests[0]
    assert got.headers["content-type"].startswith("application/cloudevents+json")
    event = json.loads(got.body)
    assert (event["id"], event["data"], event["specversion"]) == ("0", {"a": 1}, "1.0")
    assert got.headers["prefer"] == "reply"


def test_only_matching_events_are_delivered_and_the_rest_counts_as_done(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url(), filter={"attributes": {"type": "wanted"}}))
    worker = bench.start({"lane": 0})
    worker.events(5, type="other")
    worker.events(2, type="wanted")
    worker.events(3, type="other")
    finished(bench, 10)
    assert sorted(sink.ids) == ["5", "6"]


@pytest.mark.spec("CP-R4", "CP-R11")
def test_two_subscriptions_with_one_destination_get_the_event_twice(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url("/1"), uid="one"), egress(sink.url("/1"), uid="two"))
    worker = bench.start({"one": 0, "two": 0})
    worker.events(1)
    eventually(lambda: len(sink.requests) == 2)


def test_events_that_hold_no_event_are_counted_and_skipped(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url()))
    worker = bench.start({"lane": 0})
    worker.feed([frame(0, 0, value=b"not an event"), frame(0, 1, headers=[("ce_id", b"\xff")]), None])
    worker._next = 2
    worker.events(1)
    eventually(lambda: sink.ids == ["2"])
    finished(bench, 3)
    eventually(lambda: (found := bench.report()) is not None and (found.events, found.discarded) == (3, 2))


# -- retries ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("DP-10", "DP-16", "CP-E2")
@pytest.mark.parametrize("status", [404, 408, 409, 429, 500, 503])
def test_a_retryable_answer_is_followed_by_another_attempt(bench: Workbench, status: int) -> None:
    with subscriber(failing_first(2, status)) as server:
        bench.subscribe(egress(server.url(), retry=3, delay=10))
        worker = bench.start({"lane": 0})
        worker.events(1)
        eventually(lambda: len(server.requests) == 3)
        finished(bench, 1)
        assert server.ids == ["0", "0", "0"]
        assert lane_report(bench).failed == 2


@pytest.mark.spec("CP-E2", "CP-X7")
def test_waits_between_attempts_follow_the_policy(bench: Workbench) -> None:
    with subscriber(500) as server:
        bench.subscribe(egress(server.url(), retry=3, delay=100, linear=False))
        worker = bench.start({"lane": 0})
        worker.events(1)
        eventually(lambda: lane_report(bench).dropped == 1)
        gaps = [after.at - before.at for before, after in zip(server.requests, server.requests[1:], strict=False)]
        assert len(gaps) == 3
        assert all(gap >= wait for gap, wait in zip(gaps, (0.2, 0.4, 0.8), strict=True))


@pytest.mark.spec("DP-17")
def test_retry_after_is_honoured_up_to_its_maximum(bench: Workbench) -> None:
    answers = iter([Answer(429, {"Retry-After": "60"}), Answer(202)])
    with subscriber(lambda request: next(answers)) as server:
        bench.subscribe(egress(server.url(), retry=3, delay=1, config={"retryAfterMax": 700}))
        worker = bench.start({"lane": 0})
        worker.events(1)
        eventually(lambda: len(server.requests) == 2)
        assert server.requests[1].at - server.requests[0].at >= 0.7


def test_a_timeout_counts_as_a_failed_attempt(bench: Workbench) -> None:
    answers = iter([Answer(202, delay=30), Answer(202)])
    with subscriber(lambda request: next(answers)) as server:
        bench.subscribe(egress(server.url(), retry=1, timeout=200))
        worker = bench.start({"lane": 0})
        worker.events(1)
        finished(bench, 1)
        assert len(server.requests) == 2
        assert "timeout" in lane_report(bench).last_error


@pytest.mark.spec("DP-11", "DP-12")
@pytest.mark.parametrize("status", [301, 400, 401, 403, 422])
def test_a_refusal_is_not_retried(bench: Workbench, dead_letters: Subscriber, status: int) -> None:
    with subscriber(status) as server:
        bench.subscribe(egress(server.url(), retry=5, delay=1, dead_letter=dead_letters.url()))
        worker = bench.start({"lane": 0})
        worker.events(1)
        eventually(lambda: dead_letters.requests)
        finished(bench, 1)
        assert len(server.requests) == 1


def test_an_unordered_lane_keeps_many_requests_under_way(bench: Workbench) -> None:
    with subscriber(Answer(202, delay=0.5)) as server:
        bench.subscribe(egress(server.url()))
        worker = bench.start({"lane": 0})
        worker.events(100)
        finished(bench, 100)
        assert 32 < server.most_open <= 64


def test_an_ordered_lane_keeps_one_request_under_way_and_the_order_also_through_failures(bench: Workbench) -> None:
    with subscriber(failing_first(1)) as server:
        bench.subscribe(egress(server.url(), ordered=True, retry=2, delay=1))
        worker = bench.start({"lane": 0})
        worker.events(40)
        finished(bench, 40)
        assert server.most_open == 1
        assert server.ids == [str(offset) for offset in range(40) for _ in range(2)]


def test_an_unordered_lane_goes_on_past_an_event_that_fails(bench: Workbench) -> None:
    with subscriber(lambda request: 500 if request.id == "3" else 202) as server:
        bench.subscribe(egress(server.url(), retry=20, delay=60_000))
        worker = bench.start({"lane": 0})
        worker.events(20)
        eventually(lambda: len(server.requests) == 20)
        eventually(lambda: "lane" in bench.progress and bench.progress["lane"].progress.position == 20)
        progress = bench.progress["lane"].progress
        assert progress.low == 3
        assert [(one.offset, one.attempts) for one in progress.stragglers] == [(3, 1)]


# -- dead letters -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("CP-E6", "CP-R5")
def test_a_dead_letter_says_where_it_failed_and_how(bench: Workbench, dead_letters: Subscriber) -> None:
    answer = Answer(422, {"Kne-Test": "foo", "Kne-A-B": "bad"}, b"x" * 2000)
    with subscriber(answer) as server:
        bench.subscribe(egress(server.url("/sub"), dead_letter=dead_letters.url("/dead")))
        worker = bench.start({"lane": 0})
        worker.events(1, data=b"payload", specversion="0.3", note="kept")
        eventually(lambda: dead_letters.requests)
        got = dead_letters.requests[0]
        assert (got.path, got.body) == ("/dead", b"payload")
        assert got.headers["ce-knativeerrordest"] == server.url("/sub")
        assert got.headers["ce-knativeerrorcode"] == "422"
        assert base64.b64decode(got.headers["ce-knativeerrordata"]) == b"x" * 1024
        assert (got.headers["ce-test"], got.headers["ce-note"], got.headers["ce-specversion"]) == ("foo", "kept", "0.3")
        assert got.headers["kn-namespace"] == "ns"
        assert "prefer" not in got.headers
        finished(bench, 1)
        assert lane_report(bench).dead_lettered == 1


@pytest.mark.spec("CP-E6")
def test_a_dead_letter_of_an_unreachable_subscriber_has_no_code(bench: Workbench, dead_letters: Subscriber) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        bench.subscribe(egress(url, retry=1, delay=1, dead_letter=dead_letters.url()))
        worker = bench.start({"lane": 0})
        worker.events(1, knativeerrorcode="418", knativeerrordest="old")
        eventually(lambda: dead_letters.requests)
        headers = dead_letters.requests[0].headers
        assert headers["ce-knativeerrordest"] == url
        assert headers["ce-knativeerrorcode"] == "418"
        assert "ce-knativeerrordata" not in headers


@pytest.mark.spec("CP-E7")
def test_the_dead_letter_sink_is_retried_with_the_same_policy(bench: Workbench) -> None:
    with subscriber(400) as server, subscriber(failing_first(2)) as letters:
        bench.subscribe(egress(server.url(), retry=2, delay=1, dead_letter=letters.url()))
        worker = bench.start({"lane": 0})
        worker.events(1)
        finished(bench, 1)
        assert (len(server.requests), len(letters.requests)) == (1, 3)
        assert lane_report(bench).dead_lettered == 1


@pytest.mark.spec("CP-E6")
@pytest.mark.parametrize("sink_status", [None, 400, 500])
def test_an_event_without_a_way_out_is_counted_and_skipped(bench: Workbench, sink_status: int | None) -> None:
    with subscriber(lambda request: 400 if request.id == "1" else 202) as server, subscriber(sink_status or 202) as letters:
        dead_letter = letters.url() if sink_status else ""
        bench.subscribe(egress(server.url(), ordered=True, retry=1, delay=1, dead_letter=dead_letter))
        worker = bench.start({"lane": 0})
        worker.events(3)
        finished(bench, 3)
        assert server.ids == ["0", "1", "2"]
        eventually(lambda: lane_report(bench).dropped == 1)
        assert lane_report(bench).delivered == 2


def test_what_a_dead_letter_sink_answers_is_no_reply(bench: Workbench) -> None:
    with subscriber(400) as server, subscriber(Answer(200, REPLY, b"answer")) as letters:
        bench.subscribe(egress(server.url(), dead_letter=letters.url(), reply_to_original_topic=True))
        worker = bench.start({"lane": 0})
        worker.events(1)
        finished(bench, 1)
        assert bench.records() == []


# -- replies ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("DP-4", "DP-21", "CP-R6", "CP-E4")
@pytest.mark.parametrize("structured", [False, True])
def test_a_reply_goes_to_the_topic_before_the_event_counts_as_delivered(bench: Workbench, structured: bool) -> None:
    if structured:
        event = {"specversion": "1.0", "id": "r", "source": "/reply", "type": "reply.type", "subject": "k", "data": "x"}
        answer = Answer(200, {"content-type": "application/cloudevents+json"}, json.dumps(event).encode())
    else:
        answer = Answer(200, {**REPLY, "ce-subject": "k"}, b"x")
    with subscriber(answer) as server:
        bench.subscribe(egress(server.url(), reply_to_original_topic=True))
        worker = bench.start({"lane": 0})
        worker.events(1)
        finished(bench, 1)
        [(key, headers, value)] = bench.records()
        assert key == b"k"
        assert dict(headers)["ce_type"] == b"reply.type"
        assert value == (b'"x"' if structured else b"x")


@pytest.mark.spec("DP-22")
def test_a_202_is_never_a_reply(bench: Workbench) -> None:
    with subscriber(Answer(202, REPLY, b"x")) as server:
        bench.subscribe(egress(server.url(), reply_to_original_topic=True))
        worker = bench.start({"lane": 0})
        worker.events(1)
        finished(bench, 1)
        assert lane_report(bench).delivered == 1
        assert bench.records() == []


@pytest.mark.spec("DP-21")
def test_a_body_that_does_not_say_it_is_an_event_is_no_reply(bench: Workbench) -> None:
    with subscriber(Answer(200, {"content-type": "text/plain"}, b"OK")) as server:
        bench.subscribe(egress(server.url(), reply_to_original_topic=True))
        worker = bench.start({"lane": 0})
        worker.events(1)
        finished(bench, 1)
        assert lane_report(bench).delivered == 1
        assert bench.records() == []


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, {"ce-specversion": "1.0", "ce-id": "1"}, b"x"),
        Answer(200, {"content-type": "application/cloudevents+json"}, b"{"),
        Answer(200, {**REPLY, "ce-specversion": "9.9"}),
        Answer(200, {"content-type": "application/cloudevents-batch+json"}, b"[]"),
        Answer(200, REPLY, b"x" * 3_000_000),
    ],
    ids=["attributes missing", "not json", "unknown version", "batch", "too large"],
)
def test_a_malformed_reply_is_a_failed_delivery(bench: Workbench, dead_letters: Subscriber, answer: Answer) -> None:
    with subscriber(answer) as server:
        bench.subscribe(egress(server.url(), retry=1, delay=1, dead_letter=dead_letters.url(), reply_to_original_topic=True))
        worker = bench.start({"lane": 0})
        worker.events(1)
        finished(bench, 1)
        assert len(server.requests) == 2
        assert dead_letters.requests[0].headers["ce-knativeerrorcode"] == "200"
        assert bench.records() == []


def _of_unknown_length(handler: Any) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in REPLY.items())
    handler.wfile.write(f"HTTP/1.1 200 OK\r\nConnection: close\r\n{lines}\r\n".encode())
    with contextlib.suppress(OSError):
        handler.wfile.write(b"x" * 900_000)


@pytest.mark.parametrize(
    "answer", [Answer(200, REPLY, b"x" * 900_000), Answer(raw=_of_unknown_length)], ids=["length", "no length"]
)
def test_replies_that_arrive_together_are_taken_one_after_the_other_when_memory_is_short(
    bench: Workbench, answer: Answer
) -> None:
    with subscriber(answer) as server:
        bench.subscribe(egress(server.url(), reply_to_original_topic=True))
        worker = bench.start({"lane": 0}, limits=Limits(budget_bytes=4_000_000))
        worker.events(12)
        finished(bench, 12)
        assert len(bench.records()) == 12
        assert lane_report(bench).failed == 0


@pytest.mark.spec("CP-R8")
def test_a_reply_that_can_not_be_stored_has_the_whole_delivery_tried_again(
    bench: Workbench, admin: Admin, dead_letters: Subscriber
) -> None:
    bench.topics.append(small := f"{bench.instance}-small")
    admin.create_topic(small, 1, config={"max.message.bytes": "1000"})
    bench.topic = small
    with subscriber(Answer(200, REPLY, b"x" * 5000)) as server:
        bench.subscribe(egress(server.url(), retry=2, delay=1, dead_letter=dead_letters.url(), reply_to_original_topic=True))
        worker = bench.start({"lane": 0})
        worker.events(1)
        eventually(lambda: dead_letters.requests)
        assert len(server.requests) == 3
        assert dead_letters.requests[0].headers["ce-knativeerrordest"] == server.url()
        finished(bench, 1)


@pytest.mark.spec("CP-S5")
def test_without_a_reply_strategy_replies_are_discarded(bench: Workbench) -> None:
    with subscriber(Answer(200, {"ce-specversion": "broken"}, b"x")) as server:
        bench.subscribe(egress(server.url(), discard_reply=True))
        worker = bench.start({"lane": 0})
        worker.events(1)
        finished(bench, 1)
        assert lane_report(bench).delivered == 1
        assert server.requests[0].headers["prefer"] == "reply"


@pytest.mark.spec("CP-R9")
def test_hops_of_replies_are_limited_if_asked(bench: Workbench) -> None:
    with subscriber(Answer(200, REPLY, b"x")) as server:
        bench.subscribe(egress(server.url(), reply_to_original_topic=True))
        worker = bench.start({"lane": 0}, hop_limit=2)
        worker.events(1)
        worker.events(1, headracehops="1")
        worker.events(1, headracehops="2")
        finished(bench, 3)
        assert sorted(dict(headers)["ce_headracehops"] for _, headers, _ in bench.records()) == [b"1", b"2"]


@pytest.mark.spec("CP-R9")
def test_a_subscriptions_own_hop_limit_counts_first(bench: Workbench) -> None:
    with subscriber(Answer(200, REPLY, b"x")) as server:
        bench.subscribe(egress(server.url(), reply_to_original_topic=True, headrace={"hopLimit": 1}))
        worker = bench.start({"lane": 0}, hop_limit=9)
        worker.events(1)
        worker.events(1, headracehops="1")
        finished(bench, 2)
        assert [dict(headers)["ce_headracehops"] for _, headers, _ in bench.records()] == [b"1"]


@pytest.mark.spec("CP-E4")
@pytest.mark.parametrize(
    ("case", "subscriber_fails", "reply_fails", "subscriber_calls", "reply_calls", "letters"),
    [
        ("sub1", 1, None, 2, 0, 0),
        ("sub2", 1, 0, 2, 1, 0),
        ("sub3", 1, 1, 2, 2, 0),
        ("sub4", 1, 2, 2, 2, 1),
    ],
)
def test_a_reply_url_is_retried_without_calling_the_subscriber_again(
    bench: Workbench,
    dead_letters: Subscriber,
    case: str,
    subscriber_fails: int,
    reply_fails: int | None,
    subscriber_calls: int,
    reply_calls: int,
    letters: int,
) -> None:
    fails = failing_first(subscriber_fails)

    def answer(request: Request) -> Answer | int:
        status = fails(request)
        return status if status != 202 or reply_fails is None else Answer(200, REPLY, b"answer")

    with subscriber(answer) as server, subscriber(failing_first(reply_fails or 0)) as replies:
        bench.subscribe(
            egress(
                server.url(), ordered=True, retry=1, delay=1, dead_letter=dead_letters.url(), reply_url=replies.url("/reply")
            )
        )
        worker = bench.start({"lane": 0})
        worker.events(1)
        finished(bench, 1)
        assert (len(server.requests), len(replies.requests)) == (subscriber_calls, reply_calls)
        assert len(dead_letters.requests) == letters
        if replies.requests:
            assert (replies.requests[0].id, replies.requests[0].body) == ("r", b"answer")
            assert "prefer" not in replies.requests[0].headers
        if letters:
            assert dead_letters.requests[0].id == "0"
            assert dead_letters.requests[0].headers["ce-knativeerrorcode"] == "503"
