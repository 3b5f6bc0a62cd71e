"""From a Destination to a URL (reference: `knative.dev/pkg/resolver`, CP-D1 to CP-D5)."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from headrace.control.conditions import Verdict, false, unknown
from headrace.control.model import ObjectKey
from headrace.control.world import Json, World
from headrace.core.reasons import Reason
from headrace.core.resources.duck import Destination, KReference


@dataclass(frozen=True, slots=True)
class Target:
    """A resolved destination."""

    url: str
    ca_certs: str | None = None
    audience: str | None = None


def resolve(world: World, destination: Destination, namespace: str) -> Target | Verdict:
    """The target, or a verdict that says why there is none (Unknown only while the object was not looked up yet).

    `namespace`: that of the referring object. `CACerts` and `audience` of the destination win over those of the address.
    """
    if destination.ref is None:
        return _absolute(destination, Target(destination.uri or ""))
    base = _address(world, destination.ref, namespace, bool(destination.ca_certs))
    if isinstance(base, Verdict):
        return base
    if destination.uri:
        base = Target(urljoin(base.url, destination.uri), base.ca_certs, base.audience)
    return _absolute(destination, base)


def key_of_reference(ref: KReference, namespace: str) -> ObjectKey:
    """The object that a reference means."""
    return ObjectKey(ref.api_group, ref.kind, ref.namespace or namespace, ref.name)


def missing(world: World, key: ObjectKey) -> Verdict:
    """What to say of an object that is not there."""
    if world.is_looked_up(key):
        return false(Reason.REFERENCE_NOT_FOUND, f"{key} does not exist")
    return unknown(Reason.REFERENCE_NOT_LOOKED_UP, f"{key} was not looked up yet")


def _address(world: World, ref: KReference, namespace: str, tls: bool) -> Target | Verdict:
    key = key_of_reference(ref, namespace)
    if key.group == "" and key.kind == "Service":
        return _service(world, key, tls)
    raw = world.look(key)
    if raw is None:
        return missing(world, key)
    status = raw.get("status") or {}
    address = _pick(status, ref.address)
    if address is None and ref.address:
        return false(Reason.ADDRESS_NOT_FOUND, f'{key}: address with name "{ref.address}" not found')
    url = (address or {}).get("url")
    if not isinstance(url, str) or not url:
        return false(Reason.REFERENCE_NOT_ADDRESSABLE, f"{key} has no address (yet)")
    if not urlsplit(url).hostname:
        return false(Reason.REFERENCE_NOT_ADDRESSABLE, f"{key}: hostname missing in address {url}")
    return Target(url, (address or {}).get("CACerts"), (address or {}).get("audience"))


def _service(world: World, key: ObjectKey, tls: bool) -> Target | Verdict:
    if world.observed.looked_up is not None and world.look(key) is None:
        return missing(world, key)
    scheme = "https" if tls else "http"
    return Target(f"{scheme}://{key.name}.{key.namespace}.svc.{world.settings.cluster_domain}")


def _pick(status: Json, name: str | None) -> Json | None:
    addresses = [item for item in status.get("addresses") or () if isinstance(item, dict)]
    if name:
        return next((item for item in addresses if item.get("name") == name), None)
    if addresses:
        return addresses[0]
    address = status.get("address")
    return address if isinstance(address, dict) else None


def _absolute(destination: Destination, target: Target) -> Target | Verdict:
    parts = urlsplit(target.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return false(Reason.URI_NOT_ABSOLUTE, f"{target.url} is not an absolute http or https URL")
    return Target(target.url, destination.ca_certs or target.ca_certs, destination.audience or target.audience)
