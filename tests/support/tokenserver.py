"""An OAuth 2 server for one test: client credentials in, signed tokens out, and its public keys for whoever checks them."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT, SECRET, AUDIENCE, SCOPE = "headrace-client", 'se"cr\\et', "kafka", "events"


class TokenServer:
    """`endpoint` gives tokens to `CLIENT` with `SECRET` for `SCOPE`, `keys` the key that they are signed with; `given` counts tokens."""

    def __init__(self) -> None:
        self.given = 0
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
                header = self.headers.get("authorization", "")
                basic = base64.b64decode(header.removeprefix("Basic ")).decode() if header.startswith("Basic ") else ""
                told = (form.get("client_id", [""])[0], form.get("client_secret", [""])[0])
                user, _, password = basic.partition(":")
                right = (CLIENT, SECRET) in ((user, password), told) and form.get("scope") == [SCOPE]
                self._answer(200 if right else 401, owner._grant() if right else {"error": "invalid_client"})

            def do_GET(self) -> None:
                self._answer(200, owner._keys())

            def _answer(self, status: int, page: object) -> None:
                body = json.dumps(page).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Not wanted."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.endpoint, self.keys = f"{address}/token", f"{address}/keys"

    @contextmanager
    def running(self) -> Iterator[TokenServer]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def _grant(self) -> dict[str, object]:
        self.given += 1
        now = int(time.time())
        claims = {"sub": CLIENT, "aud": AUDIENCE, "iss": "test", "iat": now, "exp": now + 3600, "scope": SCOPE}
        token = jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": "one"})
        return {"access_token": token, "token_type": "Bearer", "expires_in": 3600}

    def _keys(self) -> dict[str, object]:
        public = json.loads(RSAAlgorithm.to_jwk(self._key.public_key()))
        return {"keys": [public | {"kid": "one", "use": "sig", "alg": "RS256"}]}
