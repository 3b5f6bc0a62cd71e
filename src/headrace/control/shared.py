"""What one pass works out for all objects together: who owns which name, which addresses collide, which policies there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.control.naming import Owners
from headrace.core.resources.broker import Broker
from headrace.core.resources.eventpolicy import EventPolicy
from headrace.core.resources.subscription import Subscription


@dataclass(frozen=True, slots=True)
class Shared:
    """`conflicts`: uid -> why its address is another's. `subscriptions` by uid; `brokers` by namespace and name."""

    topics: Owners = field(default_factory=Owners)
    groups: Owners = field(default_factory=Owners)
    conflicts: Mapping[str, str] = field(default_factory=dict)
    policies: Sequence[EventPolicy] = ()
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    brokers: Mapping[tuple[str, str], Broker] = field(default_factory=dict)
