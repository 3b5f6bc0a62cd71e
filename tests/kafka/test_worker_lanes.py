"""Lanes that must not hurt each other: parking, catch-up jobs and hand-over, key order, limits; against a real Kafka."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from headrace.core.heartbeat import LaneReport
from headrace.core.progress import Progress, ProgressRecord, Straggler
from headrace.dispatcher.spec import LaneOrders, Limits, Mode
from headrace.dispatcher.worker.gate import FAILURES
from headrace.kafka.admin import Admin
from tests.support.subscriber import Answer, Request, Subscriber, subscriber
from tests.support.waiting import eventually
from tests.support.workbench import TOPIC_ID, Workbench, Worker, egress

SMALL = Limits(ring_events=40, lane_in_flight=4)


class Hold:
    """A subscriber that answers nothing until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def __call__(self, request: Request) -> int:
        self.released.wait(60)
        return 202


@pytest.fixture
def held() -> Iterator[tuple[Hold, Subscriber]]:
    hold = Hold()
    with subscriber(hold) as server:
        yield hold, server
        hold.released.set()


def finished(bench: Workbench, low: int, uid: str) -> None:
    eventually(lambda: uid in bench.progress and bench.progress[uid].progress.low >= low, what=f"progress of {uid} at {low}")


def lane(bench: Workbench, uid: str, owner: str = "") -> LaneReport:
    report = bench.report(owner)
    return report.lanes.get(uid, LaneReport(state="")) if report is not None else LaneReport(state="")


def parked(bench: Workbench, uid: str) -> ProgressRecord:
    """Wait until a lane is parked and at rest; its stored progress."""
    eventually(lambda: (lane(bench, uid).state, lane(bench, uid).in_flight) == ("PARKED", 0), what=f"{uid} parked")
    return bench.progress[uid]


def job(bench: Workbench, number: int, positions: dict[str, ProgressRecord], start: int, end: int, **more: object) -> Worker:
    """A catch-up job of the present run over the range from `start` to `end`."""
    values: dict[str, object] = {"ends": {0: end}, "due": time.time() + 20, **more}
    spec = bench.spec(dict(positions), start=start, mode=Mode.CATCHUP, job=f"{bench.run}.{number:04d}", **values)
    worker = bench.start_with(spec)
    worker._next = start
    return worker


def test_a_lane_that_falls_behind_is_parked_and_the_others_go_on(
    bench: Workbench, sink: Subscriber, held: tuple[Hold, Subscriber]
) -> None:
    hold, slow = held
    bench.subscribe(egress(sink.url(), uid="fast"), egress(slow.url(), uid="slow"))
    worker = bench.start({"fast": 0, "slow": 0}, limits=SMALL)
    for _ in range(20):
        worker.events(10)
    finished(bench, 200, "fast")
    eventually(lambda: lane(bench, "slow").state == "PARKED")
    assert lane(bench, "slow").in_flight == 4
    hold.released.set()
    record = parked(bench, "slow")
    assert record.parked
    assert record.progress.low == 4
    assert len(slow.requests) == 4
    assert max(report.ring_events for report in bench.reports) <= 40


def test_a_parked_lane_does_not_begin_what_waits_for_its_turn(
    bench: Workbench, sink: Subscriber, held: tuple[Hold, Subscriber]
) -> None:
    hold, slow = held
    bench.subscribe(egress(sink.url(), uid="fast"), egress(slow.url(), uid="slow"))
    worker = bench.start({"fast": 0, "slow": 0}, limits=replace(SMALL, host_in_flight=1))
    worker.events(100)
    eventually(lambda: (lane(bench, "slow").state, lane(bench, "slow").in_flight) == ("PARKED", 1))
    hold.released.set()
    assert parked(bench, "slow").progress.low == 1
    assert slow.ids == ["0"]


def test_lanes_that_are_equally_slow_make_the_reader_wait(bench: Workbench) -> None:
    with subscriber(Answer(delay=0.01)) as one, subscriber(Answer(delay=0.01)) as two:
        bench.subscribe(egress(one.url(), uid="one", ordered=True), egress(two.url(), uid="two", ordered=True))
        worker = bench.start({"one": 0, "two": 0}, limits=SMALL)
        worker.events(150)
        finished(bench, 150, "one")
        finished(bench, 150, "two")
        assert all(report.lanes[uid].state == "LIVE" for report in bench.reports for uid in report.lanes)


def test_a_parked_lane_is_caught_up_by_jobs_and_handed_back_without_a_repeat(bench: Workbench, sink: Subscriber) -> None:
    gate = threading.Event()

    def answer(request: Request) -> int:
        gate.wait(60)
        return 202

    with subscriber(answer) as slow:
        bench.subscribe(egress(sink.url(), uid="fast"), egress(slow.url(), uid="slow"))
        worker = bench.start({"fast": 0, "slow": 0}, limits=SMALL)
        worker.events(100)
        eventually(lambda: lane(bench, "slow").state == "PARKED")
        gate.set()
        record = parked(bench, "slow")

        first = job(bench, 1, {"slow": record}, record.progress.position, 60)
        first.events(60 - record.progress.position)
        first.end_input()
        first.join()
        [(uid, partition, text)] = first.rows
        assert (uid, partition) == ("slow", 0)
        assert ProgressRecord.decode(text).progress.low == 60
        assert ProgressRecord.decode(text).run == f"{bench.run}.0001"

        bench.contract.put(*LaneOrders(pin={"slow": {0: 100}}).record(bench.run))
        eventually(lambda: lane(bench, "slow").state == "JOINING")
        last = job(bench, 2, {"slow": ProgressRecord.decode(text)}, 60, 100)
        last.events(40)
        worker.events(20)
        last.end_input()
        last.join()
        [(_, _, text)] = last.rows
        bench.contract.put(*LaneOrders(resume={"slow": {0: text.decode()}}).record(bench.run))
        eventually(lambda: lane(bench, "slow").state == "LIVE")
        worker.events(10)
        finished(bench, 130, "slow")
        finished(bench, 130, "fast")
        assert sorted(map(int, slow.ids)) == list(range(130))
        assert sorted(map(int, sink.ids)) == list(range(130))
        assert not bench.progress["slow"].parked
        writers = [record.run for key, record in bench.progress_history if key.startswith("slow/")]
        assert writers == sorted(writers)
        assert list(dict.fromkeys(writers))[-1] == f"{bench.run}.0002r"


def test_a_pin_that_is_not_used_ends_and_the_lane_is_parked_again(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url(), uid="fast"), egress(sink.url(), uid="behind"))
    worker = bench.start({"fast": 50, "behind": 10}, start=50)
    worker._next = 50
    worker.events(1)
    assert parked(bench, "behind") if "behind" in bench.progress else True
    eventually(lambda: lane(bench, "behind").state == "PARKED")
    bench.contract.put(*LaneOrders(pin={"behind": {0: 51}}).record(bench.run))
    eventually(lambda: lane(bench, "behind").state == "JOINING")
    eventually(lambda: lane(bench, "behind").state == "PARKED", timeout=15)


def test_a_pin_does_not_hold_the_ring_against_the_others(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url(), uid="fast"), egress(sink.url(), uid="behind", filter={"attributes": {"type": "no"}}))
    worker = bench.start({"fast": 50, "behind": 10}, start=50, limits=SMALL)
    worker._next = 50
    eventually(lambda: lane(bench, "behind").state == "PARKED")
    bench.contract.put(*LaneOrders(pin={"behind": {0: 50}}).record(bench.run))
    eventually(lambda: lane(bench, "behind").state == "JOINING")
    began = time.monotonic()
    worker.events(200)
    eventually(lambda: len(sink.requests) == 200)
    assert time.monotonic() - began < 5
    eventually(lambda: lane(bench, "behind").state == "PARKED")


def test_a_lane_that_comes_back_too_late_stays_parked(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url(), uid="fast"), egress(sink.url(), uid="behind"))
    worker = bench.start({"fast": 50, "behind": 10}, start=50, limits=SMALL)
    worker._next = 50
    worker.events(100)
    finished(bench, 150, "fast")
    record = ProgressRecord.decode(bench.spec({"behind": 60}).positions["behind"][0])
    bench.contract.put(*LaneOrders(resume={"behind": {0: record.encode().decode()}}).record(bench.run))
    eventually(lambda: lane(bench, "behind").position == 60)
    assert lane(bench, "behind").state == "PARKED"


def test_stragglers_go_with_a_lane_and_keep_their_attempts(bench: Workbench, sink: Subscriber) -> None:
    gate = threading.Event()

    def answer(request: Request) -> int:
        if request.id == "1":
            return 503
        gate.wait(60)
        return 202

    with subscriber(answer) as slow:
        bench.produce(2, 1, [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")], b"x")
        bench.subscribe(egress(sink.url(), uid="fast"), egress(slow.url(), uid="slow", retry=50, delay=300))
        worker = bench.start({"fast": 0, "slow": 0}, limits=SMALL)
        worker.events(100)
        eventually(lambda: lane(bench, "slow").state == "PARKED")
        gate.set()
        record = parked(bench, "slow")
        [straggler] = record.progress.stragglers
        assert (straggler.offset, straggler.attempts) == (1, slow.ids.count("1"))
        first = job(bench, 1, {"slow": record}, record.progress.position, 100, due=time.time() + 3)
        first.events(100 - record.progress.position)
        first.end_input()
        eventually(lambda: len(set(slow.ids)) == 100)
        first.join()
        after = ProgressRecord.decode(first.rows[0][2]).progress
        assert after.position == 100
        assert [(one.offset, one.attempts) for one in after.stragglers] == [(1, slow.ids.count("1"))]
        assert slow.ids.count("1") >= straggler.attempts


def test_a_job_serves_its_own_lanes_only_and_ends_at_its_time(bench: Workbench, held: tuple[Hold, Subscriber]) -> None:
    _, slow = held
    with subscriber() as fast:
        bench.subscribe(egress(fast.url(), uid="mine"), egress(slow.url(), uid="stuck"), egress(fast.url("/x"), uid="other"))
        bench.begin_run()
        positions = {uid: ProgressRecord.decode(bench.spec({uid: 0}).positions[uid][0]) for uid in ("mine", "stuck")}
        worker = job(bench, 1, positions, 0, 50, due=time.time() + 6, grace=0.5)
        worker.events(50)
        worker.end_input()
        worker.join()
        rows = {uid: ProgressRecord.decode(text).progress for uid, _, text in worker.rows}
        assert rows["mine"].low == 50
        assert rows["stuck"].low == 0
        assert {request.path for request in fast.requests} == {"/"}
        assert set(rows) == {"mine", "stuck"}
        assert lane(bench, "mine", f"{bench.run}.0001").state == "CATCHING_UP"


def test_a_job_ends_at_its_time_though_its_input_waits_for_a_subscriber_that_hangs(
    bench: Workbench, held: tuple[Hold, Subscriber]
) -> None:
    _, slow = held
    bench.subscribe(egress(slow.url(), uid="stuck"))
    bench.begin_run()
    position = ProgressRecord.decode(bench.spec({"stuck": 0}).positions["stuck"][0])
    worker = job(bench, 1, {"stuck": position}, 0, 6000, due=time.time() + 1, grace=0.2, limits=SMALL)
    worker.events(6000)
    eventually(lambda: (report := bench.report(f"{bench.run}.0001")) is not None and report.goodbye)
    worker.end_input()
    worker.join()
    assert ProgressRecord.decode(worker.rows[0][2]).progress.position == 0
    assert worker.exited is None


def test_a_slow_lane_drops_out_of_a_job_when_it_holds_up_the_others(bench: Workbench, held: tuple[Hold, Subscriber]) -> None:
    hold, slow = held
    with subscriber() as fast:
        bench.subscribe(egress(fast.url(), uid="fast"), egress(slow.url(), uid="slow"))
        bench.begin_run()
        positions = {uid: ProgressRecord.decode(bench.spec({uid: 0}).positions[uid][0]) for uid in ("fast", "slow")}
        worker = job(bench, 1, positions, 0, 300, limits=SMALL)
        worker.events(300)
        eventually(lambda: len(fast.requests) == 300)
        hold.released.set()
        worker.end_input()
        worker.join()
        rows = {uid: ProgressRecord.decode(text).progress for uid, _, text in worker.rows}
        assert rows["fast"].low == 300
        assert rows["slow"].low == 4


def test_an_input_that_was_cut_off_does_not_move_a_lane_past_what_was_read(bench: Workbench, sink: Subscriber) -> None:
    bench.produce(10, -1, [], b"")
    bench.subscribe(egress(sink.url(), uid="mine"))
    bench.begin_run()
    worker = job(bench, 1, {"mine": ProgressRecord.decode(bench.spec({"mine": 0}).positions["mine"][0])}, 0, 10)
    worker.events(6)
    eventually(lambda: len(sink.requests) == 6)
    worker.end_input()
    worker.join()
    assert ProgressRecord.decode(worker.rows[0][2]).progress.low == 6


def test_a_range_whose_end_holds_no_events_counts_as_read(bench: Workbench, sink: Subscriber) -> None:
    bench.produce_markers(4)
    bench.subscribe(egress(sink.url(), uid="mine"))
    bench.begin_run()
    worker = job(bench, 1, {"mine": ProgressRecord.decode(bench.spec({"mine": 0}).positions["mine"][0])}, 0, 8)
    worker.events(4)
    worker.end_input()
    worker.join()
    assert ProgressRecord.decode(worker.rows[0][2]).progress.low == 8


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_events_that_spark_skipped_end_the_worker_before_its_progress_says_they_are_done(
    bench: Workbench, sink: Subscriber
) -> None:
    bench.produce(20, -1, [], b"")
    bench.subscribe(egress(sink.url()))
    worker = bench.start({"lane": 0})
    worker.events(5)
    finished(bench, 5, "lane")
    worker._next = 9
    worker.events(1)
    eventually(lambda: worker.exited == 1)
    assert bench.progress["lane"].progress.low == 5
    bench.workers.remove(worker)


def test_offsets_that_hold_no_events_are_a_gap_like_any_other(bench: Workbench, sink: Subscriber) -> None:
    bench.produce_markers(4)
    bench.produce_events(1)
    bench.subscribe(egress(sink.url()))
    worker = bench.start({"lane": 0})
    worker.events(4)
    worker._next = 8
    worker.events(1)
    finished(bench, 9, "lane")
    assert worker.exited is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_gap_that_kafka_has_not_got_to_yet_is_in_doubt_until_it_has(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url()))
    worker = bench.start({"lane": 0})
    worker._next = 8
    worker.events(1)
    eventually(lambda: sink.ids == ["8"])
    eventually(lambda: lane(bench, "lane").position == 9)
    assert all(not record.progress.is_done(0) for _, record in bench.progress_history)
    bench.produce_markers(4)
    bench.produce_events(1)
    eventually(lambda: worker.exited == 1)
    bench.workers.remove(worker)


# -- orders and limits ------------------------------------------------------------------------------------------------


def keyed(worker: Worker, keys: list[str]) -> None:
    for key in keys:
        worker.events(1, key=key.encode(), subject=key)


def test_key_order_keeps_each_key_in_order_and_lets_the_others_pass(bench: Workbench) -> None:
    seen: dict[str, int] = defaultdict(int)
    lock = threading.Lock()

    def answer(request: Request) -> Answer | int:
        key = request.headers["ce-subject"]
        with lock:
            seen[request.id] += 1
            if key == "bad" and seen[request.id] <= 2:
                return 503
        return Answer(202, delay=0.01)

    with subscriber(answer) as server:
        bench.subscribe(egress(server.url(), retry=5, delay=300, headrace={"order": "KEY"}))
        worker = bench.start({"lane": 0})
        keyed(worker, ["bad", "a", "b", "bad", "a", "b", "a", "c", "bad"] * 3)
        eventually(lambda: len({one for one in server.ids if server_key(server, one) != "bad"}) == 18)
        assert server.ids.count("3") == 0
        finished(bench, 27, "lane")
        by_key: dict[str, list[int]] = defaultdict(list)
        for request in server.requests:
            offsets = by_key[request.headers["ce-subject"]]
            if not offsets or offsets[-1] != int(request.id):
                offsets.append(int(request.id))
        assert all(offsets == sorted(offsets) for offsets in by_key.values())
        assert server.most_open > 1


def server_key(server: Subscriber, event_id: str) -> str:
    return next(request.headers["ce-subject"] for request in server.requests if request.id == event_id)


def test_requests_to_one_host_are_bounded_whatever_the_number_of_lanes(bench: Workbench) -> None:
    with subscriber(Answer(delay=0.05)) as server:
        uids = [f"l{number}" for number in range(4)]
        bench.subscribe(*(egress(server.url(f"/{uid}"), uid=uid) for uid in uids))
        limits = Limits(lane_in_flight=16, host_in_flight=10)
        worker = bench.start(dict.fromkeys(uids, 0), limits=limits)
        worker.events(40)
        for uid in uids:
            finished(bench, 40, uid)
        assert server.most_open == 10


def test_a_lane_with_much_to_do_does_not_starve_another_of_the_same_host(bench: Workbench) -> None:
    with subscriber(Answer(delay=0.02)) as server:
        bench.subscribe(egress(server.url("/much"), uid="much"))
        bench.subscribe(egress(server.url("/little"), uid="little", filter={"attributes": {"type": "rare"}}))
        worker = bench.start({"much": 0, "little": 0}, limits=Limits(host_in_flight=4, lane_in_flight=8))
        worker.events(200)
        worker.events(1, type="rare")
        eventually(lambda: any(request.path == "/little" for request in server.requests))
        place = next(index for index, request in enumerate(server.requests) if request.path == "/little")
        assert place < 40


def test_a_host_that_hangs_does_not_use_up_what_the_others_need(bench: Workbench, sink: Subscriber) -> None:
    hold = Hold()
    with subscriber(hold) as hung:
        bench.subscribe(*(egress(hung.url(), uid=f"hung{number}") for number in range(6)), egress(sink.url(), uid="fine"))
        positions: dict[str, ProgressRecord | int] = {f"hung{number}": 0 for number in range(6)}
        worker = bench.start({**positions, "fine": 0}, limits=Limits(in_flight=60, host_in_flight=30, lane_in_flight=16))
        worker.events(300)
        finished(bench, 300, "fine")
        hold.released.set()


def test_the_memory_for_waiting_events_is_bounded_by_parking_the_lane_that_pins_most(
    bench: Workbench, sink: Subscriber
) -> None:
    with subscriber(503) as broken:
        bench.subscribe(egress(sink.url(), uid="fine"), egress(broken.url(), uid="broken", retry=100, delay=60_000))
        limits = Limits(ring_bytes=400_000, budget_bytes=900_000, stragglers=1000, ring_events=10_000)
        worker = bench.start({"fine": 0, "broken": 0}, limits=limits)
        for _ in range(10):
            worker.events(10, data=b"x" * 20_000)
            eventually(lambda: len(sink.requests) == worker._next)
        record = parked(bench, "broken")
        assert len(record.progress.stragglers) > 10
        assert lane(bench, "fine").state == "LIVE"


def test_one_event_larger_than_the_budget_passes_alone(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url()))
    worker = bench.start({"lane": 0}, limits=Limits(ring_bytes=10_000, budget_bytes=20_000))
    worker.events(3, data=b"x" * 100_000)
    finished(bench, 3, "lane")
    assert [len(request.body) for request in sink.requests] == [100_000] * 3


def test_a_paused_lane_sends_nothing_and_goes_on_where_it_was(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url()))
    worker = bench.start({"lane": 0})
    worker.events(5)
    finished(bench, 5, "lane")
    bench.applied(bench.subscribe(egress(sink.url(), headrace={"paused": True})))
    worker.events(5)
    eventually(lambda: (report := bench.report()) is not None and report.head == 10)
    assert lane(bench, "lane").state == "PAUSED"
    assert len(sink.requests) == 5
    bench.subscribe(egress(sink.url()))
    finished(bench, 10, "lane")
    assert sorted(map(int, sink.ids)) == list(range(10))


def test_the_rate_of_a_subscription_is_kept(bench: Workbench, sink: Subscriber) -> None:
    bench.subscribe(egress(sink.url(), headrace={"maxRate": 20}))
    worker = bench.start({"lane": 0})
    worker.events(40)
    finished(bench, 40, "lane")
    times = [request.at for request in sink.requests]
    assert times[-1] - times[0] >= 1.7


def test_a_subscriber_that_is_away_for_good_is_probed_and_what_waits_is_delivered_when_it_is_back(
    bench: Workbench, free_port: Callable[[], int]
) -> None:
    port = free_port()
    bench.subscribe(egress(f"http://127.0.0.1:{port}/", retry=200, delay=100, timeout=5000))
    worker = bench.start({"lane": 0})
    worker.events(3)
    # With its circuit open no retry begins by itself: all wait for a probe.
    eventually(lambda: lane(bench, "lane").failed >= FAILURES and lane(bench, "lane").in_flight == 3, timeout=60)
    worker.events(40)
    eventually(lambda: lane(bench, "lane").lag >= 40)
    with subscriber(port=port) as server:
        finished(bench, 43, "lane")
        assert {int(one) for one in server.ids} == set(range(43))
        assert lane(bench, "lane").dropped == 0


def test_an_event_that_nobody_takes_is_kept_if_asked(bench: Workbench, admin: Admin) -> None:
    bench.topics.append(bench.names.undeliverable)
    admin.create_topic(bench.names.undeliverable, 1)
    with subscriber(400) as server, subscriber(500) as letters:
        keep = {"onUndeliverable": "park"}
        bench.subscribe(egress(server.url("/a"), uid="with-sink", retry=1, delay=1, dead_letter=letters.url(), headrace=keep))
        bench.subscribe(egress(server.url("/b"), uid="without", headrace=keep))
        worker = bench.start({"with-sink": 0, "without": 0})
        worker.events(2, data=b"payload")
        finished(bench, 2, "with-sink")
        finished(bench, 2, "without")
        records = bench.records(bench.names.undeliverable)
        assert sorted((key, dict(headers)["ce_id"]) for key, headers, _ in records) == [
            (b"with-sink", b"0"),
            (b"with-sink", b"1"),
            (b"without", b"0"),
            (b"without", b"1"),
        ]
        assert {value for _, _, value in records} == {b"payload"}
        by_lane = {key: dict(headers) for key, headers, _ in records}
        assert by_lane[b"with-sink"]["ce_knativeerrordest"] == server.url("/a").encode()
        assert by_lane[b"with-sink"]["ce_knativeerrorcode"] == b"400"
        assert by_lane[b"with-sink"]["ce_headracelane"] == b"withsink"
        eventually(lambda: lane(bench, "without").kept == 2)
        assert lane(bench, "without").dropped == 0


def test_an_event_that_can_not_be_kept_yet_waits_until_it_can(bench: Workbench, admin: Admin) -> None:
    with subscriber(400) as server:
        bench.subscribe(egress(server.url(), headrace={"onUndeliverable": "park"}))
        worker = bench.start({"lane": 0})
        worker.events(1)
        eventually(lambda: "could not be stored" in lane(bench, "lane").last_error)
        bench.topics.append(bench.names.undeliverable)
        admin.create_topic(bench.names.undeliverable, 1)
        finished(bench, 1, "lane")
        assert len(server.requests) == 1
        assert len(bench.records(bench.names.undeliverable)) == 1


@pytest.mark.parametrize("ordered", [False, True])
def test_a_job_for_the_retry_of_the_last_event_stays_until_it_was_made(bench: Workbench, ordered: bool) -> None:
    answers = iter([503, 202])
    with subscriber(lambda request: next(answers)) as server:
        bench.produce_events(5)
        bench.subscribe(egress(server.url(), ordered=ordered, retry=5, delay=10))
        bench.begin_run()
        waiting = ProgressRecord(Progress(4, (), (Straggler(4, 1, 0),)), "lane", TOPIC_ID)
        retries = job(bench, 1, {"lane": waiting}, 4, 5, patient=True)
        retries.events(1)
        retries.end_input()
        retries.join()
        assert server.ids == ["4", "4"]
        [(_, _, text)] = retries.rows
        assert ProgressRecord.decode(text).progress == Progress(5)


def test_a_job_for_a_retry_does_not_wait_for_one_that_comes_after_its_time(bench: Workbench) -> None:
    with subscriber(503) as server:
        bench.produce_events(5)
        bench.subscribe(egress(server.url(), retry=5, delay=3_600_000))
        bench.begin_run()
        waiting = ProgressRecord(Progress(4, (), (Straggler(4, 1, 0),)), "lane", TOPIC_ID)
        retries = job(bench, 1, {"lane": waiting}, 4, 5, patient=True, due=time.time() + 3_000)
        retries.events(1)
        retries.end_input()
        retries.join()
        assert server.ids == ["4"]
        [(_, _, text)] = retries.rows
        [straggler] = ProgressRecord.decode(text).progress.stragglers
        assert (straggler.offset, straggler.attempts) == (4, 2)


def test_what_a_job_has_in_flight_when_its_time_is_over_may_end_and_nothing_new_begins(
    bench: Workbench, held: tuple[Hold, Subscriber]
) -> None:
    hold, slow = held
    bench.subscribe(egress(slow.url(), uid="slow", ordered=True))
    bench.begin_run()
    position = ProgressRecord.decode(bench.spec({"slow": 0}).positions["slow"][0])
    worker = job(bench, 1, {"slow": position}, 0, 100, due=time.time() + 1, linger=60.0, grace=0.2)
    worker.events(100)
    worker.end_input()
    eventually(lambda: slow.requests)
    hold_until = time.time() + 2
    eventually(lambda: any(report.at > hold_until * 1000 for report in bench.reports if report.run == worker.spec.job))
    hold.released.set()
    worker.join()
    assert slow.ids == ["0"]
    assert ProgressRecord.decode(worker.rows[0][2]).progress == Progress(1)


def test_a_drain_does_not_wait_for_what_a_job_that_is_over_has_in_flight(
    bench: Workbench, held: tuple[Hold, Subscriber]
) -> None:
    _, slow = held
    bench.subscribe(egress(slow.url(), uid="slow", ordered=True))
    bench.begin_run()
    position = ProgressRecord.decode(bench.spec({"slow": 0}).positions["slow"][0])
    worker = job(bench, 1, {"slow": position}, 0, 100, due=time.time() + 1, linger=3_000.0, grace=0.2)
    worker.events(100)
    worker.end_input()
    over = time.time() + 2
    eventually(lambda: any(report.at > over * 1000 for report in bench.reports if report.run == worker.spec.job))
    bench.drain(worker.spec.job)
    worker.join()
    assert ProgressRecord.decode(worker.rows[0][2]).progress.position == 0
