"""Catch-up beside a live run, without Spark: parked lanes that retention overtakes, and jobs that are lost."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headrace.core.contract import DeliveryOrder
from headrace.core.progress import Progress, ProgressRecord, Straggler
from headrace.dispatcher import jobs
from headrace.dispatcher.catchup import CatchUp
from headrace.dispatcher.jobs import Jobs
from headrace.dispatcher.positions import OFFSETS_EXPIRED
from tests.unit.dispatcher.fakes import FakeLive, FakeLog, World, lanes


class Beside:
    """A live run over one topic, and the catch-up beside it."""

    def __init__(
        self, world: World, *uids: str, delivery_order: DeliveryOrder = DeliveryOrder.UNORDERED, **policy: int
    ) -> None:
        self.world = world
        self.lanes = lanes(*uids, delivery_order=delivery_order, **policy)
        prepared = world.prepared(self.lanes)
        run = world.runs.begin()
        self.live = FakeLive("id-1", tuple(world.log.ends))
        self.jobs = Jobs(world.services, world.context.runs, prepared.spec(run), lambda: None)
        self.catchup = CatchUp(world.context, cast(Any, self.live), self.jobs)

    def tick(self, seconds: float = 0.5) -> None:
        self.world.clock.advance(seconds)
        self.catchup.tick(self.lanes)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return world_of(monkeypatch, partitions=2, events=1_000)


def world_of(monkeypatch: pytest.MonkeyPatch, partitions: int, events: int) -> World:
    """One whose topic has so many events in each of its partitions."""
    made = World(FakeLog(dict.fromkeys(range(partitions), 0), dict.fromkeys(range(partitions), events)))
    monkeypatch.setattr(jobs, "RangeJob", made.range_job)
    return made


def test_a_parked_lane_that_retention_overtakes_goes_on_at_what_is_left(world: World) -> None:
    world.table.put("a", 0, Progress(100))
    world.table.put("a", 1, Progress(200))
    beside = Beside(world, "a")
    beside.live.report(0, a="PARKED")
    beside.live.report(1, a="LIVE")
    world.log.begins = {0: 400, 1: 400}
    beside.tick()
    assert world.jobs[0].ranges == {0: (400, 1_000)}
    assert world.table.written == [("a", 0)], "partition 1 is the live worker's"
    assert "removed 300 offsets" in world.context.notices.of(["a"])["a"][OFFSETS_EXPIRED]


def test_the_lanes_of_a_lost_job_count_as_stuck_and_the_others_go_on(world: World) -> None:
    for uid in ("a", "b"):
        world.table.put(uid, 0, Progress(100))
        world.table.put(uid, 1, Progress(1_000))
    beside = Beside(world, "a", "b")
    beside.live.report(0, a="PARKED", b="LIVE")
    beside.tick()
    world.jobs[0].fail("a worker was killed")
    beside.tick()
    beside.tick(3.0)
    beside.live.report(0, a="PARKED", b="PARKED")
    beside.tick()
    assert [job.plan.places for job in beside.jobs.running] == [{("b", 0)}]
    beside.tick(1.0)
    assert [job.plan.places for job in beside.jobs.running] == [{("b", 0)}, {("a", 0)}]


def test_a_lane_that_does_nothing_in_its_jobs_gets_longer_ones_whose_requests_are_waited_for(world: World) -> None:
    world.table.put("a", 0, Progress(100))
    world.table.put("a", 1, Progress(1_000))
    beside = Beside(world, "a")
    lingers, sends = [], []
    for number in range(3):
        beside.live.report(0, a="PARKED")
        beside.tick(2.0)
        [job] = beside.jobs.running
        lingers.append(job.spec.linger)
        sends.append(job.spec.due - world.clock.now())
        world.jobs[number].end({("a", 0): ProgressRecord(Progress(100), uid="a", topic_id="id-1")})
        beside.tick()
    assert lingers == sorted(lingers)
    assert lingers[2] > 600, "a request may take ten minutes"
    assert sends[2] > 5 * sends[1]


def test_a_lane_in_order_whose_failed_event_waits_its_time_gets_no_job_before(world: World) -> None:
    failed_at = int(world.clock.now() * 1000)
    world.table.put("a", 0, Progress(100, (), (Straggler(100, 2, failed_at),)))
    world.table.put("a", 1, Progress(1_000))
    beside = Beside(world, "a", delivery_order=DeliveryOrder.ORDERED, retry=5, backoff_delay=10_000)
    beside.live.report(0, a="PARKED")
    for _ in range(59):
        beside.tick(1.0)
    assert not world.jobs
    beside.tick(2.0)
    assert [job.ranges for job in world.jobs] == [{0: (101, 1_000)}]


def test_a_lane_at_the_end_goes_back_to_its_worker_with_its_stragglers(world: World) -> None:
    world.table.put("a", 0, Progress(999, (), (Straggler(999, 1, 0),)))
    world.table.put("a", 1, Progress(1_000))
    beside = Beside(world, "a")
    beside.live.report(0, a="PARKED")
    beside.tick()
    assert not world.jobs
    assert set(beside.live.orders[-1].resume) == {"a"}


def test_a_lane_that_a_job_says_nothing_of_is_not_planned_again_at_once(world: World) -> None:
    world.table.put("a", 0, Progress(100))
    world.table.put("a", 1, Progress(1_000))
    beside = Beside(world, "a")
    beside.live.report(0, a="PARKED")
    beside.tick()
    world.jobs[0].end({})
    beside.tick()
    beside.live.report(0, a="PARKED")
    beside.tick()
    assert len(world.jobs) == 1
    beside.tick(1.0)
    assert len(world.jobs) == 2


def test_lanes_that_get_no_slots_are_reported_when_that_lasts(world: World) -> None:
    world.table.put("a", 0, Progress(100))
    world.table.put("a", 1, Progress(1_000))
    beside = Beside(world, "a")
    world.slots.claim("another topic", world.slots.free, job=True)
    beside.live.report(0, a="PARKED")
    for _ in range(31):
        assert not beside.jobs.problem
        beside.tick(1.0)
    beside.tick(1.0)
    assert "wait for slots" in beside.jobs.problem
    assert beside.live.orders == [], "no ring is held for a job that does not start"
    world.slots.release("another topic")
    beside.tick(1.0)
    assert not beside.jobs.problem
    assert len(world.jobs) == 1


def test_a_job_takes_no_more_partitions_than_there_are_slots(world: World) -> None:
    for partition in (0, 1):
        world.table.put("a", partition, Progress(100))
    beside = Beside(world, "a")
    world.slots.claim("another topic", world.slots.free - 1, job=True)
    beside.live.report(0, a="PARKED")
    beside.live.report(1, a="PARKED")
    beside.tick()
    assert [set(job.ranges) for job in world.jobs] == [{0}]


def test_a_job_that_got_to_the_end_hands_its_lane_back(world: World) -> None:
    world.table.put("a", 0, Progress(100))
    world.table.put("a", 1, Progress(1_000))
    beside = Beside(world, "a")
    beside.live.report(0, a="PARKED")
    beside.tick()
    assert beside.live.orders[-1].pin == {"a": {0: 1_000}}
    world.jobs[0].end({("a", 0): ProgressRecord(Progress(1_000), uid="a", topic_id="id-1")})
    beside.tick()
    assert set(beside.live.orders[-1].resume) == {"a"}


@pytest.mark.parametrize(("events", "widths"), [(100_000, [2, 4]), (500, [6])], ids=["a long backlog", "a short one"])
def test_jobs_beside_live_lanes_begin_narrow_where_much_is_missing(
    monkeypatch: pytest.MonkeyPatch, events: int, widths: list[int]
) -> None:
    world = world_of(monkeypatch, partitions=6, events=events)
    for partition in range(6):
        world.table.put("a", partition, Progress(0))
    beside = Beside(world, "a")
    for partition in range(6):
        beside.live.report(partition, a="PARKED")
    for number, width in enumerate(widths):
        beside.tick()
        ranges = world.jobs[number].ranges
        assert len(ranges) == width
        world.clock.advance(5.0)
        ends = {partition: ProgressRecord(Progress(end), uid="a", topic_id="id-1") for partition, (_, end) in ranges.items()}
        for partition, record in ends.items():
            world.table.put("a", partition, record.progress)
        world.jobs[number].end({("a", partition): record for partition, record in ends.items()})
        beside.tick()
