"""A small OpenID Connect issuer, for tests and first steps: tokens of ServiceAccounts, as a Kubernetes API server gives them.

It gives a token of any account to whoever reaches the controller's API, which is this machine. Its key is made once and kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from headrace.base.clock import Clock
from headrace.base.errors import Terminal
from headrace.base.files import write_atomically
from headrace.core.resources.names import is_name, is_namespace
from headrace.core.resources.timestamps import format_time
from headrace.standalone.datadir import disk_error
from headrace.standalone.failures import Cause, bad_request, invalid

Json = dict[str, Any]
DISCOVERY, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
LONGEST_SECONDS = 24 * 3600
_DEFAULT_SECONDS = 3600
_ALGORITHM = "RS256"
"""What every client of OpenID Connect knows."""


class TokenIssuer:
    """`url`: its name, `iss` of its tokens, where `DISCOVERY` and `KEYS` are served."""

    def __init__(self, key_file: Path | None, url: Callable[[], str], clock: Clock) -> None:
        """`key_file`: holds the key, which is made when it is first needed; without a file it lasts as long as this.

        The methods raise `Terminal` for a file that can't be used.
        """
        self._file = key_file
        self._url = url
        self._clock = clock
        self._lock = threading.Lock()
        self._made: _Key | None = None

    def discovery(self) -> Json:
        """The page at `DISCOVERY`."""
        url = self._url()
        return {
            "issuer": url,
            "jwks_uri": url + KEYS,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [_ALGORITHM],
        }

    def keys(self) -> Json:
        """The page at `KEYS`."""
        return {"keys": [self._key.public]}

    def answer(self, namespace: str, account: str, request: Mapping[str, Any]) -> Json:
        """A TokenRequest with its token. Raises `Failure` for one that can't be fulfilled."""
        if not is_namespace(namespace) or not is_name(account):
            raise bad_request(f"{namespace}/{account} can't be a ServiceAccount")
        spec = request.get("spec")
        spec = spec if isinstance(spec, dict) else {}
        audiences, seconds = spec.get("audiences"), spec.get("expirationSeconds", _DEFAULT_SECONDS)
        causes = []
        if not isinstance(audiences, list) or not audiences or not all(isinstance(one, str) and one for one in audiences):
            causes.append(Cause("spec.audiences", "expected a list of texts, at least one"))
        if not isinstance(seconds, int) or isinstance(seconds, bool) or not 1 <= seconds <= LONGEST_SECONDS:
            causes.append(Cause("spec.expirationSeconds", f"expected 1 to {LONGEST_SECONDS}"))
        if causes:
            raise invalid("TokenRequest", account, causes, "authentication.k8s.io")
        assert isinstance(audiences, list)
        token, until = self._sign(f"system:serviceaccount:{namespace}:{account}", audiences, seconds)
        return {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {"name": account, "namespace": namespace},
            "spec": {"audiences": audiences, "expirationSeconds": seconds},
            "status": {"token": token, "expirationTimestamp": format_time(until)},
        }

    def _sign(self, subject: str, audiences: list[str], seconds: int) -> tuple[str, int]:
        now = int(self._clock.now())
        claims = {
            "iss": self._url(),
            "sub": subject,
            "aud": audiences,
            "iat": now,
            "nbf": now,
            "exp": now + seconds,
            "jti": str(uuid.uuid4()),
        }
        key = self._key
        return jwt.encode(claims, key.private, algorithm=_ALGORITHM, headers={"kid": key.kid}), now + seconds

    @property
    def _key(self) -> _Key:
        with self._lock:
            if self._made is None:
                self._made = _Key(_new_key() if self._file is None else _kept_key(self._file))
            return self._made


class _Key:
    def __init__(self, private: rsa.RSAPrivateKey) -> None:
        public = RSAAlgorithm.to_jwk(private.public_key(), as_dict=True)
        numbers = {name: public[name] for name in ("kty", "n", "e")}
        self.private = private
        self.kid = hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]
        self.public: Json = {**numbers, "kid": self.kid, "use": "sig", "alg": _ALGORITHM}


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _kept_key(file: Path) -> rsa.RSAPrivateKey:
    try:
        if not file.exists():
            pem = _new_key().private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            write_atomically(file, pem, mode=0o600)
        if file.stat().st_mode & 0o077:
            os.chmod(file, 0o600)
        raw = file.read_bytes()
    except OSError as error:
        raise disk_error(error, file) from None
    try:
        key = serialization.load_pem_private_key(raw, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, rsa.RSAPrivateKey):
        hint = "Remove it: a new key is made, and tokens that were given before are not valid any more"
        raise Terminal("holds no RSA key", subject=str(file), hint=hint)
    return key
