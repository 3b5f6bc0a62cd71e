"""What a home decides for all its objects: the Kafka, addresses, defaults, features. Read once at the edge, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from headrace.control.model import KafkaRef, ObjectKey
from headrace.core.resources.features import Features
from headrace.core.resources.kinds import Kind

_WEEK_MS = 7 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Secure:
    """Where ingresses are served with TLS. `base_url`: what the path of an ingress is appended to. `secret`: the certificate
    (`tls.crt`, `tls.key`) that all receivers show, and that of its authority (`ca.crt`).
    """

    base_url: str
    secret: ObjectKey


@dataclass(frozen=True, slots=True)
class Settings:
    """One home.

    `kafka`: the connection of objects whose configuration names none; `None` = each must name its own.
    `partitions`, `replication` (-1 = that of the Kafka), `retention_ms`: topics of Brokers without `spec.config`.
    `delivery`: the DeliverySpec in force where no object has one. `base_url`: what the path of an ingress is appended to.
    `cluster_domain`: in the host names of channels and Services. `channel_config`: ConfigMap with the connection of KafkaChannels,
    used if it exists. `system_namespace`: where defaults of the installation live. `reconciled`: the kinds (`group/Kind`) that are
    ours; beside Knative's core, Channel, Subscription and EventPolicy are not. `broker_classes`: values of the class annotation that
    are ours. `own_accounts`: make a ServiceAccount per Trigger and Subscription when authentication is on (Kubernetes).
    `host_addresses`: a channel's address is its host name, not a path. `secure`: None = this home has no addresses with TLS.
    `lease_s`: a process silent for longer is gone. `give_up_s`: how long after its deletion an object waits for an unreachable Kafka
    before it is forgotten without its topic or group.
    """

    kafka: KafkaRef | None
    instance: str = "headrace"
    partitions: int = 3
    replication: int = -1
    retention_ms: int = _WEEK_MS
    delivery: Mapping[str, Any] | None = field(
        default_factory=lambda: MappingProxyType({"retry": 10, "backoffPolicy": "exponential", "backoffDelay": "PT0.2S"})
    )
    base_url: str = "http://127.0.0.1:8080"
    cluster_domain: str = "cluster.local"
    channel_config: ObjectKey | None = None
    system_namespace: str = "knative-eventing"
    reconciled: frozenset[str] = frozenset(
        {
            "eventing.knative.dev/Broker",
            "eventing.knative.dev/Trigger",
            "eventing.knative.dev/EventPolicy",
            "messaging.knative.dev/KafkaChannel",
            "messaging.knative.dev/Channel",
            "messaging.knative.dev/Subscription",
        }
    )
    broker_classes: frozenset[str] = frozenset({"Kafka", "kafka"})
    features: Features = field(default_factory=Features)
    own_accounts: bool = False
    host_addresses: bool = False
    secure: Secure | None = None
    lease_s: float = 3.0
    give_up_s: float = 600.0

    def is_reconciled(self, kind: type[Kind]) -> bool:
        """Whether this home takes care of objects of that kind."""
        return f"{kind.GROUP}/{kind.KIND}" in self.reconciled
