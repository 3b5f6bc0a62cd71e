"""Labels, annotations and names of what the operator makes in the cluster."""

from __future__ import annotations

import hashlib

MANAGED = {"app.kubernetes.io/managed-by": "headrace-controller", "app.kubernetes.io/part-of": "headrace"}
COMPONENT = "app.kubernetes.io/component"
NAME = "app.kubernetes.io/name"
CHANNEL_NAMESPACE = "headrace.dev/channel-namespace"
CHANNEL_NAME = "headrace.dev/channel"
DISPATCHER = "headrace.dev/dispatcher"
VOLUME_GENERATION = "volumeGeneration"
RECEIVER = "headrace-receiver"
BROKER_DISPATCHER = "kafka-broker-dispatcher"
BROKER_INGRESS = "kafka-broker-ingress"
CHANNEL_INGRESS = "kafka-channel-ingress"
INGRESS_CERTIFICATE = "kafka-broker-ingress-server-tls"
"""The Secret with the certificate of all receivers."""
_LONGEST = 63


def dispatcher_name(kind: str, namespace: str, name: str) -> str:
    """The name of the dispatcher of one Broker or KafkaChannel, and of the ConfigMap with its contract."""
    prefix = "kafka-channel-dispatcher" if kind == "KafkaChannel" else BROKER_DISPATCHER
    return shortened(f"{prefix}-{namespace}-{name}", f"{kind}/{namespace}/{name}")


def shortened(name: str, identity: str) -> str:
    """`name` with eight characters of a digest of `identity`, at most 63 characters long: names that differ stay different."""
    digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
    return f"{name.replace('.', '-')[: _LONGEST - 9].rstrip('-')}-{digest}"


def label_value(text: str) -> str:
    """A label's value has 63 characters at most."""
    return text if len(text) <= _LONGEST else shortened(text, text)
