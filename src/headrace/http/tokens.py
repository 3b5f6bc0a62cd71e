"""Tokens of ServiceAccounts from a server that speaks Kubernetes' TokenRequest: a Kubernetes API server, or our own controller.

A token is shown to nobody but whom it is for: neither its text nor its `repr` tells it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from headrace.base.clock import Clock
from headrace.base.errors import Retriable
from headrace.http.jsonserver import JsonServer

TOKEN_SECONDS = 3600
"""What is asked for, as the peer does; a server may give less or more."""


class Identity(NamedTuple):
    """Who shows a token, and to whom: a ServiceAccount, and the audience."""

    namespace: str
    account: str
    audience: str

    def __str__(self) -> str:
        return f"token of serviceaccount {self.namespace}/{self.account} for audience {self.audience}"


@dataclass(frozen=True, slots=True)
class TokenServer:
    """Where tokens are asked for. Picklable.

    `url`: what the path of a TokenRequest is appended to. `ca_file`, `token_file`: see `JsonServer`.
    """

    url: str
    ca_file: Path | None = None
    token_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """`value` as it goes into a header. `expires`: seconds since the epoch."""

    value: str = field(repr=False)
    expires: float


class TokenClient:
    """Asks for tokens; waits for the answer. Any number of threads may use it."""

    def __init__(self, server: TokenServer, clock: Clock) -> None:
        """Raises `Terminal` when the file of the authority can't be used."""
        self._url = server.url.rstrip("/")
        self._server = JsonServer(server.ca_file, server.token_file)
        self._clock = clock

    def fetch(self, identity: Identity, seconds: int = TOKEN_SECONDS) -> Token:
        """A new token. Raises `HeadraceError` when there is none to be had."""
        path = (
            f"/api/v1/namespaces/{quote(identity.namespace, safe='')}/serviceaccounts/{quote(identity.account, safe='')}/token"
        )
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [identity.audience], "expirationSeconds": seconds},
        }
        answer = self._server.call(self._url + path, body).get("status")
        status = answer if isinstance(answer, dict) else {}
        value, until = str(status.get("token", "")), _seconds(str(status.get("expirationTimestamp", "")))
        if not value or not value.isascii() or not value.isprintable():
            raise Retriable("the answer holds no token", subject=self._url)
        if until <= self._clock.now():
            raise Retriable("the answer holds a token that has expired, by the clock of this machine", subject=self._url)
        return Token(value, until)


def _seconds(timestamp: str) -> float:
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0
