"""Switches of Knative's ConfigMap `config-features` that change what is accepted or how it acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

AUTHORIZATION_MODES = ("allow-same-namespace", "allow-all", "deny-all")
DISABLED, PERMISSIVE, STRICT = TRANSPORT_ENCRYPTION = ("disabled", "permissive", "strict")


@dataclass(frozen=True, slots=True)
class Features:
    """The switches in force. Both delivery features are on by default here, since the data plane has both.

    `authentication_oidc`: ingresses get an audience and check tokens. `default_authorization_mode`: who may send where no
    EventPolicy applies: `allow-same-namespace`, `allow-all` or `deny-all`. `cross_namespace_event_links`: the `brokerRef` of a
    Trigger may name another namespace. `delivery_timeout`, `delivery_retryafter`: the fields `timeout` and `retryAfterMax` may be
    set. `eventtype_auto_create` goes to the data plane as it is. `transport_encryption`: whether ingresses have addresses with TLS:
    `disabled`, `permissive` (both) or `strict` (no others).
    """

    authentication_oidc: bool = False
    default_authorization_mode: str = "allow-same-namespace"
    cross_namespace_event_links: bool = False
    delivery_timeout: bool = True
    delivery_retryafter: bool = True
    eventtype_auto_create: bool = False
    transport_encryption: str = DISABLED


_SWITCHES = {
    "authentication-oidc": "authentication_oidc",
    "cross-namespace-event-links": "cross_namespace_event_links",
    "delivery-timeout": "delivery_timeout",
    "delivery-retryafter": "delivery_retryafter",
    "eventtype-auto-create": "eventtype_auto_create",
}
_POSITIONS = {"enabled": True, "disabled": False}
_CHOICES = {
    "default-authorization-mode": ("default_authorization_mode", AUTHORIZATION_MODES),
    "transport-encryption": ("transport_encryption", TRANSPORT_ENCRYPTION),
}


def switched(own: Features, data: Mapping[str, str]) -> tuple[Features, list[str]]:
    """`own`, changed by the keys of `config-features` that are known here, and what is wrong with their values (these change nothing).

    Values are taken in any case of letters, as Knative takes them; keys of other components are none of our business.
    """
    changes: dict[str, Any] = {}
    wrong = []
    for key, name in _SWITCHES.items():
        text = data.get(key, "").strip().lower()
        if text in _POSITIONS:
            changes[name] = _POSITIONS[text]
        elif text:
            wrong.append(f"{key} must be enabled or disabled, not {data[key]!r}")
    for key, (name, choices) in _CHOICES.items():
        text = data.get(key, "").strip().lower()
        if text in choices:
            changes[name] = text
        elif text:
            wrong.append(f"{key} must be one of {', '.join(choices)}, not {data[key]!r}")
    return replace(own, **changes), wrong
