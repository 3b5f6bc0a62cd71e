"""Bulk gear without Spark: what its jobs read when retention, failures and retries come in between."""

from __future__ import annotations

import pytest

from headrace.core.contract import DeliveryOrder
from headrace.core.progress import Progress, ProgressRecord, Straggler
from headrace.dispatcher import jobs
from headrace.dispatcher import serving as serving_module
from headrace.dispatcher.positions import OFFSETS_EXPIRED, POSITION_LOST
from headrace.dispatcher.selection import Lane
from headrace.dispatcher.serving import Bulk
from tests.unit.dispatcher.fakes import FakeLog, World, lanes


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(FakeLog({0: 0, 1: 0}, {0: 1_000, 1: 1_000}))
    monkeypatch.setattr(jobs, "RangeJob", made.range_job)
    return made


def serving(world: World, *uids: str) -> Bulk:
    bulk = Bulk(world.prepared(lanes(*uids, retry=5, backoff_delay=10_000)), lambda: None)
    bulk.begin()
    return bulk


def tick(world: World, bulk: Bulk, *uids: str, seconds: float = 0.5) -> None:
    world.clock.advance(seconds)
    bulk.tick(lanes(*uids, retry=5, backoff_delay=10_000))


def stored(world: World, uid: str, partition: int, progress: Progress) -> None:
    world.table.put(uid, partition, progress)


def finish(world: World, number: int, **positions: int) -> None:
    """The job's lanes got to these positions of partition 0, and wrote that."""
    records = {}
    for uid, position in positions.items():
        world.table.put(uid, 0, Progress(position))
        records[uid, 0] = ProgressRecord(Progress(position), uid=uid, topic_id="id-1")
    world.jobs[number].end(records)


def test_a_lane_that_retention_overtakes_goes_on_at_what_is_left_and_says_how_much_was_lost(world: World) -> None:
    stored(world, "a", 0, Progress(100))
    stored(world, "a", 1, Progress(1_000))
    bulk = serving(world, "a")
    world.log.begins[0] = 500
    tick(world, bulk, "a")
    assert world.jobs[0].ranges == {0: (500, 1_000)}
    assert world.table.lanes["a"][0].progress == Progress(500)
    world.log.begins[0] = 600
    world.jobs[0].fail("offsets are gone")
    tick(world, bulk, "a", seconds=3.0)
    tick(world, bulk, "a", seconds=3.0)
    tick(world, bulk, "a", seconds=3.0)
    assert world.jobs[1].ranges == {0: (600, 1_000)}
    assert world.context.notices.of(["a"])["a"][OFFSETS_EXPIRED] == "retention removed 500 offsets before they were delivered"


def test_a_log_that_got_shorter_brings_a_waiting_lane_back(world: World) -> None:
    stored(world, "a", 0, Progress(900))
    stored(world, "a", 1, Progress(1_000))
    bulk = serving(world, "a")
    world.log.ends[0] = 800
    tick(world, bulk, "a")
    assert world.table.lanes["a"][0].progress == Progress(800)
    assert POSITION_LOST in world.context.notices.of(["a"])["a"]


def test_what_a_job_serves_is_not_touched_by_the_driver(world: World) -> None:
    for uid in ("a", "b"):
        stored(world, uid, 0, Progress(100))
        stored(world, uid, 1, Progress(1_000))
    bulk = serving(world, "a", "b")
    tick(world, bulk, "a")
    assert len(world.jobs) == 1
    world.log.begins[0] = 500
    tick(world, bulk, "a", "b")
    assert world.table.written == [("b", 0)]
    assert world.table.lanes["a"][0].progress == Progress(100)


def test_three_lost_jobs_in_a_row_end_the_run(world: World) -> None:
    stored(world, "a", 0, Progress(100))
    stored(world, "a", 1, Progress(1_000))
    bulk = serving(world, "a")
    for number in range(3):
        while len(world.jobs) <= number:
            world.clock.advance(1.0)
            assert bulk.tick(lanes("a")) is None
        world.jobs[number].fail("it broke")
        for _ in range(3):
            world.clock.advance(3.0)
            ending = bulk.tick(lanes("a"))
            if ending is not None:
                break
    assert ending is not None
    assert (ending.reason, ending.planned) == ("JobsFail", False)
    assert len(world.jobs) == 3


def test_a_failed_last_event_is_tried_again_when_its_time_has_come_and_only_then(world: World) -> None:
    failed_at = int(world.clock.now() * 1000)
    stored(world, "a", 0, Progress(999, (), (Straggler(999, 1, failed_at),)))
    stored(world, "a", 1, Progress(1_000))
    bulk = serving(world, "a")
    for _ in range(19):
        tick(world, bulk, "a", seconds=1.0)
    assert not world.jobs
    tick(world, bulk, "a", seconds=1.5)
    assert world.jobs[0].ranges == {0: (999, 1_000)}
    assert bulk._jobs.running[0].spec.patient
    finish(world, 0, a=1_000)
    tick(world, bulk, "a")
    tick(world, bulk, "a", seconds=60.0)
    assert len(world.jobs) == 1


def test_a_retry_that_did_not_happen_is_not_asked_for_at_every_turn(world: World) -> None:
    waiting = Progress(999, (), (Straggler(999, 1, 0),))
    stored(world, "a", 0, waiting)
    stored(world, "a", 1, Progress(1_000))
    bulk = serving(world, "a")
    tick(world, bulk, "a")
    world.jobs[0].end({("a", 0): ProgressRecord(waiting, uid="a", topic_id="id-1")})
    tick(world, bulk, "a")
    tick(world, bulk, "a")
    assert len(world.jobs) == 1
    tick(world, bulk, "a", seconds=1.0)
    assert len(world.jobs) == 2


def test_a_lane_with_only_a_retry_holds_no_other_lane_up(world: World) -> None:
    stored(world, "slow", 0, Progress(20, ((21, 999),), (Straggler(20, 1, 0),)))
    stored(world, "quick", 0, Progress(500))
    for uid in ("slow", "quick"):
        stored(world, uid, 1, Progress(1_000))
    bulk = serving(world, "slow", "quick")
    tick(world, bulk, "slow", "quick")
    assert {tuple(job.ranges.items()) for job in world.jobs} == {((0, (20, 21)),), ((0, (500, 1_000)),)}


def two_at_the_start(world: World) -> Bulk:
    """Two lanes with a thousand events of partition 0 before them, and a job that serves both."""
    for uid in ("a", "b"):
        stored(world, uid, 0, Progress(0))
        stored(world, uid, 1, Progress(1_000))
    bulk = serving(world, "a", "b")
    tick(world, bulk, "a", "b")
    return bulk


def uids_served(bulk: Bulk) -> list[set[str]]:
    return [{uid for uid, _ in job.plan.places} for job in bulk._jobs.running]


@pytest.mark.parametrize(("uids", "jobs_long"), [(("a",), 3), (("a", "b"), 1)], ids=["one lane", "two lanes"])
def test_a_first_job_is_long_where_no_lane_can_hold_another_up(world: World, uids: tuple[str, ...], jobs_long: int) -> None:
    for uid in uids:
        stored(world, uid, 0, Progress(0))
        stored(world, uid, 1, Progress(1_000))
    bulk = serving(world, *uids)
    tick(world, bulk, *uids)
    [job] = bulk._jobs.running
    assert job.spec.due - world.clock.now() == pytest.approx(jobs_long * world.config.timing.job)


def test_a_job_that_was_too_large_for_all_of_its_lanes_is_followed_at_once_by_one_for_all(world: World) -> None:
    bulk = two_at_the_start(world)
    finish(world, 0, a=100, b=90)
    tick(world, bulk, "a", "b")
    assert uids_served(bulk) == [{"a", "b"}]
    assert world.jobs[1].ranges[0][0] == 90


def test_a_lane_that_falls_far_behind_gets_jobs_of_its_own_a_little_later(world: World) -> None:
    bulk = two_at_the_start(world)
    finish(world, 0, a=400, b=5)
    tick(world, bulk, "a", "b")
    assert uids_served(bulk) == [{"a"}]
    tick(world, bulk, "a", "b", seconds=1.0)
    assert uids_served(bulk) == [{"a"}, {"b"}]


def test_what_a_job_tells_of_a_lane_that_it_does_not_serve_is_no_matter(world: World) -> None:
    bulk = two_at_the_start(world)
    records = {
        ("a", 0): ProgressRecord(Progress(1_000), uid="a", topic_id="id-1"),
        ("b", 0): ProgressRecord(Progress(1_000), uid="b", topic_id="id-1"),
        ("a", 1): ProgressRecord(Progress(3), uid="a", topic_id="id-1"),
        ("c", 0): ProgressRecord(Progress(7), uid="c", topic_id="id-1"),
    }
    world.jobs[0].end(records)
    tick(world, bulk, "a", "b")
    assert bulk._jobs.lost_in_a_row == 0


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> World:
    """Ten partitions with a thousand events each, on two processors."""
    made = World(FakeLog(dict.fromkeys(range(10), 0), dict.fromkeys(range(10), 1_000)))
    monkeypatch.setattr(jobs, "RangeJob", made.range_job)
    monkeypatch.setattr(serving_module, "processors", lambda: 2)
    for partition in range(10):
        stored(made, "a", partition, Progress(0))
    return made


def bulk_of(world: World, order: DeliveryOrder = DeliveryOrder.UNORDERED) -> Bulk:
    """It serves the lane `a`, and has begun its first job."""
    bulk = Bulk(world.prepared(lanes("a", delivery_order=order)), lambda: None, idle=world.idle)
    bulk.begin()
    world.clock.advance(0.5)
    bulk.tick(lanes("a", delivery_order=order))
    assert len(world.jobs) == 1
    return bulk


@pytest.mark.parametrize("order", [DeliveryOrder.UNORDERED, DeliveryOrder.KEY])
def test_two_tasks_per_processor_run_at_once(wide: World, order: DeliveryOrder) -> None:
    bulk_of(wide, order)
    assert wide.jobs[0].at_once == 4
    assert len(wide.jobs[0].ranges) == 10


def test_all_tasks_of_a_lane_in_order_run_at_once(wide: World) -> None:
    bulk_of(wide, DeliveryOrder.ORDERED)
    assert wide.jobs[0].at_once == 10


def test_all_tasks_run_at_once_where_executors_are_elsewhere(wide: World) -> None:
    wide.services.spark.executors = 3  # type: ignore[misc]
    bulk_of(wide)
    assert wide.jobs[0].at_once == 10


@pytest.mark.parametrize("limit", [{"maxRate": 5}, {"maxInFlight": 10}])
def test_all_tasks_of_a_lane_with_a_limit_of_its_own_run_at_once(wide: World, limit: dict[str, int]) -> None:
    egresses = lanes("a")
    bulk = Bulk(wide.prepared(egresses), lambda: None, idle=wide.idle)
    bulk.begin()
    egresses["a"].egress.headrace.update(limit)
    tick_with(wide, bulk, egresses)
    assert wide.jobs[0].at_once == 10


def tick_with(world: World, bulk: Bulk, egresses: dict[str, Lane], seconds: float = 0.5) -> None:
    world.clock.advance(seconds)
    bulk.tick(egresses)


def test_twice_as_many_tasks_run_when_processors_are_idle_once_the_job_has_started(wide: World) -> None:
    bulk = bulk_of(wide)
    wide.idle_share = 0.5
    tick(wide, bulk, "a", seconds=1.9)
    assert wide.looks_at_idle == 0
    tick(wide, bulk, "a", seconds=0.2)  # the first window opens: what was before does not count
    assert wide.looks_at_idle == 1
    tick(wide, bulk, "a", seconds=0.9)
    assert wide.jobs[0].at_once == 4
    tick(wide, bulk, "a", seconds=0.2)
    assert wide.jobs[0].at_once == 8
    wide.idle_share = 0.35
    tick(wide, bulk, "a", seconds=1.1)
    assert wide.jobs[0].at_once == 8
    wide.idle_share = 0.9
    tick(wide, bulk, "a", seconds=1.1)
    assert wide.jobs[0].at_once == 16


@pytest.mark.parametrize(("idle_at_last", "next_at_once"), [(0.9, 16), (0.1, 4)])
def test_the_next_job_begins_with_what_was_of_use(wide: World, idle_at_last: float, next_at_once: int) -> None:
    bulk = bulk_of(wide)
    wide.idle_share = 0.9
    tick(wide, bulk, "a", seconds=2.1)
    tick(wide, bulk, "a", seconds=1.1)
    assert wide.jobs[0].at_once == 8
    wide.idle_share = idle_at_last
    tick(wide, bulk, "a", seconds=1.1)
    end_first_job(wide, bulk, 500, seconds=0.1)
    assert wide.jobs[1].at_once == next_at_once


def test_what_waits_for_its_turn_is_told_and_what_a_task_works_on_is_not(wide: World) -> None:
    bulk = bulk_of(wide)
    tick(wide, bulk, "a")
    assert bulk.waiting == {"a": 6_000}
    wide.jobs[0].more(2)
    tick(wide, bulk, "a")
    assert bulk.waiting == {"a": 4_000}


def test_a_job_of_which_no_task_has_begun_is_not_told_to_begin_none(wide: World) -> None:
    """Planning may take longer than a job may send, on a machine that has much else to do."""
    bulk = bulk_of(wide)
    wide.jobs[0].begun.clear()
    tick(wide, bulk, "a", seconds=wide.config.timing.job * 3 + 1.0)
    wide.jobs[0].more(0)
    assert wide.jobs[0].begun == [4, 5, 6, 7]


def test_a_task_that_a_cancel_did_not_find_is_cancelled_again_before_the_job_is_over(wide: World) -> None:
    bulk = bulk_of(wide)
    wide.jobs[0].handed_over = False
    wide.jobs[0].fail("another task failed")
    for _ in range(3):
        tick(wide, bulk, "a", seconds=0.1)
    assert wide.jobs[0].cancelled >= 3
    assert len(bulk._jobs.running) == 1
    wide.jobs[0].handed_over = True
    tick(wide, bulk, "a", seconds=0.1)
    assert all(job.spec.job != wide.jobs[0].name for job in bulk._jobs.running)


@pytest.mark.parametrize("interval", [0.0, 60.0])
def test_a_job_that_waits_for_lanes_begins_a_moment_later_whatever_the_interval_is(wide: World, interval: float) -> None:
    bulk = Bulk(wide.prepared(lanes("a")), lambda: None, interval, idle=wide.idle)
    bulk.begin()
    for _ in range(3):
        tick(wide, bulk, "a", seconds=0.1)
    assert not wide.jobs
    for _ in range(4):
        tick(wide, bulk, "a", seconds=0.1)
    assert len(wide.jobs) == 1


def end_first_job(world: World, bulk: Bulk, at: int, seconds: float = 25.0) -> None:
    """Each task that has begun got to `at`, so many seconds later (by itself when its time is over: 24 s)."""
    job = world.jobs[0]
    tick(world, bulk, "a", seconds=seconds)
    for partition in job.begun:
        stored(world, "a", partition, Progress(at))
    job.end({("a", at_): ProgressRecord(Progress(at), uid="a", topic_id="id-1") for at_ in job.begun})
    tick(world, bulk, "a")


def test_what_had_no_turn_in_a_job_comes_first_in_the_next_one_and_is_not_stuck(wide: World) -> None:
    bulk = bulk_of(wide)
    assert wide.jobs[0].begun == [0, 1, 2, 3]
    end_first_job(wide, bulk, 500)
    assert len(wide.jobs) == 2
    assert list(wide.jobs[1].ranges) == [4, 5, 6, 7, 8, 9, 0, 1, 2, 3]
    assert wide.jobs[1].begun == [4, 5, 6, 7]


def test_after_the_time_of_a_job_no_task_of_it_begins(wide: World) -> None:
    bulk = bulk_of(wide)
    tick(wide, bulk, "a", seconds=wide.config.timing.job * 3 - 0.1)
    wide.jobs[0].more(1)
    assert len(wide.jobs[0].begun) == 5
    tick(wide, bulk, "a", seconds=0.2)
    wide.jobs[0].more(2)
    assert len(wide.jobs[0].begun) == 5


def test_a_lost_job_says_nothing_about_what_had_no_turn_in_it(wide: World) -> None:
    bulk = bulk_of(wide)
    wide.jobs[0].fail("it broke")
    tick(wide, bulk, "a", seconds=0.1)
    tick(wide, bulk, "a", seconds=2.5)
    tick(wide, bulk, "a", seconds=1.0)
    ranges = [list(job.ranges) for job in wide.jobs[1:]]
    assert ranges == [[4, 5, 6, 7, 8, 9], [0, 1, 2, 3]]


def test_a_run_that_ends_begins_no_more_tasks(wide: World) -> None:
    bulk = bulk_of(wide)
    bulk._jobs.stop("Stopped")
    wide.jobs[0].more(3)
    assert wide.jobs[0].begun == [0, 1, 2, 3]


def test_lanes_that_come_one_after_the_other_get_one_job(world: World) -> None:
    for uid in ("a", "b", "c"):
        stored(world, uid, 0, Progress(0))
        stored(world, uid, 1, Progress(0))
    bulk = serving(world, "a")
    tick(world, bulk, "a", seconds=0.2)
    tick(world, bulk, "a", "b", seconds=0.2)
    tick(world, bulk, "a", "b", "c", seconds=0.3)
    tick(world, bulk, "a", "b", "c", seconds=0.3)
    assert not world.jobs
    tick(world, bulk, "a", "b", "c", seconds=0.2)
    assert uids_served(bulk) == [{"a", "b", "c"}]


def test_a_stuck_lane_does_not_wait_for_others_that_come(world: World) -> None:
    bulk = two_at_the_start(world)
    finish(world, 0, a=1_000, b=5)
    tick(world, bulk, "a", "b", seconds=0.1)
    tick(world, bulk, "a", "b", "c", seconds=1.1)
    assert uids_served(bulk) == [{"b"}]
