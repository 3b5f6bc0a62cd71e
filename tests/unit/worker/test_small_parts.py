"""Timers, rates, latencies, the ring and the intake."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.clock import VirtualClock
from headrace.dispatcher.worker.intake import Intake
from headrace.dispatcher.worker.latency import Latencies
from headrace.dispatcher.worker.loglimit import LogLimit
from headrace.dispatcher.worker.rate import Rate
from headrace.dispatcher.worker.record import Record, without
from headrace.dispatcher.worker.ring import Ring
from headrace.dispatcher.worker.timers import Timers
from tests.support.frames import event_frame
from tests.support.waiting import eventually


def test_timers_give_back_what_is_due_in_order_of_time_then_of_arrival() -> None:
    timers: Timers[str] = Timers()
    assert not len(timers)
    for due, item in ((3.0, "c"), (1.0, "a"), (2.0, "b1"), (2.0, "b2")):
        timers.add(due, item)
    assert timers.next_due == 1.0
    assert timers.pop(0.5) is None
    assert [timers.pop(2.0) for _ in range(4)] == ["a", "b1", "b2", None]
    assert len(timers) == 1


@given(st.floats(0.2, 2000))
def test_a_rate_is_kept_over_time(per_second: float) -> None:
    rate = Rate(per_second)
    now, gone = 100.0, 0
    while now < 110.0:
        wait = rate.wait(now)
        if wait:
            now += wait
        else:
            rate.spend()
            gone += 1
    assert gone <= 10 * per_second + max(1.0, per_second / 10) + 1
    assert gone >= 10 * per_second - 1


def test_percentiles_are_close() -> None:
    latencies = Latencies()
    for value in range(1, 1001):
        latencies.add(value)
    p50, p99 = latencies.drain(0.5, 0.99)
    assert p50 == pytest.approx(500, rel=0.2)
    assert p99 == pytest.approx(990, rel=0.2)
    assert latencies.drain(0.5, 0.99) == (0.0, 0.0)


def test_clocks_that_differ_and_events_that_are_very_old_are_counted_too() -> None:
    latencies = Latencies()
    latencies.add(-5)
    latencies.add(1e12)
    assert latencies.drain(0.5)[0] == 1.0


# -- the ring ---------------------------------------------------------------------------------------------------------


def record(offset: int, size: int = 10) -> Record:
    return Record.of_frame(event_frame(0, offset, data=b"x" * size))


def room(ring: Ring) -> bool:
    return ring.room


def test_a_ring_keeps_some_of_what_nobody_needs_and_drops_the_rest() -> None:
    ring = Ring(5, events=40, size=1 << 30)
    for offset in range(5, 105):
        assert room(ring)
        ring.append(record(offset))
    assert room(ring)
    assert (ring.head, ring.floor, len(ring)) == (105, 96, 9)
    assert [one.offset for one in ring.since(103)] == [103, 104]


def test_a_ring_is_full_when_what_it_holds_is_needed() -> None:
    ring = Ring(0, events=4, size=1 << 30)
    for offset in range(4):
        one = record(offset)
        one.holders = 1
        ring.append(one)
    assert not room(ring)
    ring.records[1].holders = 0
    assert not room(ring)
    ring.records[0].holders = 0
    assert room(ring)
    assert (ring.floor, len(ring)) == (2, 2)


def test_a_ring_is_full_when_its_bytes_are_spent_but_takes_one_large_event() -> None:
    ring = Ring(0, events=100, size=5000)
    assert room(ring)
    big = record(0, 100_000)
    big.holders = 1
    ring.append(big)
    assert not room(ring)
    big.holders = 0
    assert room(ring)
    assert (len(ring), ring.size) == (0, 0)


def test_a_pin_keeps_what_nobody_holds() -> None:
    ring = Ring(0, events=8, size=1 << 30)
    for offset in range(8):
        ring.append(record(offset))
    ring.pinned_from = 6
    assert room(ring)
    assert ring.floor == 6
    for offset in range(8, 14):
        ring.append(record(offset))
    assert not room(ring)
    ring.pinned_from = None
    assert room(ring)


@given(st.lists(st.tuples(st.sampled_from(["append", "append", "release"]), st.integers(0, 5)), max_size=100))
def test_no_event_that_is_held_is_dropped(script: list[tuple[str, int]]) -> None:
    ring = Ring(0, events=10, size=1 << 30)
    held: list[Record] = []
    for step, choice in script:
        if step == "append" and ring.room:
            one = record(ring.head)
            one.holders = choice % 2
            ring.append(one)
            if one.holders:
                held.append(one)
        elif step == "release" and held:
            held.pop(choice % len(held)).holders = 0
        assert len(ring) <= 10
        assert ring.size == sum(one.size for one in ring.records)
        assert all(one in ring.records for one in held)
        assert [one.offset for one in ring.records] == list(range(ring.floor, ring.head))


# -- the intake -------------------------------------------------------------------------------------------------------


def test_a_reader_that_is_too_far_ahead_waits_until_frames_are_taken() -> None:
    intake = Intake(lambda: None)
    put = threading.Event()

    def read() -> None:
        intake.put([b"x"] * 2000)
        put.set()
        intake.end()

    reader = threading.Thread(target=read)
    reader.start()
    eventually(lambda: len(intake) == 2000)
    assert not put.is_set()
    for _ in range(1600):
        assert intake.take() is not None
    eventually(put.is_set)
    reader.join()
    assert not over(intake)
    for _ in range(400):
        assert intake.take() is not None
    assert over(intake)


def over(intake: Intake) -> bool:
    return intake.ended


def test_a_reader_is_let_go_when_nobody_wants_its_frames_any_more() -> None:
    intake = Intake(lambda: None)

    def read() -> None:
        for _ in range(20):
            intake.put([b"x" * 1_000_000] * 5)

    reader = threading.Thread(target=read)
    reader.start()
    eventually(lambda: len(intake) > 0)
    began = time.monotonic()
    intake.discard()
    reader.join(10)
    assert not reader.is_alive()
    assert time.monotonic() - began < 5
    assert intake.take() is None


def test_the_engine_is_woken_for_frames_and_for_the_end() -> None:
    woken: list[int] = []
    intake = Intake(lambda: woken.append(1))
    intake.put([b"x"])
    intake.end()
    assert len(woken) == 2


# -- records ----------------------------------------------------------------------------------------------------------


def test_a_record_gives_back_the_event_it_came_from() -> None:
    made = Record.of_frame(event_frame(0, 3, data=b"d", note="a b", datacontenttype="text/plain"), offset_extensions=True)
    event = made.event()
    assert event.data == b"d"
    assert event.attributes["note"] == "a b"
    assert event.attributes["knativekafkaoffset"] == "3"
    assert "ce-note: a%20b" in made.lines


def test_lines_of_an_attribute_are_found_in_both_forms() -> None:
    assert without(["ce-a: 1", "ce-ab: 2", "ce-a;", "a: 3"], ("a",)) == ["ce-ab: 2", "a: 3"]


def test_a_line_that_is_true_of_every_event_is_logged_ten_times_a_second() -> None:
    clock = VirtualClock()
    limit = LogLimit(clock)
    assert [limit.allow() for _ in range(25)] == [{}] * 10 + [None] * 15
    clock.advance(1.0)
    assert [limit.allow() for _ in range(2)] == [{"left_out_before": 15}, {}]
