"""From a DeliverySpec to the contract's `egressConfig`.

The nearest spec counts as a whole: a Trigger's instead of its Broker's, a Subscription's instead of its channel's, and the home's
default only where there is none at all (CP-X4, CP-X5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.control.conditions import TRUE, Verdict, true
from headrace.control.resolve import Target, resolve
from headrace.control.settings import Settings
from headrace.control.world import World
from headrace.core.contract import BackoffPolicy, EgressConfig
from headrace.core.reasons import Reason
from headrace.core.resources.duck import DeliverySpec
from headrace.core.resources.duration import parse_duration

DEFAULT_BACKOFF_MS = 200
_POLICIES = {"linear": BackoffPolicy.LINEAR, "exponential": BackoffPolicy.EXPONENTIAL}


def nearest(world: World, *specs: DeliverySpec | None) -> DeliverySpec | None:
    """The first spec that is given, else the home's default."""
    return next((spec for spec in specs if spec is not None), world.default_delivery)


def dead_letter_target(world: World, spec: DeliverySpec | None, namespace: str) -> Target | Verdict | None:
    """Where dead letters of this spec go; None if it names no sink."""
    if spec is None or spec.dead_letter_sink is None:
        return None
    return resolve(world, spec.dead_letter_sink, namespace)


def sink_verdict(found: Target | Verdict | None) -> Verdict:
    """`DeadLetterSinkResolved`."""
    if found is None:
        return true(Reason.DEAD_LETTER_SINK_NOT_CONFIGURED, "no dead letter sink is configured")
    return found if isinstance(found, Verdict) else TRUE


def egress_config(settings: Settings, spec: DeliverySpec | None, dead_letter: Target | None) -> EgressConfig:
    """The contract's form. A retry without a delay waits 200 ms, exponentially, as the peer does."""
    spec = spec or DeliverySpec()
    extra: dict[str, Any] = {}
    if spec.retry_after_max is not None:
        extra["retryAfterMax"] = parse_duration(spec.retry_after_max)
    return EgressConfig(
        dead_letter=dead_letter.url if dead_letter else "",
        dead_letter_ca_certs=(dead_letter.ca_certs if dead_letter else None) or "",
        dead_letter_audience=audience_of(settings, dead_letter),
        format=spec.format or "",
        retry=spec.retry or 0,
        backoff_policy=_POLICIES[spec.backoff_policy or "exponential"],
        backoff_delay=DEFAULT_BACKOFF_MS if spec.backoff_delay is None else parse_duration(spec.backoff_delay),
        timeout=0 if spec.timeout is None else parse_duration(spec.timeout),
        headrace=extra,
    )


def audience_of(settings: Settings, target: Target | None) -> str:
    """The audience to ask a token for: none while authentication is switched off."""
    return (target.audience or "") if target is not None and settings.features.authentication_oidc else ""


def dead_letter_status(target: Target | None) -> Mapping[str, str]:
    """The `deadLetterSink*` fields of a status."""
    return target_status("deadLetterSink", target)


def target_status(prefix: str, target: Target | None) -> Mapping[str, str]:
    """`<prefix>Uri`, `<prefix>CACerts`, `<prefix>Audience`, as far as known."""
    if target is None:
        return {}
    fields = {f"{prefix}Uri": target.url, f"{prefix}CACerts": target.ca_certs, f"{prefix}Audience": target.audience}
    return {name: value for name, value in fields.items() if value}
