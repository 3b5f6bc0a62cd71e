"""How many requests a job's worker has under way, against models of what is behind them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.core.contract import DeliveryOrder
from headrace.core.progress import Progress
from headrace.dispatcher.spec import Limits
from headrace.dispatcher.worker.lane import Lane
from headrace.dispatcher.worker.record import Record
from headrace.dispatcher.worker.ring import Ring
from headrace.dispatcher.worker.window import LEAST, LONGEST_PERIOD, PERIOD, Window
from tests.support.frames import event_frame
from tests.unit.worker.test_lane import make_lane

MOST, EACH = 512, 64


class World:
    """Answers come at `rate(requests under way)` per second, as many under way as the window lets `lanes` have."""

    def __init__(self, rate: Callable[[int], float], lanes: int = 1, wanted: bool = True) -> None:
        self.rate, self.lanes, self.wanted = rate, lanes, wanted
        self.window = Window(MOST, EACH, 0.0)
        self.now = self.answers = 0.0
        self.seen: list[int] = []

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 0.05
            self.answers += 0.05 * self.rate(self.window.each * self.lanes)
            if self.now >= self.window.due:
                self.window.tick(self.now, int(self.answers), self.lanes, self.wanted)
            self.seen.append(self.window.each)


def bound_by_processors(requests: int) -> float:
    return 2_000.0


def slow(requests: int) -> float:
    """A tenth of a second for each answer, however many there are."""
    return requests / 0.1


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_where_processors_are_the_limit_few_are_under_way(lanes: int) -> None:
    world = World(bound_by_processors, lanes)
    world.pass_time(6.0)
    assert world.window.each * lanes == LEAST


@pytest.mark.parametrize("lanes", [1, 2, 8])
def test_where_the_subscriber_takes_its_time_many_are(lanes: int) -> None:
    world = World(slow, lanes)
    world.pass_time(20.0)
    assert world.seen.count(EACH) > 0.8 * len(world.seen)
    assert min(world.seen) == EACH // 2


def test_in_between_as_many_as_are_needed() -> None:
    world = World(lambda requests: min(2_000.0, requests / 0.016))
    world.pass_time(6.0)
    assert world.window.each == 32


def test_a_subscriber_that_becomes_slow_gets_as_many_as_before() -> None:
    world = World(bound_by_processors)
    world.pass_time(6.0)
    assert world.window.each == LEAST
    world.rate = slow
    world.pass_time(4.0)
    assert world.window.each >= EACH // 2


def test_nothing_is_tried_where_nobody_wants_more() -> None:
    world = World(bound_by_processors, wanted=False)
    world.pass_time(6.0)
    assert set(world.seen) == {EACH}


def test_what_is_tried_when_nobody_wants_more_any_longer_is_put_back() -> None:
    world = World(bound_by_processors)
    while world.window.each == EACH:
        world.pass_time(0.05)
    world.wanted = False
    world.pass_time(LONGEST_PERIOD)
    assert world.window.each == EACH


def test_without_answers_nothing_is_tried() -> None:
    world = World(lambda requests: 0.0)
    world.pass_time(10.0)
    assert set(world.seen) == {EACH}


def test_each_of_many_lanes_has_two_at_least() -> None:
    world = World(bound_by_processors, lanes=100)
    world.pass_time(8.0)
    assert world.window.each == 2


def test_an_open_one_is_never_due() -> None:
    window = Window.open()
    assert window.due > 1e18
    assert window.each > 1e9


def test_a_period_is_long_enough_to_count_answers() -> None:
    window = Window(MOST, EACH, 0.0)
    window.tick(PERIOD / 2, 10_000, 1, True)
    window.tick(PERIOD, 10, 1, True)
    assert window.due == PERIOD
    window.tick(PERIOD, 10_000, 1, True)
    assert window.due == 2 * PERIOD


def _lane(order: DeliveryOrder, window: Window, events: int = 8) -> Lane:
    ring = Ring(0, 100, 1 << 30)
    subscription = make_lane(order, ring).subscription
    lane = Lane(subscription, ring, Limits(lane_in_flight=4), 1, window)
    lane.start(Progress.initial(0))
    for offset in range(events):
        record = Record.of_frame(event_frame(0, offset, key=str(offset).encode()))
        ring.append(record)
        lane.offer(record)
    return lane


@pytest.mark.parametrize("order", [DeliveryOrder.UNORDERED, DeliveryOrder.KEY])
def test_a_lane_takes_no_more_than_the_window_allows_and_says_so(order: DeliveryOrder) -> None:
    window = Window(MOST, EACH, 0.0)
    window.each = 2
    lane = _lane(order, window)
    held_back = [lane.held_back]
    taken = [lane.take() for _ in range(4)]
    assert [one is not None for one in taken] == [True, True, False, False]
    held_back.append(lane.held_back)
    window.each = EACH
    assert [lane.take() is not None for _ in range(3)] == [True, True, False]
    held_back.append(lane.held_back)
    assert held_back == [False, True, True]


def test_a_lane_in_order_never_wants_more() -> None:
    lane = _lane(DeliveryOrder.ORDERED, Window(MOST, EACH, 0.0))
    assert lane.take() is not None
    assert lane.take() is None
    assert not lane.held_back


def test_a_lane_with_nothing_left_does_not_want_more() -> None:
    lane = _lane(DeliveryOrder.UNORDERED, Window(MOST, EACH, 0.0), events=4)
    assert all(lane.take() is not None for _ in range(4))
    assert not lane.held_back
