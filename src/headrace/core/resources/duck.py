"""Shapes that several kinds share (Knative's duck types): references, destinations, delivery, addresses, subscribers."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field

from headrace.core.resources.base import Json, Model, Status
from headrace.core.resources.duration import parse_duration
from headrace.core.resources.features import Features
from headrace.core.resources.invalid import FieldError, at, disallowed, invalid_value, missing

Path = tuple[str | int, ...]
_INT32 = 2**31 - 1
_PEM_START, _PEM_END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


class KReference(Model):
    """An object by kind and name."""

    kind: str = ""
    """Kind of the object."""
    namespace: str | None = None
    """Its namespace; that of the referring object if not given."""
    name: str = ""
    """Its name."""
    api_version: str | None = None
    """Its API version. Either this or `group`."""
    group: str | None = None
    """Its API group, whatever the version."""
    address: str | None = None
    """Which of its addresses, by name."""

    def check(self, path: Path) -> Iterator[FieldError]:
        """Name, kind and one of apiVersion and group are required."""
        if not self.name:
            yield missing(at(*path, "name"))
        if not self.kind:
            yield missing(at(*path, "kind"))
        if not self.api_version and not self.group:
            yield missing(at(*path, "apiVersion"))

    @property
    def api_group(self) -> str:
        """The group of the object; empty for v1."""
        if self.group:
            return self.group
        group, slash, _ = (self.api_version or "").partition("/")
        return group if slash else ""


class Destination(Model):
    """Where to send events: an Addressable by reference, a URI, or a URI relative to the referenced object's address."""

    ref: KReference | None = None
    """The object whose address is meant."""
    uri: str | None = None
    """An absolute URL; or, with `ref`, one relative to its address."""
    ca_certs: str | None = None
    """Certificates (PEM) of the authorities that the target is checked against, besides the usual ones."""
    audience: str | None = None
    """The OIDC audience to ask a token for."""

    def check(self, path: Path) -> Iterator[FieldError]:
        """The rules of `knative.dev/pkg/apis/duck/v1.ValidateDestination`."""
        uri = None if self.uri is None else _split(self.uri)
        if self.ref is None and self.uri is None:
            yield FieldError("expected at least one, got none", (at(*path, "ref"), at(*path, "uri")))
        elif self.uri is not None and uri is None:
            yield invalid_value(self.uri, at(*path, "uri"), "expected a URL")
        elif self.ref is not None and uri is not None and uri[0]:
            places = tuple(at(*path) + f".{name}" for name in ("[apiVersion, kind, name]", "ref", "uri"))
            yield FieldError("Absolute URI is not allowed when Ref or [apiVersion, kind, name] is present", places)
        elif self.ref is None and uri is not None and not (uri[0] and uri[1]):
            text = "Relative URI is not allowed when Ref and [apiVersion, kind, name] is absent"
            yield invalid_value(text, at(*path, "uri"), f"got {self.uri}")
        elif self.ref is None and uri is not None and uri[0] not in ("http", "https"):
            yield invalid_value(self.uri, at(*path, "uri"), "expected an http or https URL")
        if self.ref is not None:
            yield from self.ref.check((*path, "ref"))
        yield from check_ca_certs(self.ca_certs, (*path, "CACerts"))


class DeliverySpec(Model):
    """How hard to try to deliver an event, and where it goes when that was in vain."""

    dead_letter_sink: Destination | None = None
    """Gets the events that could not be delivered."""
    retry: int | None = Field(default=None, le=_INT32)
    """Further attempts after the first, at least 0."""
    timeout: str | None = None
    """Longest wait for the answer to one attempt (ISO 8601 duration, more than 0)."""
    backoff_policy: Literal["linear", "exponential"] | None = None
    """How the wait before an attempt grows: `backoffDelay` times n, or times 2 to the n."""
    backoff_delay: str | None = None
    """The wait that `backoffPolicy` is about (ISO 8601 duration)."""
    retry_after_max: str | None = None
    """Longest wait that a `Retry-After` header may ask for (ISO 8601 duration); `PT0S` ignores the header."""
    format: Literal["json", "binary"] | None = None
    """How events are written in the request: structured JSON or binary; as they are stored if not given."""

    def check(self, path: Path, features: Features) -> Iterator[FieldError]:
        """The rules of `knative.dev/eventing/pkg/apis/duck/v1.DeliverySpec.Validate`."""
        if self.dead_letter_sink is not None:
            yield from self.dead_letter_sink.check((*path, "deadLetterSink"))
        if self.retry is not None and self.retry < 0:
            yield invalid_value(self.retry, at(*path, "retry"), "expected 0 or more")
        yield from _check_switched(self.timeout, at(*path, "timeout"), features.delivery_timeout, "delivery-timeout", above=0)
        yield from _check_duration(self.backoff_delay, at(*path, "backoffDelay"), above=-1)
        place = at(*path, "retryAfterMax")
        yield from _check_switched(self.retry_after_max, place, features.delivery_retryafter, "delivery-retryafter", above=-1)


class Addressable(Model):
    """An address of an object."""

    name: str | None = None
    """Name of the address, where there are several."""
    url: str | None = None
    """Where to POST events."""
    ca_certs: str | None = None
    """Certificates (PEM) to check it against."""
    audience: str | None = None
    """The OIDC audience that it asks tokens for."""


class AuthStatus(Model):
    """The identity that an object sends events with."""

    service_account_name: str | None = None
    """The ServiceAccount in its namespace."""
    service_account_names: list[str] | None = None
    """The ServiceAccounts, where there are several."""


class AppliedPolicy(Model):
    """An EventPolicy that applies to an object."""

    name: str
    """Its name, in the same namespace."""
    api_version: str
    """Its API version."""


class DeliveryStatus(Status):
    """Status of an object that has a dead letter sink."""

    dead_letter_sink_uri: str | None = None
    """Where dead letters go."""
    dead_letter_sink_ca_certs: str | None = None
    """Certificates (PEM) of the dead letter sink."""
    dead_letter_sink_audience: str | None = None
    """OIDC audience of the dead letter sink."""


class AddressStatus(DeliveryStatus):
    """Status of an object that takes events in."""

    address: Addressable | None = None
    """Where to send events."""
    addresses: list[Addressable] | None = None
    """All its addresses."""
    policies: list[AppliedPolicy] | None = None
    """The EventPolicies that say who may send."""


class Subscriber(Model):
    """One entry of a channel's `spec.subscribers`: the controller writes it for each Subscription."""

    uid: str = ""
    """UID of the Subscription."""
    name: str | None = None
    """Name of the Subscription."""
    generation: int | None = None
    """Generation of the Subscription."""
    subscriber_uri: str | None = None
    """Where its events go."""
    subscriber_ca_certs: str | None = None
    """Certificates (PEM) of the subscriber."""
    subscriber_audience: str | None = None
    """OIDC audience of the subscriber."""
    reply_uri: str | None = None
    """Where the events go that it answers with."""
    reply_ca_certs: str | None = None
    """Certificates (PEM) of the reply's target."""
    reply_audience: str | None = None
    """OIDC audience of the reply's target."""
    delivery: DeliverySpec | None = None
    """Its delivery, instead of the channel's."""
    auth: AuthStatus | None = None
    """The identity that its events are sent with."""

    def check(self, path: Path, features: Features) -> Iterator[FieldError]:
        """Each subscriber needs somewhere to send to."""
        if not self.subscriber_uri and not self.reply_uri:
            yield missing(at(*path, "replyUri"), at(*path, "subscriberUri"), details="expected at least one of, got none")
        if self.delivery is not None:
            yield from self.delivery.check((*path, "delivery"), features)


class SubscriberStatus(Model):
    """How one subscriber of a channel is doing."""

    uid: str = ""
    """UID of the Subscription."""
    observed_generation: int | None = None
    """Generation of the Subscription that this is about."""
    ready: Literal["True", "False", "Unknown"] | None = None
    """Whether every event from now on will reach it."""
    message: str | None = None
    """Why not."""
    auth: AuthStatus | None = None
    """The identity that its events are sent with."""


class ChannelableStatus(AddressStatus):
    """Status of a channel."""

    subscribers: list[SubscriberStatus] | None = None
    """One entry per subscriber."""


def check_ca_certs(text: str | None, path: Path) -> Iterator[FieldError]:
    """`CACerts` is a list of PEM certificates; anything else is named."""
    if text is None:
        return
    bodies = text.split(_PEM_START)
    if bodies[0].strip() or len(bodies) < 2:
        yield invalid_value("(not shown)", at(*path), f"CA Cert provided is invalid: expected PEM, starting {_PEM_START}")
        return
    for index, body in enumerate(bodies[1:], 1):
        data, end, rest = body.partition(_PEM_END)
        if not end or rest.strip() or not _is_der(data):
            yield invalid_value("(not shown)", at(*path), f"CA Cert provided is invalid: certificate {index} is not readable")
            return


def _is_der(data: str) -> bool:
    try:
        der = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return der[:1] == b"\x30"


def _split(uri: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(uri)
        parts.port  # noqa: B018 - raises where the port is not a number
    except ValueError:
        return None
    return None if any(ch.isspace() or ord(ch) < 32 for ch in uri) else (parts.scheme, parts.hostname or "")


def _check_switched(text: str | None, path: str, on: bool, feature: str, *, above: int) -> Iterator[FieldError]:
    if text is not None and not on:
        yield disallowed(path, details=f"the feature {feature} is switched off")
    else:
        yield from _check_duration(text, path, above=above)


def _check_duration(text: str | None, path: str, *, above: int) -> Iterator[FieldError]:
    if text is None:
        return
    try:
        if parse_duration(text) <= above:
            yield invalid_value(text, path, "expected a duration of 0 or more" if above < 0 else "expected more than 0")
    except ValueError as error:
        yield invalid_value(text, path, str(error))


def default_namespaces(destination: Json | None, namespace: str) -> None:
    """Fill in the namespace of a destination's ref, in place; other shapes are left for the validation to name."""
    ref = destination.get("ref") if isinstance(destination, dict) else None
    if isinstance(ref, dict) and not ref.get("namespace"):
        ref["namespace"] = namespace
