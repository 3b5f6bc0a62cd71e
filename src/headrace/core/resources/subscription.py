"""Subscription, messaging.knative.dev/v1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

from headrace.core.resources.base import Json, Model, Status
from headrace.core.resources.duck import AuthStatus, DeliverySpec, Destination, KReference, default_namespaces
from headrace.core.resources.invalid import FieldError, disallowed, missing
from headrace.core.resources.kinds import Kind, existing, immutable, namespace_of
from headrace.core.resources.rules import Rules


class SubscriptionSpec(Model):
    """What is wanted of a Subscription."""

    channel: KReference = KReference()
    """The channel, in the same namespace. Immutable."""
    subscriber: Destination | None = None
    """Where the events go."""
    reply: Destination | None = None
    """Where the events go that the subscriber answers with; dropped if not given."""
    delivery: DeliverySpec | None = None
    """Its delivery; when given, nothing of the channel's applies."""


class PhysicalSubscription(Model):
    """The addresses that a Subscription resolved to."""

    subscriber_uri: str | None = None
    """Where its events go."""
    subscriber_ca_certs: str | None = None
    """Certificates (PEM) of the subscriber."""
    subscriber_audience: str | None = None
    """OIDC audience of the subscriber."""
    reply_uri: str | None = None
    """Where the answers go."""
    reply_ca_certs: str | None = None
    """Certificates (PEM) of the reply's target."""
    reply_audience: str | None = None
    """OIDC audience of the reply's target."""
    dead_letter_sink_uri: str | None = None
    """Where dead letters go."""
    dead_letter_sink_ca_certs: str | None = None
    """Certificates (PEM) of the dead letter sink."""
    dead_letter_sink_audience: str | None = None
    """OIDC audience of the dead letter sink."""


class SubscriptionStatus(Status):
    """The state of a Subscription."""

    physical_subscription: PhysicalSubscription | None = None
    """What its references resolved to."""
    auth: AuthStatus | None = None
    """The identity that its events are sent with."""


class Subscription(Kind):
    """Sends the events of a channel to a subscriber, and what it answers to the reply's target."""

    GROUP: ClassVar[str] = "messaging.knative.dev"
    KIND: ClassVar[str] = "Subscription"

    spec: SubscriptionSpec
    """What is wanted."""
    status: SubscriptionStatus | None = None
    """What is."""

    @classmethod
    def default(cls, raw: Json, old: Json | None, rules: Rules) -> None:
        """The namespaces of references."""
        for name in ("subscriber", "reply"):
            default_namespaces(existing(raw, "spec", name), namespace_of(raw))
        default_namespaces(existing(raw, "spec", "delivery", "deadLetterSink"), namespace_of(raw))

    def check(self, rules: Rules) -> Iterator[FieldError]:
        """A channel in the same namespace, a subscriber, sound destinations and delivery."""
        channel = self.spec.channel
        if channel == KReference():
            yield missing("spec.channel", details="the Subscription must reference a channel")
        else:
            yield from channel.check(("spec", "channel"))
            if channel.namespace:
                yield disallowed("spec.channel.namespace", details="the channel is in the Subscription's own namespace")
            if channel.address:
                yield disallowed("spec.channel.address")
        if self.spec.subscriber is None or self.spec.subscriber == Destination():
            yield missing("spec.subscriber", details="the Subscription must reference a subscriber")
        else:
            yield from self.spec.subscriber.check(("spec", "subscriber"))
        if self.spec.reply is not None:
            yield from self.spec.reply.check(("spec", "reply"))
        if self.spec.delivery is not None:
            yield from self.spec.delivery.check(("spec", "delivery"), rules.features)

    def check_update(self, old: Self, rules: Rules) -> Iterator[FieldError]:
        """It stays with its channel."""
        yield from immutable("spec.channel", old.spec.channel.to_json(), self.spec.channel.to_json())
