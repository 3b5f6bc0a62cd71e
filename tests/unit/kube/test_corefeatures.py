"""Knative's `config-features`, as operators see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from headrace.base.errors import Retriable
from headrace.core.resources.features import Features, switched
from headrace.kube.api import Api
from headrace.kube.corefeatures import CoreFeatures

OWN = Features(authentication_oidc=True)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ({}, OWN),
        ({"authentication-oidc": "disabled"}, Features()),
        ({"authentication-oidc": "Enabled"}, OWN),
        ({"cross-namespace-event-links": "enabled"}, Features(authentication_oidc=True, cross_namespace_event_links=True)),
        ({"delivery-timeout": "disabled"}, Features(authentication_oidc=True, delivery_timeout=False)),
        ({"delivery-retryafter": "disabled"}, Features(authentication_oidc=True, delivery_retryafter=False)),
        ({"eventtype-auto-create": "enabled"}, Features(authentication_oidc=True, eventtype_auto_create=True)),
        ({"default-authorization-mode": "Deny-All"}, Features(authentication_oidc=True, default_authorization_mode="deny-all")),
        ({"transport-encryption": "Permissive"}, Features(authentication_oidc=True, transport_encryption="permissive")),
        ({"transport-encryption": "strict"}, Features(authentication_oidc=True, transport_encryption="strict")),
        ({"kreference-group": "enabled", "_example": "text"}, OWN),
    ],
)
def test_keys_that_are_known_change_what_is_set_here_and_others_nothing(data: Mapping[str, str], wanted: Features) -> None:
    assert switched(OWN, data) == (wanted, [])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authentication-oidc", "yes"),
        ("delivery-timeout", "1"),
        ("default-authorization-mode", "some"),
        ("transport-encryption", "enabled"),
    ],
)
def test_a_value_that_is_none_changes_nothing_and_is_named(key: str, value: str) -> None:
    found, (wrong,) = switched(OWN, {key: value})
    assert found == OWN
    assert key in wrong
    assert repr(value) in wrong


class Server:
    """An API server with one ConfigMap, or none, or none that answers."""

    def __init__(self) -> None:
        self.data: dict[str, str] | None = None
        self.away = False
        self.asked: list[str] = []

    def find(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        if self.away:
            raise Retriable("no answer", subject="api")
        return None if self.data is None else {"data": self.data}


def test_changes_are_told_once_and_the_last_answer_holds_while_there_is_none() -> None:
    server, told = Server(), []
    features = CoreFeatures(cast(Api, server), "knative-eventing", OWN, lambda: told.append(features.current))
    features.look()
    assert (features.current, told) == (OWN, [])
    server.data = {"authentication-oidc": "disabled"}
    features.look()
    features.look()
    server.away = True
    features.look()
    assert (features.current, told) == (Features(), [Features()])
    server.away, server.data = False, None
    features.look()
    assert (features.current, told) == (OWN, [Features(), OWN])
    assert set(server.asked) == {"/api/v1/namespaces/knative-eventing/configmaps/config-features"}
