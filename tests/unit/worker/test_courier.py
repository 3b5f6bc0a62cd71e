"""Where deliveries go next: what Kafka does not take, hosts that are down, waits that were begun elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from headrace.base.clock import VirtualClock
from headrace.core.contract import BackoffPolicy, Egress, EgressConfig, Resource
from headrace.core.delivery import FailedDelivery
from headrace.core.events.model import Event
from headrace.core.progress import Progress, Straggler
from headrace.dispatcher.spec import Limits
from headrace.dispatcher.worker.courier import Courier, Outside
from headrace.dispatcher.worker.delivery import Delivery, Ending, Stage
from headrace.dispatcher.worker.gate import FAILURES, Gate
from headrace.dispatcher.worker.lane import Lane
from headrace.dispatcher.worker.record import Record
from headrace.dispatcher.worker.ring import Ring
from headrace.dispatcher.worker.subscription import subscription_of
from headrace.http.client import Client
from tests.support.frames import event_frame
from tests.support.subscriber import Answer, Subscriber, subscriber

REPLY = {"ce-specversion": "1.0", "ce-id": "r", "ce-source": "/r", "ce-type": "t"}


@dataclass
class Rig:
    """A courier with a lane, real requests, and a Kafka that the test plays."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    client: Client = field(default_factory=Client)
    published: list[Delivery] = field(default_factory=list)
    ended: list[Ending] = field(default_factory=list)
    waiting: list[tuple[Delivery, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate: Gate[Delivery] = Gate(128, 512, self.clock)
        self.courier = Courier(
            Outside(
                client=self.client,
                gate=self.gate,
                clock=self.clock,
                publish=self._publish,
                ended=self._ended,
                waits=self._waits,
                response_bytes=1 << 20,
                replies_bytes=1 << 22,
                hop_limit=0,
            )
        )
        self.ring = Ring(0, 100, 1 << 20)

    def lane(self, url: str, retry: int = 0, delay: int = 0, **egress: object) -> Lane:
        config = EgressConfig(retry=retry, backoff_delay=delay, backoff_policy=BackoffPolicy.LINEAR)
        made = Egress(uid="lane", destination=url, egress_config=config, **egress)  # type: ignore[arg-type]
        lane = Lane(subscription_of(Resource(), made), self.ring, Limits(), partitions=1)
        lane.start(Progress.initial(0))
        return lane

    def event(self, lane: Lane) -> Delivery:
        """The next event, taken by the lane."""
        record = Record.of_frame(event_frame(0, self.ring.head))
        self.ring.append(record)
        lane.offer(record)
        delivery = lane.take()
        assert delivery is not None
        return delivery

    def requests(self) -> None:
        """Let what is under way end."""
        while self.client.active:
            for exchange in self.client.poll():
                self.courier.ended(exchange)
            self.client.wait(0.05)

    def due(self) -> None:
        """The time of all that waits comes."""
        waiting, self.waiting = self.waiting, []
        for delivery, seconds in waiting:
            self.clock.advance(seconds)
            assert delivery.lane.retry(delivery)
            again = delivery.lane.take()
            assert again is delivery
            self.courier.send(again)

    def _publish(self, event: Event, delivery: Delivery) -> None:
        self.published.append(delivery)

    def _ended(self, delivery: Delivery, how: Ending) -> None:
        delivery.lane.finish(delivery)
        self.ended.append(how)

    def _waits(self, delivery: Delivery, seconds: float) -> None:
        delivery.lane.wait(delivery)
        self.waiting.append((delivery, seconds))


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.client.close()


@pytest.fixture
def replying() -> Iterator[Subscriber]:
    with subscriber(Answer(200, REPLY, b"x" * 100)) as server:
        yield server


def test_a_reply_that_kafka_does_not_take_for_a_while_costs_the_subscriber_nothing(rig: Rig, replying: Subscriber) -> None:
    lane = rig.lane(replying.url(), reply_to_original_topic=True)
    rig.courier.send(rig.event(lane))
    rig.requests()
    for number in range(1, 20):
        assert len(rig.published) == number
        rig.courier.stored(rig.published[-1], "timed out", False)
        assert rig.ring.replies == 100
        rig.due()
    rig.courier.stored(rig.published[-1], "", False)
    assert rig.ended == [Ending.DELIVERED]
    assert len(replying.requests) == 1
    assert (lane.counts.failed, rig.ring.replies) == (0, 0)


def test_a_reply_that_kafka_refuses_is_a_failed_attempt(rig: Rig, replying: Subscriber) -> None:
    lane = rig.lane(replying.url(), retry=1, reply_to_original_topic=True)
    rig.courier.send(rig.event(lane))
    rig.requests()
    rig.courier.stored(rig.published[-1], "too large", True)
    rig.due()
    rig.requests()
    assert len(replying.requests) == 2
    rig.courier.stored(rig.published[-1], "too large", True)
    assert rig.ended == [Ending.DROPPED]


def test_an_undeliverable_event_is_kept_however_long_it_takes(rig: Rig) -> None:
    with subscriber(400) as server:
        lane = rig.lane(server.url(), headrace={"onUndeliverable": "park"})
        rig.courier.send(rig.event(lane))
        rig.requests()
        for _ in range(20):
            rig.courier.stored(rig.published[-1], "timed out", False)
            rig.due()
        rig.courier.stored(rig.published[-1], "", False)
        assert rig.ended == [Ending.KEPT]
        assert len(server.requests) == 1


@pytest.mark.parametrize("stage", [Stage.SUBSCRIBER, Stage.DEAD_LETTER])
def test_no_attempt_is_counted_for_a_host_that_is_down_unless_it_was_made(rig: Rig, stage: Stage) -> None:
    with subscriber(503) as server:
        refusing = server.url()
        lane = rig.lane(refusing, retry=3, delay=1)
        delivery = rig.event(lane)
        delivery.attempts = delivery.tries = 1
        host = lane.subscription.subscriber.host
        for _ in range(FAILURES):
            rig.clock.advance(1.0)
            assert rig.gate.enter(host, delivery)
            rig.gate.leave(host, False)
        delivery.stage, delivery.failed = stage, FailedDelivery(refusing)
        rig.courier.send(delivery)
        rig.requests()
        assert server.requests == []
        assert (delivery.attempts, delivery.tries, rig.ended, rig.waiting) == (1, 1, [], [])
        rig.clock.advance(3.0)
        rig.courier.start_waiting()
        rig.requests()
        assert len(server.requests) == 1
        assert delivery.attempts + delivery.tries == 3


def test_the_rest_of_a_wait_that_was_begun_elsewhere_is_waited_for_once(rig: Rig) -> None:
    with subscriber(500) as server:
        lane = rig.lane(server.url(), retry=5, delay=10_000)
        now = int(rig.clock.now() * 1000)
        lane.start(Progress.of(0, (), [Straggler(1, 2, now - 25_000)]))
        lane.finish(rig.event(lane))
        rig.courier.send(rig.event(lane))
        rig.requests()
        [(delivery, seconds)] = rig.waiting
        assert (seconds, delivery.attempts, server.requests) == (5.0, 2, [])
        rig.due()
        rig.requests()
        assert (len(server.requests), delivery.attempts) == (1, 3)
        assert [wait for _, wait in rig.waiting] == [30.0]


def test_an_attempt_that_came_late_moves_the_next_one(rig: Rig) -> None:
    with subscriber(500) as server:
        lane = rig.lane(server.url(), retry=5, delay=10_000)
        now = int(rig.clock.now() * 1000)
        lane.start(Progress.of(0, (), [Straggler(1, 1, now - 3_600_000)]))
        lane.finish(rig.event(lane))
        rig.courier.send(rig.event(lane))
        rig.requests()
        [straggler] = lane.progress().stragglers
        assert lane.subscription.policy.left_ms(straggler.attempts, straggler.since, int(rig.clock.now() * 1000)) == 20_000
