"""A worker in hard times: Kafka away, large events, many lanes, subscribers that misbehave."""

from __future__ import annotations

import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.core.contract import DeliveryOrder
from headrace.dispatcher.spec import Limits
from headrace.dispatcher.worker.publisher import TIMEOUT_MS
from headrace.kafka.admin import Admin
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.java import java_home
from tests.support.frames import event_frame
from tests.support.subscriber import Answer, Request, Subscriber, subscriber
from tests.support.waiting import eventually
from tests.support.workbench import Workbench, egress

MIB = 1 << 20


def finished(bench: Workbench, low: int, uid: str = "lane", timeout: float = 60.0) -> None:
    eventually(
        lambda: uid in bench.progress and bench.progress[uid].progress.low >= low,
        timeout,
        what=f"progress of {uid} at {low}, is {bench.progress.get(uid)}",
    )


@pytest.mark.timeout(600)
def test_a_kafka_that_is_away_holds_up_no_delivery_and_progress_and_replies_follow_when_it_is_back(tmp_path: Path) -> None:
    reply = {"ce-specversion": "1.0", "ce-id": "r", "ce-source": "/r", "ce-type": "t"}
    with subscriber(lambda request: Answer(200, reply) if request.path == "/reply" else 202) as server:
        with EmbeddedKafka(tmp_path, java=java_home("auto")) as kafka:
            settings = kafka.settings
            bench = Workbench(settings, Admin(settings))
            bench.subscribe(egress(server.url("/plain"), uid="plain"))
            bench.subscribe(egress(server.url("/reply"), uid="replies", reply_to_original_topic=True))
            worker = bench.start({"plain": 0, "replies": 0})
            worker.events(5)
            finished(bench, 5, "plain")
            finished(bench, 5, "replies")
        worker.events(5)
        eventually(lambda: sum(request.path == "/plain" for request in server.requests) == 10)
        # Long enough for Kafka's client to give a reply up.
        began = time.monotonic()
        eventually(lambda: time.monotonic() - began > TIMEOUT_MS / 1000 + 1)
        with EmbeddedKafka(tmp_path, java=java_home("auto"), port=kafka.port):
            finished(bench, 10, "plain")
            finished(bench, 10, "replies")
            assert len(bench.records()) == 10
            assert sum(request.path == "/reply" for request in server.requests) == 10
            assert worker.exited is None
            bench.close()


def test_large_events_in_many_lanes_stay_within_the_memory(bench: Workbench, tmp_path: Path) -> None:
    gate = threading.Event()

    def hold(request: Request) -> int:
        gate.wait(120)
        return 202

    with subscriber(hold) as slow, subscriber() as fast:
        uids = [f"lane-{number}" for number in range(40)]
        bench.subscribe(*(egress(slow.url() if uid != "lane-0" else fast.url(), uid=uid, ordered=True) for uid in uids))
        bench.begin_run()
        limits = Limits(ring_bytes=8 * MIB, budget_bytes=16 * MIB)
        process = bench.spawn(bench.spec(dict.fromkeys(uids, 0), limits=limits), tmp_path)
        process.feed(event_frame(0, 0))
        eventually(lambda: fast.requests and slow.requests)
        before = process.peak_memory()
        for offset in range(1, 150):
            process.feed(event_frame(0, offset, data=b"x" * MIB))
        eventually(lambda: len(fast.requests) == 150, timeout=120)
        assert process.peak_memory() - before < 60 * MIB
        gate.set()
        process.end_input()
        assert process.wait() == 0


def test_subscribers_that_misbehave_cost_attempts_and_nothing_else(bench: Workbench) -> None:
    tricks = ["reset", "half", "junk", "endless", "500", "slow", "hang up", "fine"]

    def trick(handler: Any, name: str) -> None:
        connection = handler.connection
        if name == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif name == "half":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf")
        elif name == "junk":
            handler.wfile.write(b"\x00\x01\x02 what\r\n\r\n")
        elif name == "endless":
            handler.wfile.write(b"HTTP/1.1 503 Busy\r\n\r\n")
            try:
                while True:
                    handler.wfile.write(b"x" * 65536)
            except OSError:
                pass

    seen: dict[str, int] = {}
    lock = threading.Lock()

    def answer(request: Request) -> Answer | int:
        with lock:
            count = seen[request.id] = seen.get(request.id, 0) + 1
        name = tricks[(int(request.id) + count) % len(tricks)] if count < 4 else "fine"
        if name in ("fine", "500"):
            return 202 if name == "fine" else 500
        if name == "slow":
            return Answer(202, delay=3.0)
        return Answer(raw=lambda handler: trick(handler, name))

    with subscriber(answer) as server:
        bench.subscribe(egress(server.url(), uid="plain", retry=8, delay=5, timeout=1000))
        bench.subscribe(egress(server.url(), uid="ordered", ordered=True, retry=8, delay=5, timeout=1000))
        worker = bench.start({"plain": 0, "ordered": 0})
        worker.events(24)
        finished(bench, 24, "plain")
        finished(bench, 24, "ordered", timeout=120)
        report = bench.report()
        assert report is not None
        assert {uid: (lane.delivered, lane.dropped) for uid, lane in report.lanes.items()} == {
            "plain": (24, 0),
            "ordered": (24, 0),
        }


def test_a_hundred_lanes_with_one_type_each_get_what_is_theirs(bench: Workbench, sink: Subscriber) -> None:
    uids = [f"lane-{number}" for number in range(100)]
    bench.subscribe(
        *(egress(sink.url(f"/{uid}"), uid=uid, filter={"attributes": {"type": f"type.{uid}"}}, ordered=True) for uid in uids)
    )
    worker = bench.start(dict.fromkeys(uids, 0))
    for _ in range(3):
        for uid in uids:
            worker.events(1, type=f"type.{uid}")
    eventually(lambda: len(sink.requests) == 300)
    assert all(request.headers["ce-type"] == f"type.{request.path[1:]}" for request in sink.requests)
    for uid in uids:
        finished(bench, 300, uid)


@pytest.mark.parametrize("order", list(DeliveryOrder))
def test_a_restart_in_the_middle_repeats_nothing_after_a_drain_whatever_the_order(
    bench: Workbench, order: DeliveryOrder
) -> None:
    failing = {7, 23, 41}
    seen: dict[str, int] = {}
    lock = threading.Lock()

    def answer(request: Request) -> Answer | int:
        with lock:
            count = seen[request.id] = seen.get(request.id, 0) + 1
        return 503 if int(request.id) in failing and count <= 3 else Answer(202, delay=0.01)

    with subscriber(answer) as server:
        bench.produce_events(60)
        bench.subscribe(egress(server.url(), retry=20, delay=150, headrace={"order": order.value}))
        worker = bench.start({"lane": 0})
        worker.events(60, key=b"k")
        eventually(lambda: "7" in seen and len(seen) > (7 if order is not DeliveryOrder.UNORDERED else 40))
        bench.drain()
        eventually(lambda: (report := bench.report()) is not None and report.goodbye)
        worker.end_input()
        worker.join()
        bench.read_progress()
        record = bench.progress["lane"]
        position = record.progress.position
        again = bench.start({"lane": record}, start=position)
        again._next = position
        again.events(60 - position, key=b"k")
        finished(bench, 60)
        good = [one for one in server.ids if int(one) not in failing]
        assert sorted(map(int, good)) == [offset for offset in range(60) if offset not in failing]
        assert {one: seen[str(one)] for one in failing} == dict.fromkeys(failing, 4)
        if order is not DeliveryOrder.UNORDERED:
            firsts = list(dict.fromkeys(map(int, server.ids)))
            assert firsts == sorted(firsts)


def test_an_idle_worker_uses_next_to_no_cpu(bench: Workbench, sink: Subscriber, tmp_path: Path) -> None:
    bench.subscribe(egress(sink.url()))
    bench.begin_run()
    process = bench.spawn(bench.spec({"lane": 0}), tmp_path)
    process.feed(event_frame(0, 0))
    eventually(lambda: sink.requests)
    before, began = process.cpu_seconds(), time.monotonic()
    count = len(bench.reports)
    eventually(lambda: len(bench.reports) >= count + 3)
    share = (process.cpu_seconds() - before) / (time.monotonic() - began)
    process.end_input()
    process.wait()
    assert share < 0.10
