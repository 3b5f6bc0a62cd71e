"""Certificate authorities of subscribers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headrace.base.errors import Terminal
from headrace.http.client import BodyLimits, Client, Exchange, Failure
from headrace.http.trust import ca_bundle
from tests.support.certificates import Authority
from tests.support.subscriber import subscriber


def post(url: str, ca_file: str) -> Exchange:
    client = Client()
    one = Exchange(url, ["Expect:"], b"x", 10_000, lambda status, headers: BodyLimits(10, 10), ca_file=ca_file)
    client.start(one)
    end = time.monotonic() + 20
    while not client.poll():
        assert time.monotonic() < end
        client.wait(0.1)
    client.close()
    return one


def test_a_subscriber_with_a_certificate_of_a_known_authority_is_reached(tmp_path: Path) -> None:
    authority = Authority()
    with subscriber(tls=authority.server(tmp_path)) as server:
        assert post(server.url(), ca_bundle([Authority("another").pem, authority.pem])).status == 202


def test_a_subscriber_of_an_unknown_authority_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    with subscriber(tls=Authority().server(tmp_path)) as server:
        one = post(server.url(), ca_bundle([Authority("another").pem]))
        assert one.failure is Failure.TLS
        assert server.requests == []


def test_without_extra_authorities_the_system_bundle_is_used_as_it_is() -> None:
    assert Path(ca_bundle()).is_file()
    assert ca_bundle() == ca_bundle(["", "  "])


def test_equal_contents_share_one_file() -> None:
    pem = Authority().pem
    assert ca_bundle([pem]) == ca_bundle([pem + "\n", pem])
    assert pem.strip() in Path(ca_bundle([pem])).read_text()


@pytest.mark.parametrize("text", ["nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"])
def test_what_is_no_certificate_is_refused(text: str) -> None:
    with pytest.raises(Terminal, match="CACerts"):
        ca_bundle([text])
