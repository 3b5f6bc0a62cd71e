"""Switches of Knative's ConfigMap `config-features` that change what is accepted or how it acts."""

from __future__ import annotations

from dataclasses import dataclass

AUTHORIZATION_MODES = ("allow-same-namespace", "allow-all", "deny-all")


@dataclass(frozen=True, slots=True)
class Features:
    """The switches in force. Both delivery features are on by default here, since the data plane has both.

    `authentication_oidc`: ingresses get an audience and check tokens. `default_authorization_mode`: who may send where no
    EventPolicy applies: `allow-same-namespace`, `allow-all` or `deny-all`. `cross_namespace_event_links`: the `brokerRef` of a
    Trigger may name another namespace. `delivery_timeout`, `delivery_retryafter`: the fields `timeout` and `retryAfterMax` may be
    set. `eventtype_auto_create` goes to the data plane as it is.
    """

    authentication_oidc: bool = False
    default_authorization_mode: str = "allow-same-namespace"
    cross_namespace_event_links: bool = False
    delivery_timeout: bool = True
    delivery_retryafter: bool = True
    eventtype_auto_create: bool = False
