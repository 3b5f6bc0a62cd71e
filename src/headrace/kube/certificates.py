"""The certificate of the webhooks, made here: an authority of its own, kept in a Secret that all operators share. Pure but for keys."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CA, _CERT, _KEY = "ca.crt", "tls.crt", "tls.key"
_RENEW_AFTER = 2 / 3
_BACKDATED = datetime.timedelta(minutes=5)


@dataclass(frozen=True)
class Certificate:
    """PEM texts. `authority` signs `chain` and goes into `caBundle`; its own key is thrown away once it has signed."""

    authority: bytes
    chain: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Certificate(...)"

    @classmethod
    def make(cls, hosts: tuple[str, ...], days: float, now: float) -> Certificate:
        """A new authority and a certificate for the DNS names `hosts`, both good for `days` from `now` (Unix seconds)."""
        begin = datetime.datetime.fromtimestamp(now, datetime.UTC)
        end = begin + datetime.timedelta(days=days)
        ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        ca_name = _name("headrace webhook authority")

        def signed(subject: x509.Name, public: ec.EllipticCurvePublicKey, *more: tuple[x509.ExtensionType, bool]) -> bytes:
            builder = (
                x509.CertificateBuilder(ca_name, subject, public, x509.random_serial_number())
                .not_valid_before(begin - _BACKDATED)
                .not_valid_after(end)
            )
            for extension, critical in more:
                builder = builder.add_extension(extension, critical)
            return builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

        identifier = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
        authority = signed(
            ca_name, ca_key.public_key(), (x509.BasicConstraints(ca=True, path_length=0), True), (identifier, False)
        )
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        chain = signed(
            _name(hosts[0][:64]),
            key.public_key(),
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (names, False),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), False),
        )
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return cls(authority, chain, private)

    @classmethod
    def from_secret(cls, data: Mapping[str, str]) -> Certificate | None:
        """What a Secret's `data` holds, or None if that can't be used."""
        try:
            found = cls(*(base64.b64decode(data[name]) for name in (_CA, _CERT, _KEY)))
            x509.load_pem_x509_certificate(found.chain)
            serialization.load_pem_private_key(found.key, None)
        except (KeyError, ValueError, TypeError):
            return None
        return found

    def to_secret(self) -> dict[str, str]:
        """The `data` of a Secret."""
        parts = {_CA: self.authority, _CERT: self.chain, _KEY: self.key}
        return {name: base64.b64encode(value).decode() for name, value in parts.items()}

    def due(self, hosts: tuple[str, ...], now: float) -> bool:
        """Whether it is time for a new one: two thirds of its life are over, or it does not name all hosts."""
        leaf = x509.load_pem_x509_certificate(self.chain)
        begin, end = leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp()
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return now > begin + (end - begin) * _RENEW_AFTER or not set(hosts) <= set(names.get_values_for_type(x509.DNSName))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
