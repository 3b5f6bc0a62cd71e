"""What admission needs to know besides the object: who asks, which features are on, what is defaulted to what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from headrace.core.resources.features import Features


@dataclass(frozen=True, slots=True)
class Rules:
    """`user`: who asks. `controllers`: the users that may change `spec.subscribers` of a channel.

    `broker_class`: given to a Broker without a class. `broker_classes`: the classes that are served here; others are refused;
    `None` = any class may be there, since another implementation may serve it. `channel_template`: backs a Channel that names none.
    """

    user: str = ""
    controllers: frozenset[str] = frozenset()
    features: Features = field(default_factory=Features)
    broker_class: str = "Kafka"
    broker_classes: frozenset[str] | None = None
    channel_template: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({"apiVersion": "messaging.knative.dev/v1", "kind": "KafkaChannel"})
    )

    @property
    def by_controller(self) -> bool:
        """Whether the controller itself asks."""
        return self.user in self.controllers
