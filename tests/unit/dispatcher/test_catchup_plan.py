"""What catch-up jobs read: exactly what is missing, shared where ranges overlap, fair, and not held up by who is stuck."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.contract import BackoffPolicy, DeliveryOrder
from headrace.core.delivery import RetryPolicy
from headrace.core.progress import Progress, Straggler
from headrace.dispatcher.catchup_plan import (
    JobPlan,
    Pace,
    Patience,
    Waiting,
    at_end,
    events_missing,
    events_read,
    is_blocked,
    left_behind,
    plan_job,
    retry_of,
)

ENDS = {0: 1_000, 1: 500}


def test_a_job_reads_exactly_what_its_lane_misses() -> None:
    plan = plan_job([Waiting("a", 0, 700), Waiting("a", 1, 490)], ENDS, size=10_000, slots=8)
    assert plan == JobPlan({0: (700, 1_000), 1: (490, 500)}, frozenset({("a", 0), ("a", 1)}), frozenset({0, 1}))


def test_a_long_range_is_cut_to_the_size_of_a_job() -> None:
    plan = plan_job([Waiting("a", 0, 100)], ENDS, size=50, slots=8)
    assert plan == JobPlan({0: (100, 150)}, frozenset({("a", 0)}), frozenset())


def test_lanes_within_the_range_share_the_read() -> None:
    lanes = [Waiting("a", 0, 100), Waiting("b", 0, 149), Waiting("c", 0, 150)]
    plan = plan_job(lanes, ENDS, size=50, slots=8)
    assert plan is not None
    assert plan.places == {("a", 0), ("b", 0)}


def test_the_lane_that_was_served_longest_ago_comes_first() -> None:
    lanes = [Waiting("far", 0, 0, served=9.0), Waiting("near", 0, 900, served=3.0)]
    plan = plan_job(lanes, ENDS, size=50, slots=8)
    assert plan is not None
    assert plan.ranges == {0: (900, 950)}


def test_no_more_partitions_than_slots() -> None:
    ends = dict.fromkeys(range(10), 100)
    lanes = [Waiting("a", partition, 0, served=float(partition)) for partition in range(10)]
    plan = plan_job(lanes, ends, size=50, slots=3)
    assert plan is not None
    assert set(plan.ranges) == {0, 1, 2}


def test_who_misses_nothing_needs_no_job() -> None:
    lanes = [Waiting("a", 0, 1_000), Waiting("a", 1, 500)]
    assert plan_job(lanes, ENDS, size=50, slots=8) is None
    assert at_end(lanes, ENDS) == lanes


def test_lanes_with_only_a_retry_take_part_in_whatever_their_partition_is_read_for() -> None:
    lanes = [Waiting("a", 0, 100), Waiting("b", 0, 1_000, retry=40, served=3.0), Waiting("c", 0, 1_000, retry=990, served=9.0)]
    plan = plan_job(lanes, ENDS, size=50, slots=8)
    assert plan is not None
    assert plan.ranges == {0: (100, 150)}
    assert plan.places == {("a", 0), ("b", 0), ("c", 0)}
    assert plan.retries == {("b", 0), ("c", 0)}
    plan = plan_job(lanes[1:], ENDS, size=50, slots=8)
    assert plan is not None
    assert plan.ranges == {0: (40, 41)}
    assert plan.places == plan.retries == {("b", 0), ("c", 0)}


@pytest.mark.parametrize(
    ("stragglers", "retry"),
    [
        ((), None),
        ((Straggler(5, 1, 0),), None),
        ((Straggler(5, 1, -2_000),), 5),
        ((Straggler(5, 1, 0), Straggler(7, 1, -2_000)), 7),
        ((Straggler(5, 4, 0),), 5),
        ((Straggler(5, 1, 0), Straggler(7, 0, 0)), None),
        ((Straggler(7, 0, 0),), 7),
    ],
    ids=["none", "not due", "due", "the second is due", "no attempt left", "behind one of its key", "alone"],
)
def test_a_retry_is_for_the_first_straggler_whose_time_has_come(stragglers: tuple[Straggler, ...], retry: int | None) -> None:
    policy = RetryPolicy(3, BackoffPolicy.LINEAR, 1_000)
    assert retry_of(Progress(5, ((8, 9),), stragglers), policy, now_ms=500) == retry


@given(
    lanes=st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 2), st.integers(0, 120), st.floats(0, 5)), max_size=12),
    size=st.integers(1, 60),
    slots=st.integers(1, 3),
)
def test_repeated_jobs_bring_every_lane_to_the_end(lanes: list[tuple[str, int, int, float]], size: int, slots: int) -> None:
    ends = {0: 100, 1: 60, 2: 0}
    at = {(uid, partition): (position, served) for uid, partition, position, served in lanes}
    clock = 10.0
    for _ in range(1_000):
        waiting = [Waiting(uid, partition, position, served) for (uid, partition), (position, served) in at.items()]
        plan = plan_job(waiting, ends, size, slots)
        if plan is None:
            break
        clock += 1.0
        assert plan.places
        assert len(plan.ranges) <= slots
        for uid, partition in plan.places:
            start, end = plan.ranges[partition]
            assert start <= at[uid, partition][0] < end <= ends[partition]
            assert end - start <= size
            at[uid, partition] = end, clock
    assert all(position >= ends[partition] for (_, partition), (position, _) in at.items())


def test_what_several_lanes_of_a_partition_miss_is_missing_once() -> None:
    some = [Waiting("a", 0, 10), Waiting("b", 0, 40), Waiting("a", 1, 95), Waiting("b", 1, 100), Waiting("c", 2, 7)]
    assert events_missing(some, {0: 50, 1: 100}) == 40 + 5


def test_the_size_follows_what_jobs_get_through() -> None:
    pace = Pace(guess=1_000.0, fixed=1.0)
    assert pace.size(4.0) == 3_000
    for _ in range(20):
        pace.note(events=30_000, seconds=4.0)
    assert 29_000 < pace.size(4.0) <= 30_000
    assert pace.size(7.0) == pytest.approx(2 * pace.size(4.0), abs=1)
    for _ in range(40):
        pace.note(events=10, seconds=4.0)
    assert pace.size(4.0) == 500


def test_a_job_that_only_started_and_ended_says_little() -> None:
    pace = Pace(guess=1_000.0, fixed=1.0)
    pace.note(events=0, seconds=1.1)
    assert pace.rate == 1_000.0
    pace.note(events=2_000, seconds=0.9)
    assert pace.rate == 2_500.0  # half way to four times, as far as one job goes


def test_partitions_get_their_share_of_a_job_and_end_together() -> None:
    ends = {0: 10_000, 1: 40_000, 2: 50_000}
    plan = plan_job([Waiting("a", partition, 0) for partition in ends], ends, size=10_000, slots=8)
    assert plan is not None
    assert plan.ranges == {0: (0, 1_000), 1: (0, 4_000), 2: (0, 5_000)}
    assert plan.last == frozenset()
    plan = plan_job([Waiting("a", partition, 0) for partition in ends], ends, size=200_000, slots=8)
    assert plan is not None
    assert plan.last == {0, 1, 2}


def test_who_is_nearly_there_does_not_wait_for_one_that_is_far_behind() -> None:
    plan = plan_job([Waiting("near", 0, 9_700), Waiting("far", 1, 0)], {0: 10_000, 1: 1_000_000}, size=10_000, slots=8)
    assert plan is not None
    assert plan.ranges[0] == (9_700, 10_000)
    assert plan.ranges[1][1] <= 10_000


def test_what_a_job_read_is_what_the_best_lane_of_each_partition_did() -> None:
    assert events_read({("a", 0): 10, ("b", 0): 30, ("a", 1): 5}) == 35
    assert events_read({}) == 0


@pytest.mark.parametrize(
    ("did", "short", "wanted"),
    [
        ({"a": 400, "b": 100, "c": 101}, "abc", "b"),
        ({"a": 400, "b": 10, "c": 10}, "b", "b"),
        ({"a": 90, "b": 100}, "ab", ""),
        ({"a": 90, "b": 100}, "", ""),
        ({"a": 0, "b": 0}, "ab", "ab"),
        ({"a": 0}, "a", "a"),
        ({"a": 1}, "a", ""),
        ({}, "", ""),
    ],
    ids=[
        "far behind",
        "only who is short",
        "all short",
        "all through",
        "nobody did anything",
        "alone, nothing",
        "alone",
        "lost",
    ],
)
def test_a_lane_holds_others_up_when_it_is_short_and_far_behind_the_best(did: dict[str, int], short: str, wanted: str) -> None:
    left = left_behind({(uid, 0): offsets for uid, offsets in did.items()}, [(uid, 0) for uid in short])
    assert left == {(uid, 0) for uid in wanted}


def test_lanes_of_different_partitions_are_not_compared() -> None:
    assert left_behind({("a", 0): 1_000, ("a", 1): 10, ("b", 1): 9}, [("a", 1), ("b", 1)]) == frozenset()


def test_a_stuck_lane_is_tried_less_and_less_often_until_it_gets_through() -> None:
    patience = Patience(longest=8.0)
    place = ("a", 0)
    assert patience.may_try(place, 0.0)
    waits = []
    now = 0.0
    for _ in range(6):
        patience.got_stuck(place, now)
        wait = next(step / 10 for step in range(1_000) if patience.may_try(place, now + step / 10))
        waits.append(round(wait))
        now += wait
    assert waits == [1, 2, 4, 8, 8, 8]
    patience.got_through(place)
    assert not patience.is_stuck(place)
    assert patience.may_try(place, now)


def test_a_lane_that_did_nothing_in_a_job_for_stuck_ones_is_slow_until_it_gets_through() -> None:
    patience = Patience()
    place = ("a", 0)
    patience.got_stuck(place, 0.0, Progress(5), Progress(5))
    assert not patience.is_slow(place)
    patience.got_stuck(place, 0.0, Progress(5), Progress(6))
    patience.got_stuck(place, 0.0, Progress(6), Progress(6, (), (Straggler(6, 1, 0),)))
    assert not patience.is_slow(place)
    patience.got_stuck(place, 0.0, Progress(6), Progress(6))
    assert patience.is_slow(place)
    patience.got_stuck(place, 0.0, Progress(6), Progress(7))
    assert patience.is_slow(place)
    patience.got_through(place)
    assert not patience.is_slow(place)


def test_a_lane_that_finishes_something_in_each_job_is_not_kept_waiting() -> None:
    patience = Patience()
    place = ("a", 0)
    for low in range(5):
        patience.got_stuck(place, 0.0, Progress(low), Progress(low, ((low + 1, low + 1),)))
        assert patience.is_stuck(place)
        assert patience.may_try(place, 1.0)
    for _ in range(2):
        patience.got_stuck(place, 0.0, Progress(5), Progress(5, (), (Straggler(5, 1, 0),)))
    assert not patience.may_try(place, 3.0)


WAITING = Progress(5, ((8, 9),), (Straggler(5, 1, 0), Straggler(7, 1, 400)))


@pytest.mark.parametrize(
    ("progress", "order", "now_ms", "blocked"),
    [
        (Progress(5), DeliveryOrder.ORDERED, 0, False),
        (WAITING, DeliveryOrder.ORDERED, 500, True),
        (WAITING, DeliveryOrder.ORDERED, 1_100, False),
        (WAITING, DeliveryOrder.UNORDERED, 500, True),
        (Progress(5, (), (Straggler(5, 1, 0),)), DeliveryOrder.UNORDERED, 500, False),
        (WAITING, DeliveryOrder.KEY, 1_100, False),
    ],
    ids=["nothing failed", "before the time", "after it", "no room aside", "room aside", "a key's time"],
)
def test_a_lane_that_can_do_nothing_before_a_retry_is_blocked(
    progress: Progress, order: DeliveryOrder, now_ms: int, blocked: bool
) -> None:
    policy = RetryPolicy(3, BackoffPolicy.LINEAR, 1_000)
    assert is_blocked(progress, policy, order, room=2, now_ms=now_ms) is blocked


def test_blocked_lanes_are_not_planned() -> None:
    plan = plan_job([Waiting("a", 0, 100, blocked=True), Waiting("b", 0, 120)], ENDS, size=50, slots=8)
    assert plan is not None
    assert plan.ranges == {0: (120, 170)}
    assert plan.places == {("b", 0)}
