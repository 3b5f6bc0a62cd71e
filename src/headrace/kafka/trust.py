"""The certificate authorities and proxies of this machine, told to a Java that knows only its own."""

from __future__ import annotations

import re
import ssl
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.utils import CryptographyDeprecationWarning

_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# Java opens no trust store without a password; this one keeps nothing secret.
_PASSWORD = "changeit"


def trust_options(folder: Path) -> list[str]:
    """Java options that make it trust whom this machine trusts (`SSL_CERT_FILE` included); the store is written to `folder`.

    Empty when the machine's authorities can't be read: Java's own apply.
    """
    bundle = next((path for path in (ssl.get_default_verify_paths().cafile, *_BUNDLES) if path and Path(path).is_file()), None)
    if bundle is None:
        return []
    entries = [PKCS12Certificate(found, f"ca-{index}".encode()) for index, found in enumerate(_authorities(Path(bundle)))]
    if not entries:
        return []
    path = folder / "trust.p12"
    path.write_bytes(serialize_java_truststore(entries, BestAvailableEncryption(_PASSWORD.encode())))
    return [
        f"-Djavax.net.ssl.trustStore={path}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def _authorities(bundle: Path) -> list[x509.Certificate]:
    """The certificates of a bundle, without the malformed ones that every such bundle seems to hold."""
    found: list[x509.Certificate] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        for block in _BLOCK.findall(bundle.read_bytes()):
            with suppress(ValueError):
                found.append(x509.load_pem_x509_certificate(block))
    return found


def proxy_options(environ: Mapping[str, str]) -> list[str]:
    """Java options for the proxy that the environment names (`https_proxy`, `no_proxy` and their upper-case forms)."""
    options: list[str] = []
    for scheme in ("http", "https"):
        value = environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY") or ""
        proxy = urlsplit(value if "://" in value else f"http://{value}")
        if proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    exceptions = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if options and exceptions:
        names = [name.strip() for name in exceptions.split(",") if name.strip()]
        hosts = "|".join(f"*{name}" if name.startswith(".") else name for name in names)
        options.append(f"-Dhttp.nonProxyHosts={hosts}")
    return options
