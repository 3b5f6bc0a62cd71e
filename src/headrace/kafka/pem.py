"""PEM texts: certificates and private keys as the Kafka clients want them.

librdkafka takes any unencrypted key; Java takes PKCS#8 only, so keys are converted for it. No text of an error shows key material.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes


class PemError(ValueError):
    """What is wrong with a PEM text, as the end of a sentence that begins with its name."""


def check_certificates(pem: str) -> None:
    """Raise `PemError` unless `pem` holds one or more certificates."""
    _certificates(pem)


def check_key_pair(key: str, certificates: str) -> None:
    """Raise `PemError` unless `key` is an unencrypted private key that belongs to the first of `certificates`."""
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    ours = _key(key).public_key().public_bytes(serialization.Encoding.DER, public)
    theirs = _certificates(certificates)[0].public_key().public_bytes(serialization.Encoding.DER, public)
    if ours != theirs:
        raise PemError("does not belong to the certificate in user.crt")


def pkcs8(key: str) -> str:
    """The same private key in PKCS#8, the only form that Java reads."""
    return (
        _key(key)
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        .decode()
    )


def _certificates(pem: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        raise PemError("holds no readable PEM certificate") from None


def _key(pem: str) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(pem.encode(), password=None)
    except TypeError:
        raise PemError("is encrypted: give the private key without a password") from None
    except (ValueError, UnsupportedAlgorithm):
        raise PemError("is not a readable PEM private key") from None
