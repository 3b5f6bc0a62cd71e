"""Takes deliveries where they have to go: to the subscriber, with its reply, to the dead letter sink. The rules are in `core.delivery`.

    SUBSCRIBER --2xx, no event back--------------------------------------------> delivered
        |  ^   --2xx with an event--> REPLY_TOPIC --Kafka has it---------------> delivered
        |  |                            | Kafka is away: the reply again, until it has it
        |  |                            | Kafka refuses it: the whole delivery again
        |  |                          REPLY_URL --2xx--------------------------> delivered
        |  |                            | failed: the reply again (its own retries)
        |  +-- retryable, attempts left: after the backoff
        +----- refused, or no attempt left, here or at the reply URL
                  |
              DEAD_LETTER --2xx------------------------------------------------> dead-lettered
                  |  retryable, attempts left: again after the backoff
                  +-- no sink, refused, or no attempt left --------------------> dropped (counted and logged)
                         +-- if asked: KEEP --Kafka has it---------------------> kept in the topic of undeliverable events

Only requests count as attempts: while the circuit of a host is open (see `gate`), or no token can be had for it (see `tokens`), its events
wait, and what Kafka does not take for a while is nobody's failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from headrace.base.clock import Clock
from headrace.base.log import get_logger
from headrace.core.delivery import ERROR_DATA_BYTES, FailedDelivery, Verdict, judge, next_hop
from headrace.core.events.http import decode_response
from headrace.core.events.model import Event, InvalidEvent
from headrace.dispatcher.worker.delivery import Delivery, Ending, Stage
from headrace.dispatcher.worker.gate import Gate
from headrace.dispatcher.worker.loglimit import LogLimit
from headrace.dispatcher.worker.messages import has_event, kept_event, message_of, target_of
from headrace.dispatcher.worker.ring import Ring
from headrace.dispatcher.worker.subscription import ReplyTo
from headrace.dispatcher.worker.tokens import Tokens
from headrace.http.client import BodyLimits, Client, Exchange

log = get_logger(__name__)

Limits = Callable[[int, list[bytes]], BodyLimits]

_GATEWAY_FAILED = frozenset({502, 503, 504})
_STORE_PAUSES = (0.5, 1.0, 2.0, 5.0)
_STORED = (Stage.REPLY_TOPIC, Stage.KEEP)
_NO_ROOM = BodyLimits(keep=0, read=0)
_NO_ROOM_PAUSE = 0.2
_NO_REPLY = BodyLimits(keep=ERROR_DATA_BYTES, read=64 * 1024)
_UNKNOWN_LENGTH = 64 * 1024
"""What a reply that does not say its length is taken to have."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What a courier works with.

    `publish(event, delivery)` stores a reply or an undeliverable event (by the delivery's stage); its fate comes back by
    `Courier.stored`. `ended(delivery, how)` is told when a delivery is over; `waits(delivery, seconds)` when it is to be sent again
    after so long.
    """

    client: Client
    gate: Gate[Delivery]
    tokens: Tokens
    clock: Clock
    publish: Callable[[Event, Delivery], None]
    ended: Callable[[Delivery, Ending], None]
    waits: Callable[[Delivery, float], None]
    response_bytes: int
    replies_bytes: int
    hop_limit: int


class Courier:
    """See the module. All calls belong to the engine's thread."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._client = outside.client
        self._gate = outside.gate
        self._tokens = outside.tokens
        self._clock = outside.clock
        self._log_limit = LogLimit(outside.clock)

    # -- requests -------------------------------------------------------------------------------------------------

    def send(self, delivery: Delivery) -> None:
        """Make the next attempt of a delivery that its lane has in flight, as soon as its destination has room."""
        if delivery.stage is Stage.SUBSCRIBER:
            if delivery.attempts and not self._may_try(delivery):
                return
        elif delivery.stage in _STORED:
            self._store(delivery)
            return
        target = target_of(delivery)
        if target.identity is not None and self._tokens.line(target.identity) is None:
            self._tokens.wait(delivery, target.identity)
            return
        delivery.host = target.host
        if self._gate.enter(delivery.host, delivery):
            self._start(delivery)

    def _may_try(self, delivery: Delivery) -> bool:
        """Whether an event that has failed may be sent to its subscriber again now; if not, it goes where it has to go."""
        subscription = delivery.lane.subscription
        if delivery.attempts > subscription.policy.retry:
            # Attempts of an earlier run, or of a policy that allowed more: they are used up.
            self._to_dead_letter(delivery, FailedDelivery(subscription.subscriber.url, reason="no attempt left"))
            return False
        left = self.time_left(delivery) if delivery.inherited else 0.0
        delivery.inherited = False
        if left:
            self._outside.waits(delivery, left)
        return not left

    def time_left(self, delivery: Delivery) -> float:
        """Seconds until the next attempt is due of an event whose last one was made by another worker."""
        policy = delivery.lane.subscription.policy
        return policy.left_ms(delivery.attempts, delivery.since, int(self._clock.now() * 1000)) / 1000

    def start_waiting(self) -> None:
        """Start the requests that waited for a token, for room, or for the time of a probe."""
        ready = self._tokens.arrived()
        while ready is not None:
            self.send(ready)
            ready = self._tokens.arrived()
        waiting = self._gate.next()
        while waiting is not None:
            self._start(waiting)
            waiting = self._gate.next()

    def _start(self, delivery: Delivery) -> None:
        subscription = delivery.lane.subscription
        limits: Limits = self._limits_without_reply
        if delivery.stage is Stage.SUBSCRIBER and subscription.reply_to is not ReplyTo.NOBODY:
            limits = partial(self._limits_with_reply, delivery.lane.ring)
        target = target_of(delivery)
        lines, body = message_of(delivery)
        if target.identity is not None:
            shown = self._tokens.line(target.identity)
            if shown is None:
                # It has expired while the delivery waited at the gate.
                self._gate.leave(delivery.host, None)
                self._tokens.wait(delivery, target.identity)
                return
            lines = [*lines, shown]
        exchange = Exchange(target.url, lines, body, subscription.timeout_ms, limits, delivery, target.ca_file)
        delivery.exchange = exchange
        self._client.start(exchange)

    # -- outcomes -------------------------------------------------------------------------------------------------

    def ended(self, exchange: Exchange) -> None:
        """A request is over: decide what follows, and let the next one start in its place."""
        delivery: Delivery = exchange.context
        delivery.exchange = None
        self._gate.leave(delivery.host, exchange.failure is None and exchange.status not in _GATEWAY_FAILED)
        if exchange.failure is None and judge(exchange.status) is Verdict.DELIVERED:
            self._accepted(delivery, exchange)
        else:
            self._rejected(delivery, exchange)

    def stored(self, delivery: Delivery, error: str, final: bool) -> None:
        """Kafka has answered for what was published of `delivery`; `error` is empty when it has it, `final` when it never will."""
        lane, kept = delivery.lane, delivery.stage is Stage.KEEP
        if not error:
            lane.keep_reply(delivery, None)
            self._outside.ended(delivery, Ending.KEPT if kept else Ending.DELIVERED)
            return
        what = f"{'an undeliverable event' if kept else 'a reply'} could not be stored: {error}"
        if final and not kept:
            lane.keep_reply(delivery, None)
            delivery.stage = Stage.SUBSCRIBER
            self._again(delivery, FailedDelivery(lane.subscription.subscriber.url, reason=what), retryable=True)
            return
        lane.counts.last_error = what
        pause = _STORE_PAUSES[min(delivery.tries, len(_STORE_PAUSES) - 1)]
        delivery.tries += 1
        self._outside.waits(delivery, pause)

    def withdraw(self, delivery: Delivery) -> bool:
        """Do not begin the request of a delivery that waits for it; whether it did."""
        return delivery.exchange is None and (self._gate.forget(delivery.host, delivery) or self._tokens.forget(delivery))

    def abandon(self, delivery: Delivery) -> None:
        """Forget a delivery that is in flight: its request is broken off, nothing is reported."""
        exchange, delivery.exchange = delivery.exchange, None
        if exchange is None:
            if not self._gate.forget(delivery.host, delivery):
                self._tokens.forget(delivery)
            return
        self._client.abort(exchange)
        self._gate.leave(delivery.host, None)

    def _accepted(self, delivery: Delivery, exchange: Exchange) -> None:
        if delivery.stage is Stage.DEAD_LETTER:
            self._outside.ended(delivery, Ending.DEAD_LETTERED)
        elif (
            delivery.stage is Stage.REPLY_URL
            or exchange.status == 202
            or delivery.lane.subscription.reply_to is ReplyTo.NOBODY
            or not has_event(exchange.header_lines)
        ):
            delivery.lane.keep_reply(delivery, None)
            self._outside.ended(delivery, Ending.DELIVERED)
        else:
            self._replied(delivery, exchange)

    def _replied(self, delivery: Delivery, exchange: Exchange) -> None:
        subscription = delivery.lane.subscription
        if exchange.cut and not exchange.kept:
            # No room for one more reply just now: nobody's fault, so it is no failed attempt.
            self._outside.waits(delivery, _NO_ROOM_PAUSE)
            return
        try:
            if exchange.cut:
                raise InvalidEvent(f"it is larger than {self._outside.response_bytes} bytes")
            reply = decode_response(exchange.status, exchange.headers, exchange.body_kept)
        except InvalidEvent as error:
            failed = FailedDelivery(subscription.subscriber.url, exchange.status, reason=f"its reply is no event: {error}")
            self._again(delivery, failed, retryable=True)
            return
        limit = subscription.hop_limit or self._outside.hop_limit
        if reply is not None and limit:
            reply = self._counted(delivery, reply, limit)
        if reply is None:
            self._outside.ended(delivery, Ending.DELIVERED)
            return
        delivery.lane.keep_reply(delivery, reply)
        if subscription.reply_to is ReplyTo.TOPIC:
            delivery.stage, delivery.tries = Stage.REPLY_TOPIC, 0
            self._store(delivery)
        else:
            delivery.stage, delivery.tries = Stage.REPLY_URL, 0
            self.send(delivery)

    def _counted(self, delivery: Delivery, reply: Event, limit: int) -> Event | None:
        counted = next_hop(delivery.record.attributes, reply, limit)
        if counted is None:
            log.warning(
                "A reply went round too often and is dropped",
                trigger=delivery.lane.subscription.name,
                event=reply.attributes["id"],
                limit=limit,
            )
        return counted

    def _rejected(self, delivery: Delivery, exchange: Exchange) -> None:
        target = target_of(delivery)
        if exchange.failure is not None:
            failed = FailedDelivery(target.url, reason=f"{exchange.failure}: {exchange.error}")
            retryable, retry_after = True, None
        else:
            headers = tuple(exchange.headers)
            failed = FailedDelivery(target.url, exchange.status, headers, exchange.body_kept, f"status {exchange.status}")
            retryable = judge(exchange.status) is Verdict.RETRY
            retry_after = next((value for name, value in headers if name.lower() == "retry-after"), None)
        self._again(delivery, failed, retryable, retry_after)

    def _again(self, delivery: Delivery, failed: FailedDelivery, retryable: bool, retry_after: str | None = None) -> None:
        """Wait for another attempt at the present stage, or go on without one."""
        lane = delivery.lane
        lane.counts.failed += 1
        lane.counts.last_error = f"{failed.destination}: {failed.reason}"
        now = self._clock.now()
        if delivery.stage is Stage.SUBSCRIBER:
            delivery.attempts += 1
            attempts = delivery.attempts
        else:
            delivery.tries += 1
            attempts = delivery.tries
        wait = lane.subscription.policy.wait_after(attempts, failed.status, retry_after, now) if retryable else None
        at = int(now * 1000)
        delivery.since = delivery.since or at
        if wait is not None and delivery.stage is Stage.SUBSCRIBER:
            delivery.since = max(delivery.since, lane.subscription.policy.base_ms(attempts, at + wait))
        if wait is not None:
            self._outside.waits(delivery, wait / 1000)
        elif delivery.stage is Stage.DEAD_LETTER:
            self._drop(delivery, failed)
        else:
            self._to_dead_letter(delivery, failed)

    def _to_dead_letter(self, delivery: Delivery, failed: FailedDelivery) -> None:
        subscription = delivery.lane.subscription
        delivery.lane.keep_reply(delivery, None)
        delivery.attempts = max(delivery.attempts, subscription.policy.retry + 1)
        if subscription.dead_letter is None:
            self._drop(delivery, failed)
            return
        # The letter names the subscriber, whose event it is, also when it was the reply that could not be delivered.
        delivery.failed = FailedDelivery(subscription.subscriber.url, failed.status, failed.headers, failed.body, failed.reason)
        delivery.stage, delivery.tries = Stage.DEAD_LETTER, 0
        self.send(delivery)

    def _drop(self, delivery: Delivery, failed: FailedDelivery) -> None:
        if delivery.lane.subscription.keep_undeliverable:
            self._keep(delivery, failed)
            return
        more = self._log_limit.allow()
        if more is not None:
            self._log_drop(delivery, failed, more)
        self._outside.ended(delivery, Ending.DROPPED)

    @staticmethod
    def _log_drop(delivery: Delivery, failed: FailedDelivery, more: dict[str, int]) -> None:
        log.warning(
            "An event could not be delivered and is skipped",
            trigger=delivery.lane.subscription.name,
            partition=delivery.record.partition,
            offset=delivery.record.offset,
            event=delivery.record.attributes.get("id"),
            destination=failed.destination,
            reason=failed.reason,
            **more,
        )

    def _keep(self, delivery: Delivery, failed: FailedDelivery) -> None:
        delivery.failed = delivery.failed or failed
        delivery.stage, delivery.tries = Stage.KEEP, 0
        self._store(delivery)

    def _store(self, delivery: Delivery) -> None:
        event = delivery.reply if delivery.stage is Stage.REPLY_TOPIC else kept_event(delivery)
        assert event is not None
        self._outside.publish(event, delivery)

    # -- how much of a response is read ----------------------------------------------------------------------------

    def _limits_with_reply(self, ring: Ring, status: int, header_lines: list[bytes]) -> BodyLimits:
        if status != 202 and judge(status) is Verdict.DELIVERED and has_event(header_lines):
            return self._room_for(_length(header_lines), self._outside.replies_bytes - ring.replies)
        return _NO_REPLY

    def _room_for(self, length: int | None, bound: int) -> BodyLimits:
        """One reply more, of `length` bytes if that is known, so that all of them hold no more than `bound`; a single one always passes."""
        most = self._outside.response_bytes
        reserve = min(most, _UNKNOWN_LENGTH if length is None else length)
        held = self._client.held
        nothing_held = not held and bound == self._outside.replies_bytes
        if held + reserve > bound and not nothing_held:
            return _NO_ROOM
        return BodyLimits(keep=most, read=most, reserve=reserve, bound=bound)

    @staticmethod
    def _limits_without_reply(status: int, header_lines: list[bytes]) -> BodyLimits:
        return _NO_REPLY


def _length(header_lines: list[bytes]) -> int | None:
    """What a response says of its body's length, in bytes."""
    for line in header_lines:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    return None
