"""Where deliveries go next: what Kafka does not take, hosts that are down, waits that were begun elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.base.clock import VirtualClock
from headrace.core.contract import BackoffPolicy, Egress, EgressConfig, Reference, Resource
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
from headrace.dispatcher.worker.tokens import Tokens
from headrace.http.client import Client
from headrace.http.tokens import Identity, Token
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
    asked: list[tuple[Identity, float, Callable[[Token | str], None]]] = field(default_factory=list)
    """Requests for tokens: for whom, after so many seconds, and how to answer."""

    def __post_init__(self) -> None:
        self.gate: Gate[Delivery] = Gate(128, 512, self.clock)
        self.tokens = Tokens(self, self.clock)
        self.courier = Courier(
            Outside(
                client=self.client,
                gate=self.gate,
                tokens=self.tokens,
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
        made = Egress(uid="lane", destination=url, **{"egress_config": config, **egress})  # type: ignore[arg-type]
        resource = Resource(reference=Reference(namespace="ns", name="b"))
        lane = Lane(subscription_of(resource, made, tokens=True), self.ring, Limits(), partitions=1)
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

    def fetch(self, identity: Identity, after: float, answer: Callable[[Token | str], None]) -> None:
        self.asked.append((identity, after, answer))

    def give(self, token: Token | str) -> tuple[Identity, float]:
        """Answer the oldest request for a token when it is due; what it was."""
        identity, after, answer = self.asked.pop(0)
        self.clock.advance(after)
        answer(token)
        self.courier.start_waiting()
        return identity, after

    def token(self, value: str = "T", seconds: float = 3600) -> Token:
        return Token(value, self.clock.now() + seconds)

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


ACCOUNT: dict[str, Any] = {"destination_audience": "them", "oidc_service_account_name": "me"}


def shown(server: Subscriber) -> list[str]:
    """The tokens that came, in order."""
    return [request.headers.get("authorization", "") for request in server.requests]


def test_an_event_waits_for_its_token_and_goes_out_with_it(rig: Rig) -> None:
    with subscriber() as server:
        lane = rig.lane(server.url(), **ACCOUNT)
        rig.courier.send(rig.event(lane))
        rig.courier.send(rig.event(lane))
        rig.courier.start_waiting()
        assert (rig.client.active, server.requests, lane.in_flight) == (0, [], 2)
        assert rig.give(rig.token()) == (Identity("ns", "me", "them"), 0.0)
        rig.requests()
        assert shown(server) == ["Bearer T", "Bearer T"]
        assert rig.ended == [Ending.DELIVERED] * 2
        assert not rig.asked, "one token serves all events of an identity"


def test_a_token_that_can_not_be_had_is_asked_for_less_and_less_often_and_costs_no_attempt(rig: Rig) -> None:
    with subscriber() as server:
        lane = rig.lane(server.url(), **ACCOUNT)
        delivery = rig.event(lane)
        rig.courier.send(delivery)
        pauses = [rig.give("nobody answers")[1] for _ in range(10)]
        assert pauses == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
        assert lane.counts.blocked == "no token of serviceaccount ns/me for audience them: nobody answers"
        assert (delivery.attempts, lane.counts.failed, lane.in_flight, server.requests) == (0, 0, 1, [])
        rig.give(rig.token())
        rig.requests()
        assert (rig.ended, lane.counts.blocked) == ([Ending.DELIVERED], "")


def test_a_token_is_renewed_after_two_thirds_of_its_life_while_the_old_one_goes_on(rig: Rig) -> None:
    with subscriber() as server:
        lane = rig.lane(server.url(), **ACCOUNT)

        def deliver() -> None:
            rig.courier.send(rig.event(lane))
            rig.requests()

        rig.courier.send(rig.event(lane))
        rig.give(rig.token("first", 3000))
        rig.requests()
        rig.clock.advance(1999)
        deliver()
        assert not rig.asked
        rig.clock.advance(1)
        deliver()
        deliver()
        assert shown(server) == ["Bearer first"] * 4
        rig.give("nobody answers")
        deliver()
        assert not rig.asked, "it is left alone for a while"
        rig.clock.advance(1)
        deliver()
        rig.give(rig.token("second"))
        deliver()
        assert shown(server) == ["Bearer first"] * 6 + ["Bearer second"]


def test_an_expired_token_is_not_sent(rig: Rig) -> None:
    with subscriber() as server:
        lane = rig.lane(server.url(), **ACCOUNT)
        rig.courier.send(rig.event(lane))
        rig.give(rig.token("old", 600))
        rig.requests()
        rig.clock.advance(600)
        rig.courier.send(rig.event(lane))
        rig.courier.start_waiting()
        assert rig.client.active == 0
        rig.give(rig.token("new"))
        rig.requests()
        assert shown(server) == ["Bearer old", "Bearer new"]


def test_a_token_that_expires_while_its_event_waits_for_room_is_not_sent(rig: Rig) -> None:
    with subscriber() as server:
        lane = rig.lane(server.url(), **ACCOUNT)
        rig.courier.send(rig.event(lane))
        rig.give(rig.token("old", 600))
        rig.requests()
        target = lane.subscription.subscriber
        blockers = [rig.event(rig.lane("http://127.0.0.1:9/")) for _ in range(64)]
        taken = [one for one in blockers if rig.gate.enter(target.host, one)]
        rig.courier.send(rig.event(lane))
        rig.clock.advance(600)
        for one in blockers[len(taken) :]:
            rig.gate.forget(target.host, one)
        rig.gate.leave(target.host, None)
        rig.courier.start_waiting()
        assert (rig.client.active, rig.gate.under_way) == (0, len(taken) - 1)
        rig.give(rig.token("new"))
        rig.requests()
        assert shown(server) == ["Bearer old", "Bearer new"]


def test_replies_and_dead_letters_show_tokens_of_their_own(rig: Rig, replying: Subscriber) -> None:
    with subscriber(400) as answers, subscriber() as letters:
        config = EgressConfig(dead_letter=letters.url(), dead_letter_audience="letters")
        rest: dict[str, Any] = {"reply_url": answers.url(), "reply_url_audience": "answers", "oidc_service_account_name": "me"}
        lane = rig.lane(replying.url(), egress_config=config, destination_audience="them", **rest)
        rig.courier.send(rig.event(lane))
        for audience in ("them", "answers", "letters"):
            assert rig.give(rig.token(f"for-{audience}"))[0].audience == audience
            rig.requests()
        assert [shown(one) for one in (replying, answers, letters)] == [
            ["Bearer for-them"],
            ["Bearer for-answers"],
            ["Bearer for-letters"],
        ]
        assert rig.ended == [Ending.DEAD_LETTERED]


def test_who_asks_for_no_audience_is_shown_no_token(rig: Rig) -> None:
    with subscriber(503) as server, subscriber() as letters:
        config = EgressConfig(dead_letter=letters.url(), dead_letter_audience="letters")
        lane = rig.lane(server.url(), egress_config=config, oidc_service_account_name="me")
        rig.courier.send(rig.event(lane))
        rig.requests()
        rig.give(rig.token())
        rig.requests()
        assert (shown(server), shown(letters)) == ([""], ["Bearer T"])


def test_a_token_does_not_follow_a_redirect(rig: Rig) -> None:
    with subscriber() as elsewhere, subscriber(Answer(307, {"location": elsewhere.url()})) as server:
        lane = rig.lane(server.url(), **ACCOUNT)
        rig.courier.send(rig.event(lane))
        rig.give(rig.token())
        rig.requests()
        assert (shown(server), shown(elsewhere)) == (["Bearer T"], [])
        assert rig.ended == [Ending.DROPPED]


def test_an_event_whose_subscription_was_changed_does_not_wait_for_the_old_token(rig: Rig) -> None:
    with subscriber() as server:
        lane = rig.lane(server.url(), destination_audience="wrong", oidc_service_account_name="me")
        rig.courier.send(rig.event(lane))
        rig.give("no such account")
        lane.configure(rig.lane(server.url()).subscription)
        rig.give("no such account")
        rig.requests()
        assert (shown(server), rig.asked, lane.counts.blocked) == ([""], [], "")


def test_an_event_that_waits_for_its_token_can_be_taken_back(rig: Rig) -> None:
    with subscriber() as server:
        lane = rig.lane(server.url(), **ACCOUNT)
        parked, abandoned, withdrawn = rig.event(lane), rig.event(lane), rig.event(lane)
        for delivery in (parked, abandoned, withdrawn):
            rig.courier.send(delivery)
        assert rig.courier.withdraw(parked)
        rig.courier.abandon(abandoned)
        identity, _, answer = rig.asked.pop()
        answer(rig.token())
        assert rig.courier.withdraw(withdrawn), "its token has come, but nothing was sent yet"
        rig.courier.start_waiting()
        assert (identity.audience, rig.client.active, server.requests) == ("them", 0, [])


def test_nothing_of_a_token_is_kept_where_it_could_be_printed(rig: Rig) -> None:
    with subscriber(503) as server:
        lane = rig.lane(server.url(), **ACCOUNT)
        rig.courier.send(rig.event(lane))
        rig.give(rig.token("very-secret"))
        rig.requests()
        told = f"{lane.counts.last_error} {lane.counts.blocked} {rig.tokens._entries!r} {lane.subscription!r}"
        assert "very-secret" not in told


def test_a_delivery_that_is_abandoned_when_its_answer_has_just_come_is_over_once(rig: Rig) -> None:
    with subscriber() as server:
        lane = rig.lane(server.url())
        delivery = rig.event(lane)
        rig.courier.send(delivery)
        while rig.client.active:
            rig.client.push()
        rig.courier.abandon(delivery)
        assert (rig.client.poll(), rig.gate.under_way, lane.in_flight) == ([], 0, 1)
        lane.settle()
        assert lane.progress().position == 0, "it is not finished"
