"""The addresses of an ingress, by the feature `transport-encryption` (knative/eventing, `reconcileAddress` of its kinds):

    disabled    address: http     addresses: http
    permissive  address: http     addresses: https, http      what refers to it takes the first
    strict      address: https    addresses: https

An https address needs the certificate in its Secret, and receivers that all serve with TLS. Receivers of the strict mode go on with a
certificate whose Secret is gone, so its addresses stay.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.control.conditions import TRUE, Verdict, false, unknown
from headrace.control.model import ObjectKey
from headrace.control.settings import Secure
from headrace.control.world import Json, World
from headrace.core.reasons import Reason
from headrace.core.resources.features import DISABLED, PERMISSIVE

_FIELDS = ("address", "addresses")
_CERTIFICATE, _KEY, _AUTHORITY = "tls.crt", "tls.key", "ca.crt"


@dataclass(frozen=True, slots=True)
class Addresses:
    """`status`: its fields `address` and `addresses`, empty while there are none. `verdict`: True, or why they are not."""

    status: Json
    verdict: Verdict


def addresses_of(world: World, key: ObjectKey, url: str, path: str, audience: str | None) -> Addresses:
    """The addresses of the ingress of the object at `key`: `url` is the plain one, `path` is where it is served with TLS."""
    plain = _address("http", url, audience)
    mode, secure = world.settings.features.transport_encryption, world.settings.secure
    if mode == DISABLED or secure is None:
        return Addresses({"address": plain, "addresses": [plain]}, TRUE)
    before = {name: value for name, value in world.observed_status(key).items() if name in _FIELDS}
    authority = _authority(world, secure)
    problem = authority if isinstance(authority, Verdict) else _not_served(world, before)
    if problem is not None:
        # The plain address will do.
        verdict = replace(problem, status="True") if mode == PERMISSIVE else problem
        if problem.passing and before:
            return Addresses(before, verdict)
        if mode == PERMISSIVE:
            return Addresses({"address": plain, "addresses": [plain]}, verdict)
        kept = _encrypted(before)
        return Addresses({"address": kept[0], "addresses": kept} if kept else {}, problem)
    encrypted = _address("https", f"{secure.base_url}{path}", audience)
    if isinstance(authority, str) and authority:
        encrypted["CACerts"] = authority
    if mode == PERMISSIVE:
        return Addresses({"address": plain, "addresses": [encrypted, plain]}, TRUE)
    return Addresses({"address": encrypted, "addresses": [encrypted]}, TRUE)


def has_certificate(secret: Mapping[str, Any] | None) -> bool:
    """Whether a Secret holds a certificate to serve with."""
    data = (secret or {}).get("data") or {}
    return bool(data.get(_CERTIFICATE) and data.get(_KEY))


def _address(name: str, url: str, audience: str | None) -> Json:
    return {"name": name, "url": url, **({"audience": audience} if audience else {})}


def _encrypted(status: Json) -> list[Json]:
    return [one for one in status.get("addresses") or () if one.get("name") == "https"]


def _authority(world: World, secure: Secure) -> str | Verdict:
    """The certificates that clients are to trust, empty for those of their system; or why nothing can be served."""
    key = secure.secret
    raw = world.look(key)
    if raw is None:
        if not world.is_looked_up(key):
            return unknown(Reason.SECRET_NOT_LOOKED_UP, f"{key} was not looked up yet")
        return false(Reason.SECRET_NOT_FOUND, f"{key} with the receivers' certificate does not exist")
    if not has_certificate(raw):
        return false(Reason.SECRET_INVALID, f"{key}: keys {_CERTIFICATE} and {_KEY} with the receivers' certificate are needed")
    try:
        return base64.b64decode(raw["data"].get(_AUTHORITY, ""), validate=True).decode()
    except ValueError:
        return false(Reason.SECRET_INVALID, f"{key}: key {_AUTHORITY} must be PEM text in base64")


def _not_served(world: World, before: Json) -> Verdict | None:
    """Why TLS is not served yet. An https address that was given stays."""
    if _encrypted(before):
        return None
    without = sorted(report.instance for report in world.data_plane.receivers if not report.tls)
    return (
        unknown(Reason.RECEIVER_NOT_UP_TO_DATE, f"not served with TLS yet by receiver {', '.join(without)}")
        if without
        else None
    )
