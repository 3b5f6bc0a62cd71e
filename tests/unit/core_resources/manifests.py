"""Manifests of one line for admission tests."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from headrace.core.resources.admission import admit
from headrace.core.resources.features import Features
from headrace.core.resources.invalid import Invalid
from headrace.core.resources.rules import Rules

Json = dict[str, Any]
CONTROLLER = Rules(user="controller", controllers=frozenset({"controller"}))
USER = Rules(user="jo", controllers=frozenset({"controller"}))
OIDC = Rules(features=Features(authentication_oidc=True))
PEM = "-----BEGIN CERTIFICATE-----\n" + base64.b64encode(b"\x30\x03abc").decode() + "\n-----END CERTIFICATE-----\n"
HEADS = {
    "Broker": "eventing.knative.dev/v1",
    "Trigger": "eventing.knative.dev/v1",
    "EventPolicy": "eventing.knative.dev/v1alpha1",
    "KafkaChannel": "messaging.knative.dev/v1",
    "Channel": "messaging.knative.dev/v1",
    "Subscription": "messaging.knative.dev/v1",
    "ConfigMap": "v1",
    "Secret": "v1",
}
TRIGGER = "spec: {broker: default, subscriber: {uri: 'http://sink/'}}"
SUBSCRIPTION = (
    "spec: {channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: c}, subscriber: {uri: 'http://sink/'}}"
)


def manifest(kind: str, body: str = "{}") -> Json:
    """An object of that kind; `body` may overwrite metadata."""
    raw = {"apiVersion": HEADS[kind], "kind": kind, "metadata": {"name": "x", "namespace": "default"}}
    given = yaml.safe_load(body)
    metadata = raw["metadata"] | given.pop("metadata", {})
    return {**raw, **given, "metadata": metadata}


def refusal(kind: str, body: str, rules: Rules = USER) -> str:
    with pytest.raises(Invalid) as caught:
        admit(manifest(kind, body), None, rules)
    return caught.value.message


def change(kind: str, before: str, after: str, rules: Rules = USER) -> Json:
    old = admit(manifest(kind, before), None, CONTROLLER)
    return admit(manifest(kind, after), old, rules)


def refused_change(kind: str, before: str, after: str, rules: Rules = USER) -> str:
    with pytest.raises(Invalid) as caught:
        change(kind, before, after, rules)
    return caught.value.message
