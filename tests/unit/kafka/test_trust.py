"""What a Java is told of this machine's authorities and proxies."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

from headrace.kafka.cluster.certificates import Authority
from headrace.kafka.trust import proxy_options, trust_options

MALFORMED = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def test_the_readable_authorities_of_the_machines_bundle_go_into_a_trust_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(f"# a comment\n{Authority('one').certificate}{MALFORMED}{Authority('two').certificate}")
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    options = dict(option.removeprefix("-Djavax.net.ssl.").split("=", 1) for option in trust_options(tmp_path))
    store = load_pkcs12(Path(options["trustStore"]).read_bytes(), options["trustStorePassword"].encode())
    names = {entry.certificate.subject.rfc4514_string() for entry in store.additional_certs}
    assert names == {"CN=one", "CN=two"}
    assert options["trustStoreType"] == "PKCS12"


def test_a_bundle_without_a_readable_authority_leaves_javas_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(MALFORMED)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert trust_options(tmp_path) == []


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, []),
        ({"https_proxy": "http://proxy:3128"}, ["-Dhttps.proxyHost=proxy", "-Dhttps.proxyPort=3128"]),
        ({"HTTP_PROXY": "proxy:8080"}, ["-Dhttp.proxyHost=proxy", "-Dhttp.proxyPort=8080"]),
        (
            {"https_proxy": "http://proxy", "no_proxy": "localhost, .example.com"},
            ["-Dhttps.proxyHost=proxy", "-Dhttps.proxyPort=80", "-Dhttp.nonProxyHosts=localhost|*.example.com"],
        ),
        ({"no_proxy": "localhost"}, []),
    ],
)
def test_the_environments_proxy_is_handed_on(environ: dict[str, str], wanted: list[str]) -> None:
    assert proxy_options(environ) == wanted
