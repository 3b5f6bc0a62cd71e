"""Trigger, eventing.knative.dev/v1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

from headrace.core.resources.annotations import DEPENDENCY, INJECTION, dependency
from headrace.core.resources.base import Json, Model
from headrace.core.resources.duck import AuthStatus, DeliverySpec, DeliveryStatus, Destination, KReference, default_namespaces
from headrace.core.resources.filters import SubscriptionsAPIFilter, TriggerFilter
from headrace.core.resources.invalid import FieldError, at, disallowed, missing, one_of
from headrace.core.resources.kinds import Kind, existing, immutable, namespace_of, section
from headrace.core.resources.rules import Rules

BROKER_LABEL = "eventing.knative.dev/broker"


class TriggerSpec(Model):
    """What is wanted of a Trigger."""

    broker: str | None = None
    """Name of the Broker, in the same namespace. Immutable."""
    broker_ref: KReference | None = None
    """The Broker by reference, instead of `broker`. Immutable."""
    filter: TriggerFilter | None = None
    """Which events: by attributes. Overridden by a `filters` that is not empty."""
    filters: list[SubscriptionsAPIFilter] | None = None
    """Which events: those that pass all of these."""
    subscriber: Destination = Destination()
    """Where the events go."""
    delivery: DeliverySpec | None = None
    """Its delivery; when given, nothing of the Broker's applies."""


class TriggerStatus(DeliveryStatus):
    """The state of a Trigger."""

    subscriber_uri: str | None = None
    """Where its events go."""
    subscriber_ca_certs: str | None = None
    """Certificates (PEM) of the subscriber."""
    subscriber_audience: str | None = None
    """OIDC audience of the subscriber."""
    auth: AuthStatus | None = None
    """The identity that its events are sent with."""


class Trigger(Kind):
    """Sends the events of a Broker that pass its filters to a subscriber; what it answers goes back to the Broker."""

    GROUP: ClassVar[str] = "eventing.knative.dev"
    KIND: ClassVar[str] = "Trigger"

    spec: TriggerSpec
    """What is wanted."""
    status: TriggerStatus | None = None
    """What is."""

    @property
    def broker(self) -> tuple[str, str]:
        """Namespace and name of its Broker."""
        ref = self.spec.broker_ref
        here = self.metadata.namespace or ""
        return (here, self.spec.broker or "") if ref is None else (ref.namespace or here, ref.name)

    @classmethod
    def default(cls, raw: Json, old: Json | None, rules: Rules) -> None:
        """An empty filter, the namespaces of references, the label that names the Broker."""
        spec = existing(raw, "spec")
        if spec is None:
            return
        spec.setdefault("filter", {})
        for ref in (spec.get("subscriber"), existing(spec, "delivery", "deadLetterSink")):
            default_namespaces(ref, namespace_of(raw))
        by_ref = existing(spec, "brokerRef")
        if by_ref is not None and not by_ref.get("namespace"):
            by_ref["namespace"] = namespace_of(raw)
        name = spec.get("broker") or (by_ref or {}).get("name")
        if isinstance(name, str) and 0 < len(name) <= 63:
            section(raw, "metadata", "labels")[BROKER_LABEL] = name

    def check(self, rules: Rules) -> Iterator[FieldError]:
        """One Broker, sound filters, a subscriber, a sound delivery, the two annotations of Knative."""
        yield from self._check_broker(rules)
        if self.spec.filter is not None:
            yield from self.spec.filter.check(("spec", "filter"))
        for index, item in enumerate(self.spec.filters or ()):
            yield from item.check(("spec", "filters", index))
        yield from self.spec.subscriber.check(("spec", "subscriber"))
        if self.spec.delivery is not None:
            yield from self.spec.delivery.check(("spec", "delivery"), rules.features)
        if DEPENDENCY in self.annotations:
            yield from self._check_dependency(self.annotations[DEPENDENCY])
        if INJECTION in self.annotations:
            yield from self._check_injection(self.annotations[INJECTION])

    def check_update(self, old: Self, rules: Rules) -> Iterator[FieldError]:
        """It stays with its Broker."""
        before, after = (spec.model_dump(include={"broker", "broker_ref"}, exclude_none=True) for spec in (old.spec, self.spec))
        yield from immutable("spec", before, after)

    def _check_broker(self, rules: Rules) -> Iterator[FieldError]:
        ref = self.spec.broker_ref
        if not self.spec.broker and ref is None:
            yield missing("spec.broker")
        elif self.spec.broker and ref is not None:
            yield one_of(2, "spec.broker", "spec.brokerRef")
        if ref is not None:
            yield from ref.check(("spec", "brokerRef"))
            if ref.kind and ref.kind != "Broker":
                yield FieldError("expected a Broker", ("spec.brokerRef.kind",))
            if ref.namespace not in (None, "", self.metadata.namespace) and not rules.features.cross_namespace_event_links:
                yield disallowed("spec.brokerRef.namespace", details="the feature cross-namespace-event-links is switched off")

    def _check_dependency(self, text: str) -> Iterator[FieldError]:
        path = at("metadata", "annotations", DEPENDENCY)
        try:
            ref = dependency(text)
        except ValueError as error:
            yield FieldError(f'The provided annotation was not a corev1.ObjectReference: "{text}"', (path,), str(error))
            return
        here = self.metadata.namespace or ""
        if ref.get("namespace", here) not in ("", here):
            yield FieldError(f'Namespace must be empty or equal to the trigger namespace "{here}"', (f"{path}.namespace",))
        for name in ("kind", "name", "apiVersion"):
            if not ref.get(name):
                yield missing(f"{path}.{name}")

    def _check_injection(self, text: str) -> Iterator[FieldError]:
        path = at("metadata", "annotations", INJECTION)
        if text not in ("enabled", "disabled"):
            message = f'The provided injection annotation value can only be "enabled" or "disabled", not "{text}"'
            yield FieldError(message, (path,))
        elif self.spec.broker != "default":
            message = "The provided injection annotation is only used for default broker, but non-default broker specified here"
            yield FieldError(f'{message}: "{self.spec.broker}"', (path,))
