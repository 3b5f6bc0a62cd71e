"""An OpenID Connect issuer: a real HTTP server with discovery and keys, that signs what the test wants."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
"""Made once: it takes a moment."""


class IssuerServer:
    """`token(...)` signs claims; `requests` counts what it was asked; `keys` may be changed."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        """Path and `Authorization` of each request."""
        self.answering = True
        self.keys: dict[str, Any] = {"rsa": _RSA}
        self.named = ""
        """The issuer that discovery names; empty: its own address."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.requests.append((self.path, self.headers.get("authorization", "")))
                page = owner.page(self.path)
                # As a Kubernetes API server does.
                kind = "application/jwk-set+json" if self.path == "/keys" else "application/json"
                wanted = kind in self.headers.get("accept", "")
                self.send_response(503 if page is None else 200 if wanted else 406)
                self.end_headers()
                self.wfile.write(json.dumps(page).encode())

            def log_message(self, *args: object) -> None:
                """Not wanted."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def page(self, path: str) -> Mapping[str, Any] | None:
        if not self.answering:
            return None
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.named or self.url, "jwks_uri": f"{self.url}/keys"}
        return {"keys": [_public(kid, key) for kid, key in self.keys.items()]} if path == "/keys" else None

    def token(
        self, audience: object, *, kid: str | None = "rsa", key: Any = None, algorithm: str = "RS256", **claims: Any
    ) -> str:
        """A token for `audience` that is valid for five minutes; a claim given as None is left out."""
        now = int(time.time())
        all_claims = {"iss": self.named or self.url, "aud": audience, "sub": "me", "iat": now, "exp": now + 300} | claims
        key = key if key is not None else self.keys[kid or "rsa"]
        wanted = {name: value for name, value in all_claims.items() if value is not None}
        return jwt.encode(wanted, key, algorithm=algorithm, headers={"kid": kid} if kid else None)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def issuer() -> Iterator[IssuerServer]:
    """A running issuer."""
    made = IssuerServer()
    try:
        yield made
    finally:
        made.close()


def _public(kid: str, key: Any) -> dict[str, Any]:
    algorithm = ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"}
