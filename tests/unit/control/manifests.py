"""Manifests that the tests of reconcilers share, and the keys of their objects."""

from __future__ import annotations

from headrace.control.model import ObjectKey

BROKER = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: b}
"""
TRIGGER = """
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: t}
spec: {broker: b, subscriber: {uri: 'http://sink/'}}
"""
KAFKA_CHANNEL = """
apiVersion: messaging.knative.dev/v1
kind: KafkaChannel
metadata: {name: k}
spec: {numPartitions: 2}
"""
CHANNEL = """
apiVersion: messaging.knative.dev/v1
kind: Channel
metadata: {name: c}
"""
SUBSCRIPTION = """
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {name: s}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: KafkaChannel, name: k}
  subscriber: {uri: 'http://sink/'}
"""
OVER_CHANNEL = SUBSCRIPTION.replace("kind: KafkaChannel, name: k", "kind: Channel, name: c")


def eventing(kind: str, name: str, namespace: str = "default") -> ObjectKey:
    """The key of an object of eventing.knative.dev."""
    return ObjectKey("eventing.knative.dev", kind, namespace, name)


def messaging(kind: str, name: str, namespace: str = "default") -> ObjectKey:
    """The key of an object of messaging.knative.dev."""
    return ObjectKey("messaging.knative.dev", kind, namespace, name)


B, T = eventing("Broker", "b"), eventing("Trigger", "t")
K, C, S = messaging("KafkaChannel", "k"), messaging("Channel", "c"), messaging("Subscription", "s")
BACKING = messaging("KafkaChannel", "c")
