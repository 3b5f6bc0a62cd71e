"""Memory: what counts towards it, and who has to leave for it."""

from __future__ import annotations

import pytest

from headrace.base.clock import VirtualClock
from headrace.core.contract import Egress, Resource, dump
from headrace.core.progress import Progress, ProgressRecord
from headrace.dispatcher.spec import Limits, Mode, WorkerSpec
from headrace.dispatcher.worker.feed import Feed
from headrace.dispatcher.worker.lane import Lane, LaneState
from headrace.dispatcher.worker.parking import Parking
from headrace.dispatcher.worker.record import FetchedRecord, Record
from headrace.dispatcher.worker.ring import Ring
from headrace.dispatcher.worker.roster import Roster
from headrace.dispatcher.worker.window import Window
from headrace.kafka.settings import KafkaSettings
from tests.support.frames import event_frame

EVENTS = 8
UIDS = [f"lane-{number}" for number in range(5)]


class World:
    """A partition with five lanes that have all taken the same large events."""

    def __init__(self, budget: int = 1 << 30, mode: Mode = Mode.LIVE, begins: tuple[int, ...] = ()) -> None:
        kafka = KafkaSettings("127.0.0.1:1")
        limits = Limits(ring_events=EVENTS, budget_bytes=budget)
        begun = dict(zip(UIDS, begins or (0,) * len(UIDS), strict=True))
        positions = {uid: {0: ProgressRecord(Progress.initial(at), uid, "id").encode()} for uid, at in begun.items()}
        spec = WorkerSpec(
            "i", "t", "id", kafka, kafka, run="1", workers=1, starts={0: 0}, positions=positions, mode=mode, limits=limits
        )
        feed = Feed(spec, lambda code: None)
        for uid in UIDS:
            feed.take(uid, dump(Resource(uid=uid, topics=("t",), egresses=(Egress(uid=uid, destination="http://h/"),))), 0)
        self.clock = VirtualClock()
        self.roster = Roster(spec, Window.open())
        self.roster.apply_all(feed.state)
        self.ring = Ring(0, EVENTS, 1 << 30)
        self.roster.bind(0, self.ring)
        self.parking = Parking(spec, self.roster, self.clock)
        self.lanes = list(self.roster.lanes.values())
        for _ in range(4):
            self.read()
        self.one = self.ring.records[0].size

    def read(self) -> None:
        record = Record.of_frame(event_frame(0, self.ring.head, data=b"x" * 100_000))
        self.ring.append(record)
        for lane in self.lanes:
            if lane.begin <= record.offset:
                lane.offer(record)
                lane.take()

    def look(self) -> Lane | None:
        self.clock.advance(0.1)
        return self.parking.relieve()


def test_an_event_that_many_lanes_keep_counts_once_and_not_beside_the_ring_while_it_is_in_it() -> None:
    world = World()
    for lane in world.lanes[1:]:
        world.roster.park(lane)
    assert world.ring.bytes_held == 4 * world.one
    for delivery in list(world.lanes[0].active.values()):
        world.lanes[0].finish(delivery)
    assert world.ring.room
    assert len(world.ring) < 4
    assert world.ring.bytes_held == 4 * world.one
    for lane in world.lanes[1:]:
        lane.settle()
    assert world.ring.bytes_held == world.ring.size == len(world.ring) * world.one


def test_an_event_that_was_fetched_counts_wherever_the_ring_is() -> None:
    ring = Ring(0, EVENTS, 1 << 30)
    record = FetchedRecord.of_frame(event_frame(0, 3))
    ring.pin(record)
    assert ring.pinned == record.size
    ring.skip_to(100)
    ring.unpin(record)
    assert ring.pinned == 0


def test_a_parked_lane_that_does_not_come_to_rest_is_broken_off_and_nobody_has_to_leave_in_its_stead() -> None:
    world = World(budget=1000)
    hanging, straggling = world.lanes[0], world.lanes[1]
    for lane in world.lanes[1:]:
        for delivery in list(lane.active.values())[1:]:
            lane.finish(delivery)
    world.lanes = [hanging]
    straggler = next(iter(straggling.active.values()))
    straggler.attempts = 1
    straggling.wait(straggler)
    world.parking._park(hanging, "its turn")
    for _ in range(8):
        assert world.look() is None
    assert straggling in world.roster.live()
    for _ in range(5):
        world.clock.advance(1.0)
    assert world.look() is hanging
    hanging.settle()
    world.look()
    assert straggling not in world.roster.live()


def test_the_lane_that_keeps_most_is_parked_when_memory_is_spent() -> None:
    world = World(budget=1000)
    few, many = world.lanes[:2]
    for lane, count in ((few, 1), (many, 3)):
        for delivery in list(lane.active.values())[:count]:
            delivery.attempts = 1
            lane.wait(delivery)
    assert world.look() is None
    assert [lane.uid for lane in world.lanes if lane.state is LaneState.PARKED] == [many.uid]
    assert many.progress().position == 3


@pytest.mark.parametrize(
    ("mode", "begin", "parked"),
    [(Mode.LIVE, 0, True), (Mode.LIVE, 6, True), (Mode.CATCHUP, 0, True), (Mode.CATCHUP, 6, False)],
)
def test_a_job_parks_no_lane_for_having_begun_behind_the_others(mode: Mode, begin: int, parked: bool) -> None:
    world = World(mode=mode, begins=(0, *(begin,) * (len(UIDS) - 1)))
    while world.ring.room:
        world.read()
    for lane in world.lanes[1:]:
        for delivery in list(lane.active.values()):
            lane.finish(delivery)
    world.look()
    assert (world.lanes[0].state is LaneState.PARKED) is parked
    assert all(lane.state is LaneState.LIVE for lane in world.lanes[1:])
