"""The client's side of SCRAM (RFC 5802, RFC 7677), as Kafka speaks it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from headrace.base.errors import Terminal

_LEAST_ITERATIONS = 4096
_SUBJECT = "Kafka auth"


class ScramClient:
    """One exchange: send `first()`, give the answer to `final()` and send that, give the last answer to `check()`.

    `hash_name`: `sha256` or `sha512`. Raises `Terminal` when the server's answers are not those of one that knows the password.
    """

    def __init__(self, hash_name: str, user: str, password: str, nonce: str = "") -> None:
        self._hash = hash_name
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        fields = _fields(challenge)
        nonce, salt = fields.get("r", ""), base64.b64decode(fields.get("s", ""))
        iterations = int(fields.get("i", "0"))
        if not nonce.startswith(self._nonce) or nonce == self._nonce or iterations < _LEAST_ITERATIONS:
            raise Terminal("the server's SCRAM challenge is not an answer to ours", subject=_SUBJECT)
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        without_proof = f"c=biws,r={nonce}"
        message = f"{self._bare},{challenge.decode()},{without_proof}".encode()
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), message)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, answer: bytes) -> None:
        proof = base64.b64decode(_fields(answer).get("v", ""))
        if not hmac.compare_digest(proof, self._signature):
            raise Terminal("the server could not prove that it knows the password", subject=_SUBJECT)

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _fields(message: bytes) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.decode().split(",") if "=" in part)
