"""An egress of the contract, made ready for use: where events go and how, or why it can't be served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from urllib.parse import urlsplit

from headrace.base.errors import Terminal
from headrace.core.contract import DeliveryOrder, Egress, EgressConfig, KeyType, Resource
from headrace.core.delivery import RetryPolicy, timeout_ms
from headrace.core.filters import compile_egress
from headrace.http.client import check_url, joined
from headrace.http.tokens import Identity
from headrace.http.trust import ca_bundle

Host = tuple[str, str, int]
"""Scheme, host name and port: what shares connections, and a fate."""


class ReplyTo(Enum):
    """What happens to an event that a subscriber answers with."""

    NOBODY = 0
    TOPIC = 1
    URL = 2


@dataclass(frozen=True, slots=True)
class Target:
    """An HTTP endpoint: `ca_file` is the bundle for https (empty for http); `identity`: what token it asks for, None without one."""

    url: str
    host: Host
    ca_file: str
    identity: Identity | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """One egress, checked and prepared. `lines`: headers of each request to the subscriber; `other_lines`: of each reply and dead letter.

    `keep_undeliverable`: what would be dropped goes to a topic. `hop_limit`: how often an event may come back as a reply; 0: no limit.
    `max_rate` (events/s; 0: none) and `max_in_flight` (0: the worker's own bound) are for the whole subscription, not for a partition.
    `until`: partition -> the first offset that is not wanted any more. `egress` is what it was made from.
    """

    uid: str
    name: str
    egress: Egress
    order: DeliveryOrder
    subscriber: Target
    lines: list[str]
    other_lines: list[str]
    policy: RetryPolicy
    timeout_ms: int
    structured: bool
    reply_to: ReplyTo
    reply: Target | None
    dead_letter: Target | None
    paused: bool
    max_rate: float
    max_in_flight: int
    keep_undeliverable: bool
    hop_limit: int
    until: Mapping[int, int]


def subscription_of(
    resource: Resource, egress: Egress, trust_bundles: Sequence[str] = (), *, tokens: bool = False
) -> Subscription:
    """The egress ready for use. Raises `Terminal` (its text names the field) when it asks for what is wrong or not supported.

    `tokens`: whether tokens can be had for those that ask for an audience.
    """
    for field in _unsupported(resource, egress):
        raise Terminal("is not supported", subject=f"{_name(resource, egress)}: {field}")
    config = egress.egress_config
    compile_egress(egress)
    reply_to = ReplyTo.TOPIC if egress.reply_to_original_topic else ReplyTo.URL if egress.reply_url else ReplyTo.NOBODY
    other = ["Expect:"]
    namespace = egress.reference.namespace or resource.reference.namespace

    def target(field: str, url: str, ca_certs: str, audience: str) -> Target:
        made = _target(url, ca_certs, trust_bundles)
        if not audience:
            return made
        subject = f"{_name(resource, egress)}: {field}"
        if not tokens:
            hint = "Set identity.token_server: `headrace up` does"
            raise Terminal("no token can be had for it: this dispatcher knows no token server", subject=subject, hint=hint)
        if not namespace or not egress.oidc_service_account_name:
            raise Terminal("no token can be had for it without oidcServiceAccountName and a namespace", subject=subject)
        return replace(made, identity=Identity(namespace, egress.oidc_service_account_name, audience))

    if namespace:
        other.append(f"Kn-Namespace: {namespace}")
    return Subscription(
        uid=egress.uid,
        name=_name(resource, egress),
        egress=egress,
        order=_order(egress),
        subscriber=target("destinationAudience", egress.destination, egress.destination_ca_certs, egress.destination_audience),
        lines=joined([*other, "Prefer: reply"]),
        other_lines=other,
        policy=RetryPolicy.of(config),
        timeout_ms=timeout_ms(config),
        structured=_structured(config),
        reply_to=reply_to,
        reply=target("replyUrlAudience", egress.reply_url, egress.reply_url_ca_certs, egress.reply_url_audience)
        if egress.reply_url
        else None,
        dead_letter=target(
            "egressConfig.deadLetterAudience", config.dead_letter, config.dead_letter_ca_certs, config.dead_letter_audience
        )
        if config.dead_letter
        else None,
        paused=egress.headrace.get("paused") is True,
        max_rate=_number(egress, "maxRate"),
        max_in_flight=int(_number(egress, "maxInFlight")),
        keep_undeliverable=egress.headrace.get("onUndeliverable") == "park",
        hop_limit=int(_number(egress, "hopLimit")),
        until=_until(egress),
    )


def _unsupported(resource: Resource, egress: Egress) -> Iterator[str]:
    for field, value in (
        ("keyType", egress.key_type is not KeyType.STRING),
        ("featureFlags.enableRateLimiter", egress.feature_flags.get("enableRateLimiter")),
        ("cloudEventOverrides", resource.cloud_event_overrides.get("extensions")),
        ("headrace.onUndeliverable", egress.headrace.get("onUndeliverable", "drop") not in ("drop", "park")),
    ):
        if value:
            yield field


def _order(egress: Egress) -> DeliveryOrder:
    try:
        return egress.order
    except ValueError as error:
        raise Terminal(str(error), subject="headrace.order") from None


def _until(egress: Egress) -> dict[int, int]:
    value = egress.headrace.get("until", {})
    try:
        return {int(partition): int(offset) for partition, offset in value.items()}
    except (AttributeError, TypeError, ValueError):
        raise Terminal(f"expected offsets by partition, got {value!r}", subject="headrace.until") from None


def _number(egress: Egress, field: str) -> float:
    value = egress.headrace.get(field, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise Terminal(f"expected a number of at least 0, got {value!r}", subject=f"headrace.{field}")
    return float(value)


def _target(url: str, ca_certs: str, trust_bundles: Sequence[str]) -> Target:
    check_url(url)
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise Terminal(f"not a usable URL: {error}", subject=url) from None
    ca_file = ca_bundle([*trust_bundles, ca_certs]) if parts.scheme == "https" else ""
    return Target(url, (parts.scheme, (parts.hostname or "").lower(), port), ca_file)


def _structured(config: EgressConfig) -> bool:
    if config.format.lower() not in ("", "binary", "json"):
        raise Terminal(f"expected json or binary, got {config.format!r}", subject="egressConfig.format")
    return config.format.lower() == "json"


def _name(resource: Resource, egress: Egress) -> str:
    reference = egress.reference if egress.reference.name else resource.reference
    return f"{reference.namespace}/{reference.name}" if reference.name else egress.uid
