"""A worker's life: contract changes, restarts, drains, fences, failures, against a real Kafka."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.core.contract import Resource, dump
from headrace.core.contractlog import ContractState
from headrace.core.progress import Progress, ProgressRecord, Straggler
from headrace.dispatcher.config import Timing
from headrace.dispatcher.spec import LaneOrders, Limits, Mode
from tests.support.frames import event_frame, frame
from tests.support.subscriber import Answer, Subscriber, subscriber
from tests.support.waiting import eventually
from tests.support.workbench import TOPIC_ID, Workbench, egress


def finished(bench: Workbench, low: int, uid: str = "lane") -> None:
    eventually(lambda: uid in bench.progress and bench.progress[uid].progress.low >= low, what=f"progress of {uid} at {low}")


# -- the contract -----------------------------------------------------------------------------------------------------


def test_a_new_subscription_starts_at_its_initial_position_without_a_restart(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url("/old"), uid="old"))
    worker = bench.start({"old": 0})
    worker.events(5)
    finished(bench, 5, "old")
    bench.initial("new", 3)
    bench.applied(bench.subscribe(egress(sink.url("/new"), uid="new")))
    worker.events(2)
    finished(bench, 7, "new")
    assert sorted(request.id for request in sink.requests if request.path == "/new") == ["3", "4", "5", "6"]
    assert sorted(request.id for request in sink.requests if request.path == "/old") == ["0", "1", "2", "3", "4", "5", "6"]


def test_a_subscription_whose_position_comes_late_starts_when_it_is_there(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url(), uid="late"))
    worker = bench.start()
    worker.events(1)
    eventually(lambda: (report := bench.report()) is not None and "PositionUnknown" in report.closed.get("late", ""))
    bench.initial("late", 0)
    finished(bench, 1, "late")
    assert sink.ids == ["0"]
    eventually(lambda: (report := bench.report()) is not None and not report.closed and "late" in report.lanes)


def test_a_removed_subscription_gets_nothing_more_and_writes_no_progress(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url("/keep"), uid="keep"))
    with subscriber(Answer(delay=30)) as slow:
        bench.subscribe(egress(slow.url(), uid="gone"))
        worker = bench.start({"keep": 0, "gone": 0})
        worker.events(3)
        eventually(lambda: len(slow.requests) == 3)
        bench.applied(bench.unsubscribe("gone"))
        written = len([key for key, _ in bench.progress_history if key.startswith("gone/")])
        worker.events(3)
        finished(bench, 6, "keep")
        assert len(slow.requests) == 3
        report = bench.report()
        assert report is not None
        assert set(report.lanes) == {"keep"}
        assert len([key for key, _ in bench.progress_history if key.startswith("gone/")]) == written


def test_what_a_removed_subscription_has_done_is_stored_before_it_is_said_to_be_gone(bench: Workbench) -> None:
    uids = [f"gone-{number}" for number in range(5)]
    with subscriber(lambda request: Answer(delay=60 if int(request.id) % 2 else 0)) as server:
        bench.subscribe(*(egress(server.url(), uid=uid, ordered=True, filter={"attributes": {"type": uid}}) for uid in uids))
        worker = bench.start(dict.fromkeys(uids, 0))
        for number, uid in enumerate(uids):
            _, second = worker.events(2, type=uid)
            eventually(lambda second=second: str(second) in server.ids)  # type: ignore[misc]
            bench.applied(bench.unsubscribe(uid))
            bench.read_progress()
            assert (number, bench.progress[uid].progress.low) == (number, second)


@pytest.mark.parametrize("begin", [0, 3, 5])
def test_a_new_subscription_that_wants_nothing_of_the_past_moves_on_past_it(
    bench: Workbench, sink: Subscriber, begin: int
) -> None:
    bench.subscribe(egress(sink.url("/old"), uid="old"))
    worker = bench.start({"old": 0})
    worker.events(5)
    finished(bench, 5, "old")
    bench.initial("new", begin)
    bench.subscribe(egress(sink.url("/new"), uid="new", filter={"attributes": {"type": "no"}}))
    finished(bench, 5, "new")
    worker.events(1)
    finished(bench, 6, "new")
    assert {request.path for request in sink.requests} == {"/old"}


def test_a_changed_destination_and_filter_take_effect_on_what_was_not_sent_yet(bench: Workbench, sink: Subscriber) -> None:
    with subscriber(Answer(500)) as broken:
        bench.subscribe(egress(broken.url(), ordered=True, retry=100, delay=50))
        worker = bench.start({"lane": 0})
        worker.events(1)
        worker.events(1, type="unwanted")
        worker.events(1)
        eventually(lambda: len(broken.requests) > 1)
        changed = egress(sink.url(), ordered=True, retry=100, delay=50, filter={"attributes": {"type": "test.event"}})
        bench.subscribe(changed)
        finished(bench, 3)
        assert sink.ids == ["0", "2"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"destination_audience": "a"}, "destinationAudience"),
        ({"filter": {"attributes": {"BAD NAME": "x"}}}, "BAD NAME"),
        ({"headrace": {"order": "SOMEHOW"}}, "order"),
        ({"headrace": {"maxRate": "fast"}}, "maxRate"),
        ({"destination_ca_certs": "junk"}, "CACerts"),
    ],
)
def test_an_egress_that_can_not_be_served_is_closed_with_a_reason_and_the_others_go_on(
    bench: Workbench, sink: Subscriber, change: dict[str, object], reason: str
) -> None:
    bench.subscribe(egress(sink.url("/good"), uid="good"))
    bench.subscribe(egress(sink.url("/bad").replace("http:", "https:"), uid="bad", **change))
    worker = bench.start({"good": 0, "bad": 0})
    worker.events(1)
    finished(bench, 1, "good")
    eventually(lambda: (report := bench.report()) is not None and reason in report.closed.get("bad", ""))
    assert all("bad" not in report.lanes for report in bench.reports)
    assert [request.path for request in sink.requests] == ["/good"]
    bench.subscribe(egress(sink.url("/good2"), uid="bad"))
    finished(bench, 1, "bad")


def test_a_contract_record_that_can_not_be_read_leaves_the_old_one_in_force(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url()))
    worker = bench.start({"lane": 0})
    bench.applied(bench.contract.put("lane", b"{not json"))
    worker.events(1)
    finished(bench, 1)


def test_egresses_of_other_topics_and_other_kafkas_are_left_alone(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url("/mine")))
    for uid, topic, servers in (("a", "other", bench.kafka.bootstrap_servers), ("b", bench.topic, "elsewhere:9092")):
        made = Resource(uid=uid, topics=(topic,), bootstrap_servers=servers, egresses=(egress(sink.url("/other"), uid=uid),))
        bench.contract.put(uid, dump(made))
    worker = bench.start({"lane": 0, "a": 0, "b": 0})
    worker.events(1)
    finished(bench, 1)
    assert [request.path for request in sink.requests] == ["/mine"]
    report = bench.report()
    assert report is not None
    assert set(report.lanes) == {"lane"}


# -- stopping and going on --------------------------------------------------------------------------------------------


def test_a_drain_lets_requests_end_and_the_next_run_repeats_nothing(bench: Workbench) -> None:
    with subscriber(Answer(delay=0.3)) as server:
        bench.subscribe(egress(server.url()))
        worker = bench.start({"lane": 0})
        worker.events(200)
        eventually(lambda: len(server.requests) >= 64)
        bench.drain()
        eventually(lambda: (report := bench.report()) is not None and report.goodbye)
        sent = len(server.requests)
        assert sent < 200
        assert worker.running
        worker.end_input()
        worker.join()
        bench.read_progress()
        record = bench.progress["lane"]
        position = record.progress.position
        after = bench.start({"lane": record}, start=position)
        after._next = position
        after.events(200 - position)
        finished(bench, 200)
        assert sorted(server.ids, key=int) == [str(offset) for offset in range(200)]


def test_a_drain_while_it_is_in_doubt_what_was_read_repeats_nothing_else(bench: Workbench, sink: Subscriber) -> None:
    bench.produce_events(5)
    bench.subscribe(egress(sink.url()))
    worker = bench.start({"lane": 0})
    worker.events(5)
    worker._next = 9
    worker.events(2)
    eventually(lambda: len(sink.requests) == 7)
    bench.drain()
    worker.end_input()
    worker.join()
    bench.read_progress()
    progress = bench.progress["lane"].progress
    assert (progress.low, progress.done) == (5, ((9, 10),))


def test_any_number_of_gaps_is_looked_into_by_one_thread(bench: Workbench, sink: Subscriber) -> None:
    # Workers of other tests may still be on their way out.
    before = set(threading.enumerate())
    bench.subscribe(egress(sink.url()))
    worker = bench.start({"lane": 0})
    for number in range(100):
        worker._next = 3 * number
        worker.events(1)
    eventually(lambda: len(sink.requests) == 100)
    assert len([thread for thread in set(threading.enumerate()) - before if "lookup" in thread.name]) == 1
    assert bench.progress.get("lane") is None or bench.progress["lane"].progress.low == 1
    bench.produce_events(1)
    bench.expire(1)
    bench.produce_events(297)
    bench.expire(298)
    finished(bench, 298)


def test_what_is_not_done_after_the_grace_is_broken_off_and_repeated(bench: Workbench) -> None:
    with subscriber(lambda request: Answer(delay=20 if request.id == "1" else 0)) as server:
        bench.subscribe(egress(server.url()))
        worker = bench.start({"lane": 0}, grace=0.3)
        worker.events(4)
        eventually(lambda: len(server.requests) == 4)
        eventually(lambda: bench.progress.get("lane") and bench.progress["lane"].progress.position == 1)
        began = time.monotonic()
        bench.drain()
        worker.end_input()
        worker.join()
        assert time.monotonic() - began < 10
        bench.read_progress()
        progress = bench.progress["lane"].progress
        assert (progress.low, progress.done) == (1, ((2, 3),))


def test_an_input_that_ends_without_a_drain_ends_the_worker_with_a_goodbye(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url()))
    worker = bench.start({"lane": 0})
    worker.events(3)
    finished(bench, 3)
    worker.end_input()
    worker.join()
    assert worker.exited is None
    report = eventually(lambda: (last := bench.report()) is not None and last.goodbye and last)
    assert report


def test_after_an_abort_nothing_new_is_sent(bench: Workbench) -> None:
    with subscriber(lambda request: 500 if request.id == "0" else 202) as server:
        bench.subscribe(egress(server.url(), ordered=True, retry=50, delay=100))
        worker = bench.start({"lane": 0})
        worker.events(3)
        eventually(lambda: len(server.requests) == 2)
        worker.end_input()
        worker.join()
        attempts = len(server.requests)
        assert set(server.ids) == {"0"}
        bench.read_progress()
        assert bench.progress["lane"].progress.stragglers[0].attempts == attempts


def test_attempts_go_on_counting_in_the_next_run(bench: Workbench) -> None:
    with subscriber(500) as server, subscriber() as letters:
        bench.subscribe(egress(server.url(), retry=3, delay=1, dead_letter=letters.url()))
        progress = Progress.of(5, (), [Straggler(2, 3, 1_700_000_000_000)])
        headers = [("ce_specversion", b"1.0"), ("ce_id", b"two"), ("ce_source", b"/s"), ("ce_type", b"t")]
        bench.produce(5, 2, headers, b"data")
        bench.start({"lane": ProgressRecord(progress, "lane", TOPIC_ID)}, start=5)
        eventually(lambda: letters.requests)
        assert letters.ids == ["two"]
        assert letters.requests[0].body == b"data"
        assert len(server.requests) == 1
        finished(bench, 5)


@pytest.mark.parametrize(("ordered", "at", "failed"), [(False, 5, 2), (True, 5, 2), (True, 2, 3)])
def test_an_event_that_failed_before_waits_its_time_in_every_worker_and_keeps_its_attempts(
    bench: Workbench, ordered: bool, at: int, failed: int
) -> None:
    headers = [("ce_specversion", b"1.0"), ("ce_id", str(failed).encode()), ("ce_source", b"/s"), ("ce_type", b"t")]
    bench.produce(5, failed, headers, b"data")
    with subscriber(lambda request: 500 if request.id == str(failed) else 202) as server:
        bench.subscribe(egress(server.url(), ordered=ordered, retry=10, delay=60_000))
        since = int(time.time() * 1000) - (60_000 + 120_000)
        record = ProgressRecord(Progress.of(at, (), [Straggler(failed, 3, since)]), "lane", TOPIC_ID)
        for _ in range(2):
            worker = bench.start({"lane": record}, start=at)
            worker._next = at
            worker.events(2)
            run = bench.run
            eventually(lambda run=run: sum(one.run == run and "lane" in one.lanes for one in bench.reports) > 3)  # type: ignore[misc]
            bench.drain()
            worker.end_input()
            worker.join()
        assert str(failed) not in server.ids
        stored = [list(one.progress.stragglers) for _, one in bench.progress_history]
        assert all(waiting == [Straggler(failed, 3, since)] for waiting in stored)
        late = Progress.of(at, (), [Straggler(failed, 3, since - 180_001)])
        worker = bench.start({"lane": ProgressRecord(late, "lane", TOPIC_ID)}, start=at)
        worker._next = at
        worker.events(2)
        eventually(lambda: str(failed) in server.ids)


def test_a_straggler_that_retention_took_is_counted_as_lost(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url()))
    bench.produce_events(5)
    bench.expire(4)
    progress = Progress.of(5, (), [Straggler(2, 3, 1)])
    bench.start({"lane": ProgressRecord(progress, "lane", TOPIC_ID)}, start=5)
    finished(bench, 5)
    eventually(lambda: (report := bench.report()) is not None and report.lanes["lane"].lost == 1)
    assert sink.requests == []


def test_a_straggler_above_a_transaction_that_is_still_open_is_there_as_it_is_for_spark(
    bench: Workbench, sink: Subscriber
) -> None:
    bench.subscribe(egress(sink.url(), retry=5))
    open_ = Producer(bench.kafka.client(**{"transactional.id": bench.instance}))
    open_.init_transactions()
    open_.begin_transaction()
    open_.produce(bench.topic, value=b"", partition=0)
    open_.flush(20)
    bench.produce_events(1)
    progress = Progress.of(2, (), [Straggler(1, 1, 1)])
    bench.start({"lane": ProgressRecord(progress, "lane", TOPIC_ID)}, start=2)
    finished(bench, 2)
    assert len(sink.requests) == 1
    open_.abort_transaction()


def test_an_ordered_lane_serves_its_old_straggler_first(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url(), ordered=True, retry=5, delay=200))
    headers = [("ce_specversion", b"1.0"), ("ce_id", b"old"), ("ce_source", b"/s"), ("ce_type", b"t")]
    bench.produce(5, 2, headers, b"")
    progress = Progress.of(5, (), [Straggler(2, 1, 1)])
    worker = bench.start({"lane": ProgressRecord(progress, "lane", TOPIC_ID)}, start=5)
    worker._next = 5
    worker.events(2)
    finished(bench, 7)
    assert sink.ids == ["old", "5", "6"]


def test_an_idle_worker_learns_its_partition_from_orders(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url()))
    bench.start({"lane": 0}, partitions=())
    eventually(lambda: (report := bench.report()) is not None and report.contract_offset >= 0)
    assert all(not report.lanes for report in bench.reports)
    bench.contract.put(*LaneOrders(partitions=(0,)).record(bench.run))
    eventually(lambda: (report := bench.report()) is not None and "lane" in report.lanes)


def test_a_record_of_another_uid_or_topic_is_no_position(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url()))
    foreign = ProgressRecord(Progress.initial(9), "lane", "another-topic-id")
    bench.start({"lane": foreign})
    eventually(lambda: (report := bench.report()) is not None and "PositionUnknown" in report.closed.get("lane", ""))


def test_the_heartbeat_says_what_goes_on(bench: Workbench) -> None:
    with subscriber(
        lambda request: Answer(delay=30) if request.id == "2" else Answer(500 if request.id == "1" else 202)
    ) as server:
        offset = bench.subscribe(egress(server.url(), retry=9, delay=60_000))
        worker = bench.start({"lane": 0})
        worker.events(4)
        report = eventually(lambda: (r := bench.report()) is not None and r.lanes and r.lanes["lane"].delivered == 2 and r)
        assert report
        assert report.contract_offset >= offset
        assert (report.topic, report.topic_id, report.index, report.workers, report.head) == (bench.topic, TOPIC_ID, 0, 1, 4)
        lane = report.lanes["lane"]
        assert (lane.state, lane.position, lane.in_flight, lane.retrying, lane.failed) == ("LIVE", 2, 1, 1, 1)
        assert "500" in lane.last_error
        assert report.ring_events == 4
        later = eventually(lambda: (r := bench.report()) is not None and r.lanes["lane"].oldest_ms > 1000 and r)
        assert later


def test_a_full_ring_makes_the_reader_wait_and_loses_nothing(bench: Workbench) -> None:
    with subscriber(Answer(delay=0.005)) as server:
        bench.subscribe(egress(server.url(), ordered=True))
        worker = bench.start({"lane": 0}, limits=Limits(ring_events=20))
        for _ in range(10):
            worker.events(20)
        eventually(lambda: (report := bench.report()) is not None and report.ring_events >= 20)
        finished(bench, 200)
        assert server.ids == [str(offset) for offset in range(200)]
        assert max(report.ring_events for report in bench.reports) <= 20


# -- what the driver had read of the contract ---------------------------------------------------------------------------


def test_a_worker_goes_on_from_what_the_driver_had_read(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url("/long-ago")))
    bench.begin_run()
    offset = bench.subscribe(egress(sink.url("/unread"), uid="other"))
    read = ContractState(runs={bench.topic: bench.run}, offset=offset)
    known = Resource(
        uid="lane",
        topics=(bench.topic,),
        bootstrap_servers=bench.kafka.bootstrap_servers,
        egresses=(egress(sink.url("/known")),),
    )
    read.apply("lane", dump(known), offset)
    worker = bench.start_with(bench.spec({"lane": 0, "other": 0}, contract=read))
    worker.events(1)
    finished(bench, 1)
    assert [request.path for request in sink.requests] == ["/known"]
    bench.applied(bench.subscribe(egress(sink.url("/changed"))))
    worker.events(1)
    finished(bench, 2)
    assert [request.path for request in sink.requests] == ["/known", "/changed"]
    assert bench.report().contract_offset > offset  # type: ignore[union-attr]


def test_a_worker_reads_what_came_after_the_driver_had_read(bench: Workbench, sink: Subscriber) -> None:
    offset = bench.subscribe(egress(sink.url("/old")))
    bench.begin_run()
    bench.subscribe(egress(sink.url("/new")))
    worker = bench.start_with(bench.spec({"lane": 0}, contract=ContractState(offset=offset)))
    worker.events(1)
    finished(bench, 1)
    assert [request.path for request in sink.requests] == ["/new"]


# -- in a process of its own ------------------------------------------------------------------------------------------


def test_a_worker_of_a_second_batch_delivers_nothing_and_ends(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url()))
    worker = bench.start({"lane": 0}, due=time.time() - 1)
    worker.events(1)
    eventually(lambda: worker.exited == 1)
    assert sink.requests == []


@pytest.mark.parametrize(("mode", "more"), [(Mode.LIVE, 0), (Mode.CATCHUP, 10)])
def test_the_worker_of_a_job_leaves_the_processors_to_live_ones(
    bench: Workbench, sink: Subscriber, tmp_path: Path, mode: Mode, more: int
) -> None:
    bench.subscribe(egress(sink.url()))
    bench.begin_run()
    of_job: dict[str, Any] = {} if mode is Mode.LIVE else {"job": f"{bench.run}.0001", "ends": {0: 2}, "due": time.time() + 60}
    process = bench.spawn(bench.spec({"lane": 0}, mode=mode, **of_job), tmp_path)
    process.feed(event_frame(0, 0))
    eventually(lambda: sink.ids == ["0"])
    assert process.niceness() == os.getpriority(os.PRIO_PROCESS, 0) + more
    process.feed(event_frame(0, 1))
    process.end_input()
    assert process.wait() == 0
    assert sink.ids == ["0", "1"]


def test_a_newer_run_ends_the_process_at_once(bench: Workbench, sink: Subscriber, tmp_path: Path) -> None:
    bench.subscribe(egress(sink.url()))
    bench.begin_run()
    process = bench.spawn(bench.spec({"lane": 0}), tmp_path)
    process.feed(event_frame(0, 0))
    eventually(lambda: sink.ids == ["0"])
    bench.begin_run()
    assert process.wait() == 0
    assert "A newer run has taken over" in process.errors


def test_a_worker_that_hung_delivers_nothing_when_it_wakes_up_and_was_replaced(
    bench: Workbench, sink: Subscriber, tmp_path: Path
) -> None:
    bench.subscribe(egress(sink.url()))
    bench.begin_run()
    process = bench.spawn(bench.spec({"lane": 0}), tmp_path)
    process.feed(event_frame(0, 0))
    eventually(lambda: sink.ids == ["0"])
    process.hang()
    began = time.monotonic()
    process.feed(*(event_frame(0, offset) for offset in range(1, 100)))
    bench.begin_run()
    eventually(lambda: time.monotonic() - began > Timing().silence)
    process.wake()
    assert process.wait() == 0
    assert sink.ids == ["0"]


def test_a_worker_that_hung_goes_on_when_it_wakes_up_and_was_not_replaced(
    bench: Workbench, sink: Subscriber, tmp_path: Path
) -> None:
    bench.subscribe(egress(sink.url()))
    bench.begin_run()
    process = bench.spawn(bench.spec({"lane": 0}), tmp_path)
    process.feed(event_frame(0, 0))
    eventually(lambda: sink.ids == ["0"])
    process.hang()
    began = time.monotonic()
    process.feed(event_frame(0, 1))
    eventually(lambda: time.monotonic() - began > Timing().silence)
    process.wake()
    process.feed(event_frame(0, 2))
    finished(bench, 3)
    assert sorted(sink.ids) == ["0", "1", "2"]
    process.end_input()
    assert process.wait() == 0


def test_a_worker_of_an_old_run_does_not_begin(bench: Workbench, sink: Subscriber, tmp_path: Path) -> None:
    bench.subscribe(egress(sink.url()))
    bench.begin_run()
    spec = bench.spec({"lane": 0})
    bench.begin_run()
    process = bench.spawn(spec, tmp_path)
    process.feed(event_frame(0, 0))
    assert process.wait() == 0
    assert sink.requests == []


@pytest.mark.parametrize("what", ["junk", "another partition"])
def test_an_error_inside_ends_the_process_after_writing_what_can_be_written(
    bench: Workbench, sink: Subscriber, tmp_path: Path, what: str
) -> None:
    bench.subscribe(egress(sink.url()))
    bench.begin_run()
    process = bench.spawn(bench.spec({"lane": 0}), tmp_path)
    process.feed(event_frame(0, 0), event_frame(0, 1))
    eventually(lambda: len(sink.requests) == 2)
    process.feed(b"junk" if what == "junk" else event_frame(5, 0))
    assert process.wait() == 1
    assert "A worker failed and ends" in process.errors
    finished(bench, 2)


def test_a_process_whose_input_ends_returns_in_order(bench: Workbench, sink: Subscriber, tmp_path: Path) -> None:
    bench.subscribe(egress(sink.url()))
    bench.begin_run()
    process = bench.spawn(bench.spec({"lane": 0}), tmp_path)
    process.feed(*(event_frame(0, offset) for offset in range(5)), frame(0, 5))
    eventually(lambda: len(sink.requests) == 5)
    assert process.running
    process.end_input()
    assert process.wait() == 0
    finished(bench, 6)


def test_after_a_kill_only_what_was_in_flight_or_done_in_the_last_second_is_repeated(bench: Workbench, tmp_path: Path) -> None:
    with subscriber(Answer(delay=0.01)) as server:
        bench.subscribe(egress(server.url()))
        bench.begin_run()
        process = bench.spawn(bench.spec({"lane": 0}), tmp_path)
        process.feed(*(event_frame(0, offset) for offset in range(5000)))
        eventually(lambda: "lane" in bench.progress and bench.progress["lane"].progress.low > 500)
        process.kill()
        stored = bench.progress["lane"].progress
        before = server.ids
        assert sum(stored.is_done(int(one)) for one in before) > 0
        worker = bench.start({"lane": bench.progress["lane"]}, start=stored.position)
        worker._next = stored.position
        worker.events(5000 - stored.position)
        finished(bench, 5000)
        again = server.ids[len(before) :]
        assert {int(one) for one in server.ids} == set(range(5000))
        assert not [one for one in again if stored.is_done(int(one))]
