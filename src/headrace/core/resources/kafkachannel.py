"""KafkaChannel, messaging.knative.dev/v1beta1 (stored) and v1. Both versions have the same fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

from pydantic import Field

from headrace.core.resources.annotations import SUBSCRIBABLE
from headrace.core.resources.base import Json, Model
from headrace.core.resources.duck import ChannelableStatus, DeliverySpec, Subscriber, default_namespaces
from headrace.core.resources.duration import parse_duration
from headrace.core.resources.invalid import FieldError, at, differences, invalid_value
from headrace.core.resources.kinds import Kind, existing, immutable, namespace_of, section
from headrace.core.resources.rules import Rules

_INT16, _INT32 = 2**15 - 1, 2**31 - 1


class KafkaChannelSpec(Model):
    """What is wanted of a KafkaChannel."""

    num_partitions: int = Field(default=1, le=_INT32)
    """Partitions of its topic. Immutable."""
    replication_factor: int = Field(default=1, le=_INT16)
    """Replicas of each partition. Immutable."""
    retention_duration: str = "PT168H"
    """How long events are kept (ISO 8601 duration). Immutable."""
    delivery: DeliverySpec | None = None
    """Delivery of all its Subscriptions that have none of their own."""
    subscribers: list[Subscriber] | None = None
    """The controller's own: one entry per Subscription."""

    def check(self, path: tuple[str | int, ...], rules: Rules) -> Iterator[FieldError]:
        """Numbers above 0, a duration of at least 0, sound subscribers and delivery."""
        for name, number in (("numPartitions", self.num_partitions), ("replicationFactor", self.replication_factor)):
            if number <= 0:
                yield invalid_value(number, at(*path, name), "expected more than 0")
        try:
            if parse_duration(self.retention_duration) < 0:
                yield invalid_value(self.retention_duration, at(*path, "retentionDuration"), "expected 0 or more")
        except ValueError as error:
            yield invalid_value(self.retention_duration, at(*path, "retentionDuration"), str(error))
        for index, subscriber in enumerate(self.subscribers or ()):
            yield from subscriber.check((*path, "subscribers", index), rules.features)
        if self.delivery is not None:
            yield from self.delivery.check((*path, "delivery"), rules.features)


class KafkaChannelStatus(ChannelableStatus):
    """The state of a KafkaChannel."""


class KafkaChannel(Kind):
    """A topic that takes events in at its address and sends each to all its Subscriptions, in order per partition."""

    GROUP: ClassVar[str] = "messaging.knative.dev"
    KIND: ClassVar[str] = "KafkaChannel"

    spec: KafkaChannelSpec = KafkaChannelSpec()
    """What is wanted."""
    status: KafkaChannelStatus | None = None
    """What is."""

    @classmethod
    def default(cls, raw: Json, old: Json | None, rules: Rules) -> None:
        """One partition, one replica, a week; the annotation that says how Subscriptions find their way in.

        A manifest that says nothing of subscribers leaves them as they are.
        """
        section(raw, "metadata", "annotations").setdefault(SUBSCRIBABLE, "v1")
        spec = section(raw, "spec")
        spec.setdefault("numPartitions", 1)
        spec.setdefault("replicationFactor", 1)
        entered = (existing(old or {}, "spec") or {}).get("subscribers")
        if entered:
            spec.setdefault("subscribers", entered)
        spec["retentionDuration"] = spec.get("retentionDuration") or "PT168H"
        default_namespaces(existing(spec, "delivery", "deadLetterSink"), namespace_of(raw))

    def check(self, rules: Rules) -> Iterator[FieldError]:
        """See `KafkaChannelSpec`."""
        yield from self.spec.check(("spec",), rules)

    def check_create(self, rules: Rules) -> Iterator[FieldError]:
        """A user can't bring subscribers along."""
        yield from check_subscribers([], _subscribers(self.spec), rules)

    def check_update(self, old: Self, rules: Rules) -> Iterator[FieldError]:
        """Only delivery changes, and subscribers, by the controller."""
        yield from immutable("spec", _fixed(old.spec), _fixed(self.spec))
        yield from check_subscribers(_subscribers(old.spec), _subscribers(self.spec), rules)


def check_subscribers(old: list[Json], new: list[Json], rules: Rules) -> Iterator[FieldError]:
    """`spec.subscribers` of a channel is changed by the controller only (CP-X6)."""
    if old == new or rules.by_controller:
        return
    who = ", ".join(sorted(rules.controllers)) or "controller's"
    message = f"Channel.Spec.Subscribers changed by user {rules.user or '(unknown)'} which was not the {who} service account"
    details = differences(old, new, "spec.subscribers")
    yield FieldError(message, ("spec.subscribers",), "\n".join([*details, "make a Subscription instead"]))


def _fixed(spec: KafkaChannelSpec) -> Json:
    return spec.model_dump(exclude_none=True, exclude={"delivery", "subscribers"})


def _subscribers(spec: KafkaChannelSpec) -> list[Json]:
    return [subscriber.to_json() for subscriber in spec.subscribers or ()]
