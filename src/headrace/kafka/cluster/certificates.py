"""An authority of its own for a local cluster, and what it signs: one certificate for the brokers, one for each user."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAYS = 825
_NAMES = ("localhost",)
_ADDRESSES = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key (PKCS#8), as PEM."""

    certificate: str
    key: str


class Authority:
    """Signs certificates; its own key is forgotten with it."""

    def __init__(self, name: str, now: datetime | None = None) -> None:
        self._now = now or datetime.now(UTC)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self._certificate = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.certificate = _pem(self._certificate)

    def broker(self) -> Pair:
        """For a server on the loopback interface, which is a client of its peers too."""
        names = [*map(x509.DNSName, _NAMES), *(x509.IPAddress(ipaddress.ip_address(one)) for one in _ADDRESSES)]
        return self._sign("broker", [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH], names)

    def user(self, name: str) -> Pair:
        """For a client."""
        return self._sign(name, [ExtendedKeyUsageOID.CLIENT_AUTH], [])

    def _sign(self, name: str, usages: list[x509.ObjectIdentifier], names: list[x509.GeneralName]) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_name(name), key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        form = serialization.PrivateFormat.PKCS8
        text = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
        return Pair(_pem(certificate), text)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - timedelta(hours=1))
            .not_valid_after(self._now + timedelta(days=_DAYS))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
