"""Lanes against a naive model: whatever happens in whatever order, every wanted event ends exactly once, in the order asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.contract import DeliveryOrder, Egress, Resource
from headrace.core.progress import Progress, Straggler
from headrace.dispatcher.spec import Limits
from headrace.dispatcher.worker.delivery import Delivery
from headrace.dispatcher.worker.lane import Lane, LaneState
from headrace.dispatcher.worker.record import Record
from headrace.dispatcher.worker.ring import Ring
from headrace.dispatcher.worker.subscription import subscription_of
from tests.support.frames import event_frame

LIMITS = Limits(lane_in_flight=4, stragglers=3, ring_events=1000)
ORDERS = list(DeliveryOrder)


def make_lane(order: DeliveryOrder, ring: Ring, limits: Limits = LIMITS, **headrace: object) -> Lane:
    egress = Egress(
        uid="lane",
        destination="http://127.0.0.1:1/",
        delivery_order=DeliveryOrder.UNORDERED,
        headrace={"order": order.value, **headrace},
    )
    return Lane(subscription_of(Resource(), egress), ring, limits, partitions=1)


def record(offset: int, key: bytes | None = None) -> Record:
    return Record.of_frame(event_frame(0, offset, key=key))


@dataclass
class Rig:
    """A lane, its ring, and the truth about them."""

    order: DeliveryOrder
    wanted: list[int]
    keys: dict[int, bytes | None]
    ring: Ring
    lane: Lane
    flying: list[Delivery]
    waiting: list[Delivery]
    done: list[int]
    read_once: int = 0

    @classmethod
    def make(cls, order: DeliveryOrder, wanted: list[int], keys: dict[int, bytes | None]) -> Rig:
        ring = Ring(0, 1000, 1 << 30)
        lane = make_lane(order, ring)
        lane.start(Progress.initial(0))
        return cls(order, wanted, keys, ring, lane, [], [], [])

    def read(self) -> None:
        """The next event comes in."""
        offset = self.ring.head
        if offset < len(self.keys):
            made = record(offset, self.keys[offset])
            self.ring.append(made)
            self.read_once = max(self.read_once, self.ring.head)
            if offset in self.wanted:
                self.lane.offer(made)

    def send(self) -> None:
        while (delivery := self.lane.take()) is not None:
            self.flying.append(delivery)

    def end(self, choice: int, well: bool) -> None:
        """A request ends."""
        if not self.flying:
            return
        delivery = self.flying.pop(choice % len(self.flying))
        if well:
            self.lane.finish(delivery)
            self.done.append(delivery.record.offset)
        else:
            delivery.attempts += 1
            self.lane.wait(delivery)
            self.waiting.append(delivery)

    def due(self, choice: int) -> None:
        """The time of a waiting event comes."""
        if self.waiting:
            self.lane.retry(self.waiting.pop(choice % len(self.waiting)))

    def check(self) -> None:
        progress = self.lane.progress()
        done = set(self.done)
        for offset in range(len(self.keys) + 2):
            finished = offset in done or (offset < self.read_once and offset not in self.wanted)
            if offset < self.lane.cursor:
                assert progress.is_done(offset) == finished, (offset, progress)
            else:
                assert not progress.is_done(offset) or finished
        in_flight = [delivery.record.offset for delivery in self.flying]
        assert self.lane.in_flight == len(in_flight)
        if self.order is DeliveryOrder.ORDERED:
            assert len(self.lane.active) <= 1
        if self.order is DeliveryOrder.KEY:
            flying_keys = [self.keys[offset] for offset in in_flight if self.keys[offset] is not None]
            assert len(flying_keys) == len(set(flying_keys))
        held = {record.offset for record in self.ring.records if record.holders}
        aside = {delivery.record.offset for delivery in self.lane.active.values() if delivery.aside}
        ours = {record.offset for record in self.lane.pending} | (set(self.lane.active) - aside)
        assert held == {offset for offset in ours if offset >= self.ring.floor}
        assert self.lane.pinned == sum(delivery.record.size for delivery in self.lane.active.values() if delivery.aside)

    def restart(self) -> None:
        """The worker is replaced by another that goes on from the progress, and reads from its position on."""
        progress = self.lane.progress()
        position = progress.position
        self.flying, self.waiting = [], []
        self.ring = Ring(min(position, self.ring.head), 1000, 1 << 30)
        self.lane = make_lane(self.order, self.ring)
        self.lane.start(progress)
        for straggler in list(self.lane.fetching.values()):
            adopted = self.lane.adopt(record(straggler.offset, self.keys[straggler.offset]))
            if adopted is not None:
                self.waiting.append(adopted)

    def run_dry(self) -> None:
        for _ in range(10 * len(self.keys) + 10):
            self.read()
            self.send()
            self.end(0, True)
            self.due(0)


steps = st.lists(
    st.tuples(st.sampled_from(["read", "read", "send", "good", "good", "bad", "due", "restart"]), st.integers(0, 10)),
    max_size=60,
)
worlds = st.lists(st.tuples(st.booleans(), st.sampled_from([None, b"a", b"b"])), max_size=25)


@settings(max_examples=150)
@given(st.sampled_from(ORDERS), worlds, steps)
def test_every_wanted_event_ends_exactly_once_whatever_happens(
    order: DeliveryOrder, world: list[tuple[bool, bytes | None]], script: list[tuple[str, int]]
) -> None:
    rig = Rig.make(
        order,
        [offset for offset, (wanted, _) in enumerate(world) if wanted],
        {offset: key for offset, (_, key) in enumerate(world)},
    )
    for step, choice in script:
        actions: dict[str, Callable[[], None]] = {
            "read": rig.read,
            "send": rig.send,
            "good": lambda choice=choice: rig.end(choice, True),  # type: ignore[misc]
            "bad": lambda choice=choice: rig.end(choice, False),  # type: ignore[misc]
            "due": lambda choice=choice: rig.due(choice),  # type: ignore[misc]
            "restart": rig.restart,
        }
        actions[step]()
        rig.check()
    rig.run_dry()
    rig.check()
    assert sorted(rig.done) == rig.wanted
    if order is DeliveryOrder.ORDERED:
        assert rig.done == rig.wanted
    if order is DeliveryOrder.KEY:
        for key in (b"a", b"b"):
            of_key = [offset for offset in rig.done if rig.keys[offset] == key]
            assert of_key == sorted(of_key)


def fill(rig: Rig, count: int) -> None:
    for _ in range(count):
        rig.read()


def plain(order: DeliveryOrder, count: int, keys: dict[int, bytes | None] | None = None) -> Rig:
    return Rig.make(order, list(range(count)), keys or dict.fromkeys(range(count)))


def test_an_ordered_lane_waits_for_its_failed_event() -> None:
    rig = plain(DeliveryOrder.ORDERED, 5)
    fill(rig, 5)
    rig.send()
    rig.end(0, False)
    rig.send()
    assert rig.flying == []
    rig.due(0)
    rig.send()
    assert [delivery.record.offset for delivery in rig.flying] == [0]


def test_an_unordered_lane_goes_on_past_failed_events_until_its_stragglers_are_too_many() -> None:
    rig = plain(DeliveryOrder.UNORDERED, 30)
    fill(rig, 30)
    for _ in range(3):
        rig.send()
        rig.end(0, False)
    rig.send()
    assert len(rig.flying) == 3
    while rig.flying:
        rig.end(0, True)
    rig.send()
    assert rig.flying == []
    assert rig.lane.aside == 3
    rig.due(0)
    rig.send()
    assert len(rig.flying) == 4


def test_a_failed_event_holds_only_its_own_key() -> None:
    keys: dict[int, bytes | None] = {0: b"a", 1: b"a", 2: b"b", 3: None, 4: b"a", 5: b"b"}
    rig = plain(DeliveryOrder.KEY, 6, keys)
    fill(rig, 6)
    rig.send()
    assert [delivery.record.offset for delivery in rig.flying] == [0, 2, 3]
    rig.end(0, False)
    rig.end(0, True)
    rig.send()
    assert [delivery.record.offset for delivery in rig.flying] == [3, 5]
    rig.due(0)
    rig.send()
    rig.end(2, True)
    rig.send()
    assert [delivery.record.offset for delivery in rig.flying] == [3, 5, 1]


def test_stragglers_let_go_of_the_ring() -> None:
    rig = plain(DeliveryOrder.UNORDERED, 2)
    fill(rig, 2)
    rig.send()
    rig.end(0, False)
    rig.end(0, True)
    assert [record.holders for record in rig.ring.records] == [0, 0]
    assert rig.lane.pinned > 0


def test_attempts_survive_a_restart() -> None:
    rig = plain(DeliveryOrder.UNORDERED, 3)
    fill(rig, 3)
    rig.send()
    for _ in range(2):
        rig.end(0, False)
        rig.due(0)
        rig.send()
        rig.flying.sort(key=lambda delivery: delivery.record.offset)
    rig.restart()
    again = rig.lane.active.get(0)
    assert again is not None
    assert again.attempts == 2


def test_attempts_of_an_event_that_is_read_again_survive_too() -> None:
    rig = plain(DeliveryOrder.ORDERED, 2)
    lane = rig.lane
    lane.start(Progress.of(0, (), [Straggler(1, 4, 99)]))
    fill(rig, 2)
    rig.send()
    rig.end(0, True)
    rig.send()
    assert (rig.flying[0].record.offset, rig.flying[0].attempts, rig.flying[0].since) == (1, 4, 99)


def test_a_parked_lane_lets_go_and_keeps_its_place() -> None:
    rig = plain(DeliveryOrder.UNORDERED, 20)
    fill(rig, 20)
    rig.send()
    rig.end(0, False)
    rig.end(1, True)
    rig.lane.park()
    assert rig.lane.state is LaneState.PARKED
    assert rig.lane.take() is None
    assert sum(record.holders for record in rig.ring.records) == 0
    assert rig.lane.pinned > 0 == rig.ring.pinned
    rig.end(0, True)
    rig.end(0, True)
    assert rig.lane.in_flight == 0
    rig.lane.settle()
    assert rig.ring.pinned == 0
    progress = rig.lane.progress()
    assert (progress.low, progress.position, progress.stragglers[0].attempts) == (0, 4, 1)
    assert not rig.lane.retry(rig.waiting[0])


def test_a_lane_ahead_of_the_reader_skips_what_is_below_it() -> None:
    rig = plain(DeliveryOrder.UNORDERED, 10)
    rig.lane.start(Progress.initial(6))
    fill(rig, 8)
    rig.send()
    assert [delivery.record.offset for delivery in rig.flying] == [6, 7]
    assert rig.lane.progress().low == 6


def test_another_filter_applies_to_what_was_not_taken_yet() -> None:
    rig = plain(DeliveryOrder.ORDERED, 6)
    fill(rig, 6)
    rig.send()
    rig.lane.rematch([record for record in rig.ring.records if record.offset in (2, 5)])
    rig.end(0, True)
    sent = []
    for _ in range(4):
        rig.send()
        sent += [delivery.record.offset for delivery in rig.flying]
        rig.end(0, True)
    assert sent == [2, 5]
    assert sum(record.holders for record in rig.ring.records) == 0


@pytest.mark.parametrize("after", ORDERS)
def test_another_order_begins_when_what_is_under_way_has_ended(after: DeliveryOrder) -> None:
    rig = plain(DeliveryOrder.UNORDERED, 20)
    fill(rig, 20)
    rig.send()
    subscription = rig.lane.subscription
    rig.lane.configure(replace(subscription, order=after))
    taken = len(rig.flying)
    rig.send()
    if after is not DeliveryOrder.UNORDERED:
        assert len(rig.flying) == taken
    while rig.flying:
        rig.end(0, True)
    rig.send()
    assert len(rig.flying) == (1 if after is DeliveryOrder.ORDERED else 4)


def test_a_second_change_leaves_the_wait_of_the_first_in_force() -> None:
    rig = plain(DeliveryOrder.UNORDERED, 20)
    fill(rig, 20)
    rig.send()
    changed = replace(rig.lane.subscription, order=DeliveryOrder.KEY)
    rig.lane.configure(changed)
    rig.lane.configure(replace(changed, timeout_ms=1))
    rig.end(0, True)
    rig.send()
    assert len(rig.flying) == 3


def test_the_subscriptions_own_limit_is_shared_by_its_partitions() -> None:
    ring = Ring(0, 100, 1 << 30)
    assert make_lane(DeliveryOrder.UNORDERED, ring, maxInFlight=3)._window == 3
    egress = Egress(uid="lane", destination="http://h/", headrace={"maxInFlight": 8})
    assert Lane(subscription_of(Resource(), egress), ring, LIMITS, partitions=4)._window == 2
    assert Lane(subscription_of(Resource(), egress), ring, LIMITS, partitions=100)._window == 1


@pytest.mark.parametrize("order", ORDERS)
def test_from_the_end_of_a_replay_on_nothing_is_wanted(order: DeliveryOrder) -> None:
    ring = Ring(0, 1000, 1 << 30)
    lane = make_lane(order, ring, until={"0": 2, "1": 0})
    lane.start(Progress.initial(0))
    offered = []
    for offset in range(5):
        one = record(offset, key=b"%d" % offset)
        ring.append(one)
        lane.offer(one)
        offered.append(one.holders)
    assert offered == [1, 1, 0, 0, 0]
