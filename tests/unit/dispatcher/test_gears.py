"""When a topic changes gear, and when catch-up holds back."""

from __future__ import annotations

from headrace.dispatcher.gears import Gear, GearBox, Throttle, backlog


def test_the_best_lane_of_each_partition_counts() -> None:
    ends = {0: 100, 1: 100}
    assert backlog([{0: 10, 1: 100}, {0: 90, 1: 20}], ends) == 10
    assert backlog([{0: 10, 1: 20}], ends) == 170
    assert backlog([], ends) == 0
    assert backlog([{0: 120, 7: 3}], ends) == 0


def test_a_topic_that_is_far_behind_goes_to_bulk_and_stays_for_a_while() -> None:
    box = GearBox(rate=1_000.0)
    assert box.wants(5_000, 0.0) is Gear.REAL_TIME
    assert box.wants(5_001, 0.0) is Gear.BULK
    box.take(Gear.BULK, 10.0)
    assert box.wants(0, 39.0) is Gear.BULK
    assert box.wants(999, 40.0) is Gear.REAL_TIME
    assert box.wants(1_000, 400.0) is Gear.BULK


def test_taking_the_same_gear_again_does_not_start_its_time_anew() -> None:
    box = GearBox()
    box.take(Gear.BULK, 10.0)
    box.take(Gear.BULK, 30.0)
    assert box.wants(0, 40.0) is Gear.REAL_TIME


def test_a_gear_that_is_a_setting_is_never_changed() -> None:
    box = GearBox(gear=Gear.BULK, fixed=True)
    assert box.wants(0, 1e9) is Gear.BULK


def test_catch_up_holds_back_while_live_lanes_suffer_from_it() -> None:
    throttle = Throttle(bound=50.0)
    for _ in range(20):
        throttle.note(10.0, job_runs=False)
    assert throttle.in_flight(64) == 64
    assert throttle.pause(3.0) == 0.0
    throttle.note(60.0, job_runs=True)
    throttle.note(60.0, job_runs=True)
    assert throttle.in_flight(64) == 16
    assert throttle.pause(3.0) == 6.0
    for _ in range(10):
        throttle.note(60.0, job_runs=True)
    assert throttle.in_flight(64) == 4
    for _ in range(4):
        throttle.note(40.0, job_runs=True)
    assert throttle.level == 0


def test_subscribers_that_always_take_long_are_no_reason_to_hold_back() -> None:
    throttle = Throttle(bound=50.0)
    for _ in range(40):
        throttle.note(500.0, job_runs=False)
    throttle.note(1_400.0, job_runs=True)
    assert throttle.level == 0
    throttle.note(1_600.0, job_runs=True)
    assert throttle.level == 1
