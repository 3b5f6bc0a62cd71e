"""How many requests a job's worker has under way, against models of what is behind them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from headrace.core.contract import DeliveryOrder
from headrace.core.progress import Progress
from headrace.dispatcher.spec import Limits
from headrace.dispatcher.worker.lane import Lane
from headrace.dispatcher.worker.record import Record
from headrace.dispatcher.worker.ring import Ring
from headrace.dispatcher.worker.window import LEAST, PERIOD, Window
from tests.support.frames import event_frame
from tests.unit.worker.test_lane import make_lane

MOST, EACH = 512, 64


class World:
    """Requests that take as long as `answered` says, sent as the window lets `lanes` have them under way; time in steps of 5 ms.

    `answered(now, number)`: when the request of that number (from 0) that begins now will be answered.
    """

    def __init__(self, answered: Callable[[float, int], float], lanes: int = 1, wanted: bool = True) -> None:
        self.answered, self.lanes, self.wanted = answered, lanes, wanted
        self.window = Window(MOST, EACH, 0.0)
        self.now = 0.0
        self.sent = self.answers = 0
        self.under_way: list[float] = []
        self.seen: list[int] = []
        self.busy = lanes
        """How many of the lanes have something to send."""

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 0.005
            left = [due for due in self.under_way if due > self.now]
            self.answers += len(self.under_way) - len(left)
            self.under_way = left
            if self.window.ready(self.now, self.answers):
                self.window.tick(self.now, self.lanes, len(left), self.wanted)
            for _ in range(self.window.each * self.busy - len(left)):
                self.under_way.append(self.answered(self.now, self.sent))
                self.sent += 1
            self.seen.append(self.window.each)

    def share(self, each: int, settled_after: float) -> float:
        """Of the twenty seconds from `settled_after` seconds on: in what share of them `each` was allowed. Only these are in `seen`."""
        self.pass_time(settled_after)
        self.seen.clear()
        self.pass_time(20.0)
        return self.seen.count(each) / len(self.seen)


class Processors:
    """They do `rate` requests per second, one after the other."""

    def __init__(self, rate: float = 2_000.0) -> None:
        self.rate = rate
        self.free_at = 0.0

    def __call__(self, now: float, number: int) -> float:
        self.free_at = max(self.free_at, now) + 1 / self.rate
        return self.free_at


def slow(seconds: float) -> Callable[[float, int], float]:
    """So long for each answer, however many there are: they come in bursts."""
    return lambda now, number: now + seconds


def uneven(seconds: float) -> Callable[[float, int], float]:
    """Between half and one and a half times so long."""
    return lambda now, number: now + seconds * (0.5 + (number * 7 % 11) / 10)


def never(now: float, number: int) -> float:
    return math.inf


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_where_processors_are_the_limit_few_are_under_way(lanes: int) -> None:
    world = World(Processors(), lanes)
    assert world.share(LEAST // lanes, settled_after=6.0) > 0.8
    assert max(world.seen) == 2 * LEAST // lanes


@pytest.mark.parametrize("lanes", [1, 2, 8])
@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.3, 1.5])
@pytest.mark.parametrize("subscriber", [slow, uneven])
def test_where_the_subscriber_takes_its_time_many_are(
    subscriber: Callable[[float], Callable[[float, int], float]], seconds: float, lanes: int
) -> None:
    world = World(subscriber(seconds), lanes)
    world.pass_time(60.0)
    assert world.seen.count(EACH) > 0.75 * len(world.seen)
    assert min(world.seen) == EACH // 2


def test_in_between_as_many_as_are_needed() -> None:
    processors = Processors()
    world = World(lambda now, number: max(processors(now, number), now + 0.014))
    assert world.share(32, settled_after=6.0) > 0.8


@pytest.mark.parametrize("seconds", [0.1, 1.0])
def test_a_subscriber_that_becomes_slow_gets_as_many_as_before(seconds: float) -> None:
    world = World(Processors())
    world.pass_time(6.0)
    assert world.window.each <= 2 * LEAST
    world.answered = slow(seconds)
    world.pass_time(5 + 10 * seconds)
    assert world.window.each >= EACH // 2


def test_one_that_becomes_a_little_slower_gets_more_after_a_while() -> None:
    processors = Processors()
    world = World(processors)
    world.pass_time(6.0)
    world.answered = lambda now, number: max(processors(now, number), now + 0.013)
    assert world.share(32, settled_after=20.0) > 0.8


def test_nothing_is_tried_where_nobody_wants_more() -> None:
    world = World(Processors(), wanted=False)
    world.pass_time(6.0)
    assert set(world.seen) == {EACH}


def test_what_is_tried_when_nobody_wants_more_any_longer_is_put_back() -> None:
    world = World(Processors())
    while world.window.each == EACH:
        world.pass_time(0.005)
    world.wanted = False
    world.pass_time(2.0)
    assert world.window.each == EACH


def test_without_answers_nothing_is_tried() -> None:
    world = World(never)
    world.pass_time(10.0)
    assert set(world.seen) == {EACH}


@pytest.mark.parametrize("lanes", [12, 24, 100])
def test_each_of_many_lanes_has_two_where_processors_are_the_limit(lanes: int) -> None:
    world = World(Processors(), lanes)
    assert world.share(2, settled_after=10.0) > 0.7


@pytest.mark.parametrize("lanes", [12, 24])
def test_many_lanes_whose_subscriber_becomes_slower_bit_by_bit_get_more_again(lanes: int) -> None:
    processors = Processors()
    world = World(processors, lanes)
    world.pass_time(10.0)
    for step in range(1, 11):
        world.answered = slow(0.02 * step)
        world.pass_time(1.0)
    assert world.share(MOST // lanes, settled_after=30.0) > 0.7


def test_the_slow_one_of_ten_lanes_gets_all_it_may_have_soon_after_the_others_are_done() -> None:
    world = World(Processors(), lanes=10)
    world.pass_time(10.0)
    assert world.window.each <= 4
    world.answered, world.busy = slow(1.0), 1
    world.pass_time(6.0)
    assert world.window.each == MOST // 10


def test_an_open_one_is_never_ready() -> None:
    window = Window.open()
    assert not window.ready(1e18, 10**9)
    assert window.each > 1e9


def test_a_period_is_long_enough_to_count_answers() -> None:
    window = Window(MOST, EACH, 0.0)
    assert not window.ready(PERIOD / 2, 10_000)
    assert not window.ready(PERIOD, 10_000)  # none has arrived since: there may be a burst on its way
    assert window.ready(PERIOD, 10_001)
    window.tick(PERIOD, 1, 0, True)
    assert not window.ready(3 * PERIOD, 10_002)  # few


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
