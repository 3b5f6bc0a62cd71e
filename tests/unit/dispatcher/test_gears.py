"""When a topic changes gear, and when catch-up holds back."""

from __future__ import annotations

import pytest

from headrace.dispatcher.gears import Gathering, Gear, GearBox, Throttle, backlog


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


def quiet(p99: float) -> Throttle:
    """One that has seen live lanes with such a p99, and no job."""
    throttle = Throttle(bound=50.0)
    for _ in range(40):
        throttle.note(p99, job_runs=False)
    return throttle


def test_a_job_beside_live_lanes_is_as_narrow_as_it_can_be_at_first() -> None:
    throttle = quiet(10.0)
    assert throttle.width == 2
    assert throttle.pause(3.0) == 0.0


def test_wider_jobs_are_kept_while_they_get_on_quicker() -> None:
    throttle = quiet(10.0)
    throttle.job_over(2, 100.0)
    assert throttle.width == 4
    throttle.job_over(4, 200.0)
    assert throttle.width == 8
    throttle.job_over(8, 259.0)
    assert throttle.width == 4


def test_a_trial_that_was_of_no_use_is_made_again_much_later() -> None:
    throttle = quiet(10.0)
    throttle.job_over(2, 100.0)
    throttle.job_over(4, 129.0)
    for _ in range(Throttle.REST):
        assert throttle.width == 2
        throttle.job_over(2, 100.0)
    assert throttle.width == 2
    throttle.job_over(2, 100.0)
    assert throttle.width == 4


@pytest.mark.parametrize(
    ("before", "within_a_trial"),
    [([(10, 1_000.0), (1, 1_000.0)], (3, 10.0)), ([(2, 0.0)], (4, 0.0))],
    ids=["of another width", "lost"],
)
def test_some_jobs_tell_nothing(before: list[tuple[int, float]], within_a_trial: tuple[int, float]) -> None:
    throttle = quiet(10.0)
    for partitions, rate in before:
        throttle.job_over(partitions, rate)
    assert throttle.width == 2
    throttle.job_over(2, 100.0)
    throttle.job_over(*within_a_trial)
    assert throttle.width == 4
    throttle.job_over(4, 10.0)
    assert throttle.width == 8, "a trial begins anew"


def test_the_next_job_is_half_as_wide_when_live_lanes_suffered() -> None:
    throttle = quiet(10.0)
    throttle.job_over(2, 100.0)
    throttle.job_over(4, 200.0)
    throttle.note(60.0, job_runs=True)
    throttle.note(40.0, job_runs=True)
    throttle.job_over(8, 400.0)
    assert throttle.width == 4
    assert throttle.pause(3.0) == 0.0
    throttle.job_over(4, 200.0)
    assert throttle.width == 4, "it is not tried again at once"


def test_pauses_come_when_jobs_can_not_be_narrower() -> None:
    throttle = quiet(10.0)
    throttle.note(60.0, job_runs=True)
    throttle.note(60.0, job_runs=True)
    throttle.job_over(2, 100.0)
    assert throttle.width == 2
    assert throttle.pause(3.0) == 6.0
    for _ in range(10):
        throttle.note(60.0, job_runs=True)
    assert throttle.pause(3.0) == 12.0
    for _ in range(3):
        throttle.note(40.0, job_runs=True)
    assert throttle.pause(3.0) == 3.0
    throttle.note(40.0, job_runs=True)
    assert throttle.pause(3.0) == 0.0


def test_subscribers_that_always_take_long_are_no_reason_to_hold_back() -> None:
    throttle = quiet(500.0)
    throttle.note(1_400.0, job_runs=True)
    assert throttle.pause(1.0) == 0.0
    throttle.note(1_600.0, job_runs=True)
    assert throttle.pause(1.0) == 1.0


def test_lanes_are_waited_for_while_they_keep_coming() -> None:
    gathering = Gathering()
    assert gathering.note({"a"}, 10.0)
    assert gathering.note({"a", "b"}, 10.3)
    assert gathering.note({"a", "b"}, 10.6)
    assert not gathering.note({"a", "b"}, 10.8)


def test_lanes_that_go_are_no_reason_to_wait_and_those_that_come_back_are() -> None:
    gathering = Gathering()
    gathering.note({"a", "b"}, 10.0)
    assert not gathering.note({"a"}, 11.0)
    assert gathering.note({"a", "b"}, 12.0)


def test_lanes_that_come_without_end_are_not_waited_for_without_end() -> None:
    gathering = Gathering()
    found = [gathering.note({str(uid) for uid in range(number)}, 10 + number * 0.3) for number in range(1, 10)]
    assert found == [True] * 7 + [False] * 2
