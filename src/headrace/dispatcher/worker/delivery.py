"""One event on its way through one lane."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from headrace.core.delivery import FailedDelivery
from headrace.core.events.model import Event
from headrace.core.progress import Straggler
from headrace.dispatcher.worker.record import Record

if TYPE_CHECKING:
    from headrace.dispatcher.worker.lane import Lane
    from headrace.dispatcher.worker.subscription import Host
    from headrace.http.client import Exchange


class Stage(Enum):
    """Where a delivery is: at the subscriber, with its reply (to the topic, or to the reply URL), at the dead letter sink, on its way to
    the topic of undeliverable events."""

    SUBSCRIBER = 0
    REPLY_TOPIC = 1
    REPLY_URL = 2
    DEAD_LETTER = 3
    KEEP = 4


class Ending(Enum):
    """How a delivery ended. All of them finish the event in its lane."""

    DELIVERED = 0
    DEAD_LETTERED = 1
    DROPPED = 2
    KEPT = 3


class Delivery:
    """`attempts`: failed ones at the subscriber; `tries`: failed ones of the present stage, where that is another.

    `since`: see `core.progress.Straggler`; 0 without a failure. `inherited`: its last attempt was made by another worker, and its wait may
    not be over. `waiting`: for its next attempt. `aside`: it has let go of the ring. `failed`: the last failure, for the dead letter.
    `reply`: what the subscriber answered. `exchange`: the request under way, to `host`.
    """

    __slots__ = (
        "aside",
        "attempts",
        "exchange",
        "failed",
        "host",
        "inherited",
        "lane",
        "record",
        "reply",
        "since",
        "stage",
        "tries",
        "waiting",
    )

    def __init__(self, lane: Lane, record: Record) -> None:
        self.lane = lane
        self.record = record
        self.stage = Stage.SUBSCRIBER
        self.attempts = 0
        self.tries = 0
        self.since = 0
        self.inherited = False
        self.aside = False
        self.waiting = False
        self.failed: FailedDelivery | None = None
        self.reply: Event | None = None
        self.exchange: Exchange | None = None
        self.host: Host = ("", "", 0)

    def inherit(self, straggler: Straggler) -> None:
        """Go on where another worker, or an earlier life of the lane, has left off."""
        self.attempts, self.since, self.inherited = straggler.attempts, straggler.since, True
