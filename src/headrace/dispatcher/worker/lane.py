"""A lane: one subscription in one partition. What it has to send, what is under way, what waits, what is finished. No I/O.

    ring ---offer---> pending ---take---> in flight ---finish---> (gone)
                                   ^          | failed
                                   +- ready <-+- waiting: a straggler until its time has come

An event is *active* from the moment the lane takes it until it is finished. Progress is all below the cursor (the first event not yet
taken) but the active ones: so it is exact whatever the order in which events end. Orders (contract `deliveryOrder`, ours `KEY`):

    ORDERED    one active event; one that fails holds the lane
    UNORDERED  as many in flight as allowed; a failed one waits aside, the lane goes on
    KEY        one active event per record key, keys side by side; a failed one holds its key only

Stragglers let go of the ring (their payload stays pinned), at most `limits.stragglers`; beyond that the lane takes nothing new.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import StrEnum

from headrace.core.contract import DeliveryOrder
from headrace.core.events.model import Event
from headrace.core.progress import Progress, Straggler
from headrace.dispatcher.spec import Limits
from headrace.dispatcher.worker.counts import Counts
from headrace.dispatcher.worker.delivery import Delivery
from headrace.dispatcher.worker.keys import KeyLines
from headrace.dispatcher.worker.latency import Latencies
from headrace.dispatcher.worker.rate import Rate
from headrace.dispatcher.worker.record import Record
from headrace.dispatcher.worker.ring import Ring
from headrace.dispatcher.worker.subscription import Subscription
from headrace.dispatcher.worker.window import Window

KEY_WINDOW = 256
"""How many events may wait behind others of their key before a lane in key order takes nothing new."""


class LaneState(StrEnum):
    """See the picture in `spec`."""

    LIVE = "LIVE"
    JOINING = "JOINING"
    PARKED = "PARKED"
    CATCHING_UP = "CATCHING_UP"
    PAUSED = "PAUSED"


class Lane:
    """See the module. `partitions`: how many lanes share the subscription's own limits. `window`: what the worker allows each lane for now.

    `writer`: whose records those of its progress are.
    """

    def __init__(
        self, subscription: Subscription, ring: Ring, limits: Limits, partitions: int, window: Window | None = None
    ) -> None:
        self.uid = subscription.uid
        self.ring = ring
        self.state = LaneState.PARKED
        self.counts = Counts()
        self.latencies = Latencies()
        self.pending: deque[Record] = deque()
        self.ready: deque[Delivery] = deque()
        self.active: dict[int, Delivery] = {}
        self.fetching: dict[int, Straggler] = {}
        self.fetch_begun = False
        self.in_flight = 0
        self.aside = 0
        self.pinned = 0
        self.pin = 0
        self.held_until = 0.0
        self.timer_set = False
        self._limits = limits
        self._partitions = partitions
        self._shared = window or Window.open()
        self.begin = 0
        self.writer = ""
        self._stopped_at = 0
        self._at_rest: Progress | None = Progress.initial(0)
        self._before: Progress | None = None
        self._history: dict[int, Straggler] = {}
        self._keys = KeyLines()
        self._reordering = False
        self.subscription = subscription
        self.configure(subscription)

    def configure(self, subscription: Subscription) -> None:
        """Go on under another egress of the same uid. What is active goes on with the new one."""
        changed = subscription.order is not self.subscription.order
        self._reordering = bool(self.active) and (self._reordering or changed)
        self.subscription = subscription
        window = self._limits.lane_in_flight
        if subscription.max_in_flight:
            window = min(window, max(1, subscription.max_in_flight // self._partitions))
        self._window = 1 if subscription.order is DeliveryOrder.ORDERED else window
        per_second = subscription.max_rate / self._partitions
        self._rate = Rate(per_second) if per_second else None

    # -- starting and stopping ------------------------------------------------------------------------------------

    def start(self, progress: Progress) -> None:
        """Go live from `progress`, which must not lie below the ring's floor. What the ring holds already is offered by the caller."""
        self.state = LaneState.LIVE
        self._at_rest = None
        self.begin = progress.position
        self._before = progress
        self.fetching = {one.offset: one for one in progress.stragglers if one.offset < self.begin}
        self.fetch_begun = False
        self._history = {one.offset: one for one in progress.stragglers if one.offset >= self.begin}

    def hold(self, progress: Progress, state: LaneState = LaneState.PARKED) -> None:
        """Stand still at `progress`: somebody else serves the lane, or nobody."""
        self.state = state
        self._at_rest = progress
        self.begin = self._stopped_at = progress.position

    def park(self, state: LaneState = LaneState.PARKED) -> None:
        """Take nothing new and let go of the ring. What is in flight goes on; `settle` once `in_flight` is 0."""
        self._stopped_at = self.cursor
        self.state = state
        self._release_pending()
        for delivery in self.active.values():
            self._set_aside(delivery, at_any_price=True)

    def settle(self) -> None:
        """A parked lane has come to rest: its progress is fixed, and what waited is forgotten (the progress has its attempts)."""
        self._at_rest = self.progress()
        for delivery in self.active.values():
            self.keep_reply(delivery, None)
            if delivery.aside:
                self.ring.unpin(delivery.record)
        self.pinned = 0
        self.active.clear()
        self.ready.clear()
        self.fetching = {}
        self._history.clear()
        self._keys.clear()
        self._before = None
        self.aside = self.in_flight = 0

    # -- events ---------------------------------------------------------------------------------------------------

    def offer(self, record: Record) -> None:
        """An event of the ring that the filter takes; the lane holds it unless it has done with it."""
        if record.offset < self.begin or self.state is not LaneState.LIVE:
            return
        until = self.subscription.until
        if until and record.offset >= until.get(record.partition, record.offset + 1):
            return
        before = self._before
        if before is not None and before.is_done(record.offset):
            return
        self.pending.append(record)
        record.holders += 1

    def rematch(self, records: Iterable[Record]) -> None:
        """Another filter: of what was not taken yet, `records` (of the ring, oldest first) are what the lane wants now."""
        cursor = self.cursor
        self._release_pending()
        for record in records:
            if record.offset >= cursor:
                self.offer(record)

    def take(self, now: float = 0.0) -> Delivery | None:
        """The next delivery to be attempted, which is in flight from now on; None when nothing may go out.

        `now`: seconds of a monotonic clock, for the subscription's own rate: while that holds the lane, `held_until` says how long.
        """
        if self.in_flight >= self._window or self.in_flight >= self._shared.each or self.state is not LaneState.LIVE:
            return None
        if self.ready:
            self.in_flight += 1
            return self.ready.popleft()
        if not self.pending:
            return None
        if self._reordering:
            if self.active:
                return None
            self._reordering = False
        if self._rate is None:
            return self._take_new()
        wait = self._rate.wait(now)
        if wait:
            self.held_until = now + wait
            return None
        delivery = self._take_new()
        if delivery is not None:
            self._rate.spend()
        return delivery

    def _take_new(self) -> Delivery | None:
        order = self.subscription.order
        if order is DeliveryOrder.UNORDERED:
            return self._activate() if len(self.active) - self.in_flight < self._limits.stragglers else None
        if self.fetching:
            return None
        if order is DeliveryOrder.ORDERED:
            return None if self.active else self._activate()
        return self._take_by_key()

    def adopt(self, record: Record) -> Delivery | None:
        """The event of a straggler from before this run has been fetched: it waits until `retry` (None: not wanted any more)."""
        straggler = self.fetching.pop(record.offset, None)
        if straggler is None:
            return None
        delivery = Delivery(self, record)
        delivery.inherit(straggler)
        delivery.waiting = True
        self.active[record.offset] = delivery
        self._set_aside(delivery)
        if record.key is not None and self.subscription.order is DeliveryOrder.KEY:
            if not self._keys.join(record.key, delivery):
                delivery.waiting = False
                return None
            self._keys.hold(record.key)
        return delivery

    def lose(self, offset: int) -> None:
        """A straggler from before this run is not in Kafka any more."""
        if self.fetching.pop(offset, None) is not None:
            self.counts.lost += 1

    def wait(self, delivery: Delivery) -> None:
        """An attempt failed: the delivery waits for its time, aside where the order allows it and there is room."""
        self.in_flight -= 1
        delivery.waiting = True
        if self.subscription.order is DeliveryOrder.ORDERED:
            return
        self._set_aside(delivery)
        if delivery.record.key is not None:
            for behind in self._keys.hold(delivery.record.key):
                self._set_aside(behind)

    def retry(self, delivery: Delivery) -> bool:
        """The time of a waiting delivery has come. False: the lane has forgotten it since."""
        if self.active.get(delivery.record.offset) is not delivery:
            return False
        delivery.waiting = False
        if delivery.record.key is not None:
            self._keys.release(delivery.record.key)
        self.ready.append(delivery)
        return True

    def finish(self, delivery: Delivery) -> None:
        """An event that was in flight is done with, however it ended."""
        self.in_flight -= 1
        record = delivery.record
        del self.active[record.offset]
        if delivery.aside:
            self.aside -= 1
            self.pinned -= record.size
            self.ring.unpin(record)
        else:
            record.holders -= 1
        if self._keys and record.key is not None:
            following = self._keys.leave(record.key)
            if following is not None:
                self.ready.append(following)

    def let_go(self, delivery: Delivery) -> None:
        """An event that only waited for its request to begin is not in flight any more. For lanes that are not live."""
        self.in_flight -= 1

    def keep_reply(self, delivery: Delivery, reply: Event | None) -> None:
        """Hold what the subscriber answered, or let it go."""
        before, delivery.reply = delivery.reply, reply
        change = (len(reply.data or b"") if reply is not None else 0) - (len(before.data or b"") if before is not None else 0)
        self.ring.replies += change

    # -- facts ----------------------------------------------------------------------------------------------------

    @property
    def cursor(self) -> int:
        """The lowest offset that was not taken yet."""
        if self.state is not LaneState.LIVE:
            return self._stopped_at
        return self.pending[0].offset if self.pending else max(self.begin, self.ring.head)

    def progress(self) -> Progress:
        """Where the lane stands."""
        if self._at_rest is not None:
            return self._at_rest
        cursor = self.cursor
        if not (self.active or self.fetching or self._history or self._before):
            return Progress.initial(cursor)
        live = self.state is LaneState.LIVE
        stragglers = [
            Straggler(at, one.attempts, one.since) for at, one in self.active.items() if one.attempts or (one.aside and live)
        ]
        stragglers += self.fetching.values()
        stragglers += (one for at, one in self._history.items() if at >= cursor)
        before = self._before
        if before is not None and before.reach <= cursor and live:
            self._before = None
        return Progress.of(cursor, self.active, stragglers, before)

    @property
    def lowest_held(self) -> int | None:
        """The lowest offset for which the lane holds the ring; None when it holds nothing."""
        held = [at for at, one in self.active.items() if not one.aside]
        if self.pending:
            held.append(self.pending[0].offset)
        return min(held, default=None)

    @property
    def at_rest(self) -> bool:
        """Whether a lane that is not live has nothing under way any more."""
        return self.in_flight == 0 and self.state is not LaneState.LIVE

    @property
    def unfinished(self) -> bool:
        """Whether events that were read are left to do, stragglers that stand aside apart."""
        return bool(self.pending) or len(self.active) > self.aside

    @property
    def held_back(self) -> bool:
        """Whether it would have more under way if it might."""
        return self.in_flight >= min(self._window, self._shared.each) > 1 and bool(self.pending or self.ready)

    @property
    def retrying(self) -> int:
        """How many events have failed and are not finished yet."""
        return sum(1 for one in self.active.values() if one.attempts) + len(self.fetching)

    @property
    def oldest(self) -> int:
        """Timestamp (ms since the epoch) of the oldest unfinished event at hand; 0 without one."""
        stamps = [one.record.timestamp for one in self.active.values()]
        if self.pending:
            stamps.append(self.pending[0].timestamp)
        return min(stamps, default=0)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _activate(self) -> Delivery:
        record = self.pending.popleft()
        delivery = Delivery(self, record)
        if self._history:
            known = self._history.pop(record.offset, None)
            if known is not None:
                delivery.inherit(known)
        self.active[record.offset] = delivery
        self.in_flight += 1
        return delivery

    def _take_by_key(self) -> Delivery | None:
        while self.pending and self._keys.queued < KEY_WINDOW and self.aside < self._limits.stragglers:
            delivery = self._activate()
            key = delivery.record.key
            if key is None or self._keys.join(key, delivery):
                return delivery
            self.in_flight -= 1
            if self._keys.is_held(key):
                self._set_aside(delivery)
        return None

    def _set_aside(self, delivery: Delivery, at_any_price: bool = False) -> None:
        if delivery.aside or (self.aside >= self._limits.stragglers and not at_any_price):
            return
        delivery.aside = True
        self.aside += 1
        self.pinned += delivery.record.size
        self.ring.pin(delivery.record)
        if delivery.record.holders:
            delivery.record.holders -= 1

    def _release_pending(self) -> None:
        for record in self.pending:
            record.holders -= 1
        self.pending.clear()
