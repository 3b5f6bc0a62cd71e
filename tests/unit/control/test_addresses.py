"""Addresses of ingresses by the feature `transport-encryption`."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from headrace.control.model import ObjectKey
from headrace.control.settings import Secure, Settings
from headrace.core.resources.features import Features
from tests.unit.control.fakehome import HOME_KAFKA, FakeHome
from tests.unit.control.manifests import BROKER, CHANNEL, KAFKA_CHANNEL, TRIGGER, B, C, K

Json = dict[str, Any]
SECRET = ObjectKey("", "Secret", "knative-eventing", "tls")
AUTHORITY = "-----BEGIN CERTIFICATE-----\n"
HTTP = {"name": "http", "url": "http://ingress/default/b"}
HTTPS = {"name": "https", "url": "https://ingress/default/b", "CACerts": AUTHORITY}
PLAIN, BOTH, ENCRYPTED = (HTTP, [HTTP]), (HTTP, [HTTPS, HTTP]), (HTTPS, [HTTPS])


def secret(**data: str) -> Json:
    encoded = {name.replace("_", "."): base64.b64encode(text.encode()).decode() for name, text in data.items()}
    metadata = {"name": SECRET.name, "namespace": SECRET.namespace, "uid": "u"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}


WHOLE = secret(tls_crt="chain", tls_key="key", ca_crt=AUTHORITY)


def settings(mode: str, **more: Any) -> Settings:
    features = Features(transport_encryption=mode, **more)
    return Settings(kafka=HOME_KAFKA, base_url="http://ingress", features=features, secure=Secure("https://ingress", SECRET))


def home_of(mode: str, certificate: Json | None, *, served: bool = True) -> FakeHome:
    home = FakeHome(settings(mode))
    home.receivers = ("r1", "r2")
    home.serving_tls = home.receivers if served else ("r2",)
    if certificate is not None:
        home.store(SECRET, certificate)
    return home


def addresses(home: FakeHome, key: ObjectKey = B) -> tuple[Json | None, list[Json] | None]:
    status = home.status(key)
    return status.get("address"), status.get("addresses")


@pytest.mark.parametrize(
    ("mode", "certificate", "served", "wanted", "verdict"),
    [
        ("disabled", WHOLE, True, PLAIN, ("True", "")),
        ("permissive", WHOLE, True, BOTH, ("True", "")),
        ("permissive", WHOLE, False, PLAIN, ("True", "ReceiverNotUpToDate")),
        ("permissive", None, True, PLAIN, ("True", "SecretNotFound")),
        ("permissive", secret(tls_crt="chain"), True, PLAIN, ("True", "SecretInvalid")),
        ("strict", WHOLE, True, ENCRYPTED, ("True", "")),
        ("strict", WHOLE, False, (None, None), ("Unknown", "ReceiverNotUpToDate")),
        ("strict", None, True, (None, None), ("False", "SecretNotFound")),
        ("strict", secret(ca_crt=AUTHORITY, tls_key="key"), True, (None, None), ("False", "SecretInvalid")),
    ],
)
def test_a_brokers_addresses(
    mode: str, certificate: Json | None, served: bool, wanted: tuple[Json | None, list[Json] | None], verdict: tuple[str, str]
) -> None:
    home = home_of(mode, certificate, served=served)
    home.apply(BROKER)
    home.settle()
    assert addresses(home) == wanted
    assert home.verdict(B, "Addressable") == verdict


def test_without_an_authority_clients_trust_those_of_their_system() -> None:
    home = home_of("strict", secret(tls_crt="chain", tls_key="key"))
    home.apply(BROKER)
    home.settle()
    assert home.status(B)["address"] == {"name": "https", "url": "https://ingress/default/b"}


@pytest.mark.parametrize("mode", ["permissive", "strict"])
def test_all_addresses_have_the_audience(mode: str) -> None:
    home = home_of(mode, WHOLE)
    home.settings = settings(mode, authentication_oidc=True)
    home.apply(BROKER)
    home.settle()
    status = home.status(B)
    assert {one["audience"] for one in [status["address"], *status["addresses"]]} == {"eventing.knative.dev/broker/default/b"}


def test_a_channel_is_served_with_tls_by_path_and_what_is_in_front_of_it_shows_the_same() -> None:
    home = home_of("permissive", WHOLE)
    home.settings = replace(home.settings, host_addresses=True)
    home.apply(CHANNEL)
    home.apply(KAFKA_CHANNEL)
    home.settle()
    http = {"name": "http", "url": "http://k-kn-channel.default.svc.cluster.local"}
    https = {"name": "https", "url": "https://ingress/channels/default/k", "CACerts": AUTHORITY}
    assert addresses(home, K) == (http, [https, http])
    shown = addresses(home, C)[1]
    assert shown is not None
    assert [one["name"] for one in shown] == ["https", "http"]


def test_the_mode_changes_while_events_flow() -> None:
    home = home_of("disabled", WHOLE, served=False)
    home.apply(BROKER)
    home.settle()
    seen = []
    for mode, serving in (
        ("strict", ("r1",)),
        ("strict", ("r1", "r2")),
        ("permissive", ("r1", "r2")),
        # One that starts again takes nothing away.
        ("permissive", ("r1",)),
        ("disabled", ("r1",)),
    ):
        home.settings, home.serving_tls = settings(mode), serving
        home.settle()
        seen.append(addresses(home))
        assert home.verdict(B) == ("True", "")
    assert seen == [PLAIN, ENCRYPTED, BOTH, BOTH, PLAIN]


@pytest.mark.parametrize(
    ("mode", "wanted", "verdict"),
    [("permissive", PLAIN, ("True", "SecretNotFound")), ("strict", ENCRYPTED, ("False", "SecretNotFound"))],
)
def test_a_certificate_that_is_gone(mode: str, wanted: tuple[Json, list[Json]], verdict: tuple[str, str]) -> None:
    home = home_of(mode, WHOLE)
    home.apply(BROKER)
    home.settle()
    del home.objects[SECRET]
    home.settle()
    assert addresses(home) == wanted
    assert home.verdict(B, "Addressable") == verdict


def test_a_secret_that_is_still_being_read_changes_nothing() -> None:
    home = home_of("strict", WHOLE)
    home.apply(BROKER)
    home.settle()
    kept = home.objects.pop(SECRET)
    home.looked_up = frozenset()
    home.settle()
    assert addresses(home) == ENCRYPTED
    assert home.verdict(B) == ("True", "")
    home.store(SECRET, {**kept, "data": {**kept["data"], "ca.crt": base64.b64encode(b"another").decode()}})
    home.settle()
    assert home.status(B)["address"]["CACerts"] == "another"


def test_who_refers_to_it_takes_the_encrypted_address_and_trusts_its_authority() -> None:
    home = home_of("permissive", WHOLE)
    home.apply(BROKER)
    home.apply(BROKER.replace("name: b", "name: other"))
    ref = "{ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: b}}"
    home.apply(TRIGGER.replace("broker: b", "broker: other").replace("{uri: 'http://sink/'}", ref))
    home.settle()
    (trigger,) = [obj for key, obj in home.objects.items() if key.kind == "Trigger"]
    assert trigger["status"]["subscriberUri"] == HTTPS["url"]
    assert trigger["status"]["subscriberCACerts"] == AUTHORITY
