"""Broker, eventing.knative.dev/v1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

from headrace.core.resources.annotations import BROKER_CLASS, EXTERNAL_TOPIC
from headrace.core.resources.base import Json, Model
from headrace.core.resources.duck import AddressStatus, DeliverySpec, KReference, default_namespaces
from headrace.core.resources.invalid import FieldError, at, changed, invalid_value, missing
from headrace.core.resources.kinds import Kind, existing, immutable, namespace_of, section
from headrace.core.resources.rules import Rules

_KAFKA = ("Kafka", "kafka", "KafkaNamespaced")


class BrokerSpec(Model):
    """What is wanted of a Broker."""

    config: KReference | None = None
    """The ConfigMap with the Kafka connection and the topic's settings. Immutable."""
    delivery: DeliverySpec | None = None
    """Delivery of all its Triggers that have none of their own."""


class BrokerStatus(AddressStatus):
    """The state of a Broker."""


class Broker(Kind):
    """A pool of events: it takes them in at its address, and its Triggers send them on."""

    GROUP: ClassVar[str] = "eventing.knative.dev"
    KIND: ClassVar[str] = "Broker"

    spec: BrokerSpec = BrokerSpec()
    """What is wanted."""
    status: BrokerStatus | None = None
    """What is."""

    @property
    def broker_class(self) -> str:
        """Which implementation serves it."""
        return self.annotations.get(BROKER_CLASS, "")

    @classmethod
    def default(cls, raw: Json, old: Json | None, rules: Rules) -> None:
        """The class (that of the old object, if any), and the namespaces of references."""
        before = (existing(old or {}, "metadata", "annotations") or {}).get(BROKER_CLASS)
        section(raw, "metadata", "annotations").setdefault(BROKER_CLASS, before or rules.broker_class)
        config = existing(raw, "spec", "config")
        if config is not None and not config.get("namespace"):
            config["namespace"] = namespace_of(raw)
        default_namespaces(existing(raw, "spec", "delivery", "deadLetterSink"), namespace_of(raw))

    def check(self, rules: Rules) -> Iterator[FieldError]:
        """A class that is served here; the configuration is a ConfigMap; the delivery is sound."""
        place = at("metadata", "annotations", BROKER_CLASS)
        if not self.broker_class:
            yield missing(BROKER_CLASS)
        elif rules.broker_classes is not None and self.broker_class not in rules.broker_classes:
            served = ", ".join(sorted(rules.broker_classes))
            yield invalid_value(self.broker_class, place, f"Brokers of this class are not served here, only {served}")
        if self.spec.config is not None:
            yield from self.spec.config.check(("spec", "config"))
            if self.broker_class in _KAFKA and self.spec.config.kind and self.spec.config.kind != "ConfigMap":
                yield invalid_value(self.spec.config.kind, "spec.config.kind", "Expected ConfigMap")
            elif self.broker_class == "KafkaNamespaced" and self.spec.config.namespace != self.metadata.namespace:
                text = "Expected ConfigMap in same namespace with broker resource"
                yield invalid_value(self.spec.config.namespace, "spec.config.namespace", text)
        if self.spec.delivery is not None:
            yield from self.spec.delivery.check(("spec", "delivery"), rules.features)

    def check_update(self, old: Self, rules: Rules) -> Iterator[FieldError]:
        """Class, configuration and topic stay: another topic would part the Triggers from what they have not delivered yet."""
        for name in (BROKER_CLASS, EXTERNAL_TOPIC):
            before, after = old.annotations.get(name), self.annotations.get(name)
            if before != after:
                yield changed("annotations", "annotations", {name: before}, {name: after})
        yield from immutable("spec", _fixed(old.spec), _fixed(self.spec))


def _fixed(spec: BrokerSpec) -> Json:
    return spec.model_dump(exclude_none=True, exclude={"delivery"})
