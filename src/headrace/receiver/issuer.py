"""The keys of an OpenID Connect issuer: discovered, cached, fetched again when they get old or a token names an unknown one."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from headrace.base.clock import Clock
from headrace.base.errors import HeadraceError, Terminal
from headrace.base.log import get_logger
from headrace.http.jsonserver import JsonServer
from headrace.receiver.config import Issuer

log = get_logger(__name__)

_DISCOVERY = "/.well-known/openid-configuration"
_PAUSE_SECONDS = 5.0
"""Least time between two fetches: tokens with made-up keys must not become requests to the issuer."""
ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""What each kind of key may sign with; nothing symmetric, never `none`."""


@dataclass(frozen=True, slots=True)
class Key:
    """One public key, and what it may have signed with."""

    key: Any
    algorithms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeySet:
    """What the issuer said last: its name (`iss` of its tokens) and its keys by `kid`."""

    issuer: str = ""
    keys: Mapping[str, Key] = field(default_factory=dict)

    def candidates(self, kid: str | None) -> list[Key]:
        """The keys that a token with this `kid` may be signed with; without one, all."""
        if kid is None:
            return list(self.keys.values())
        return [self.keys[kid]] if kid in self.keys else []


class IssuerKeys:
    """The current keys. `fetch` and `refresh` wait for the issuer, everything else answers at once."""

    def __init__(self, config: Issuer, clock: Clock) -> None:
        """Raises `Terminal` when the file of the authority can't be used."""
        self._config = config
        self._now = clock.monotonic
        self._server = JsonServer(config.ca_file, config.token_file)
        self._fetched: float | None = None
        self._tried: float | None = None
        self._fetching = False
        self._lock = threading.Lock()
        self.current = KeySet()

    def must_wait(self, kid: str | None) -> bool:
        """Whether a token with this `kid` can't be judged before the issuer has been asked (`fetch`)."""
        return not self.current.candidates(kid) and (self._fetching or self._may_ask())

    def fetch(self, kid: str | None) -> None:
        """Ask the issuer for a key that is not known, unless somebody just has."""
        with self._lock:
            if not self.current.candidates(kid) and self._may_ask():
                self._ask()

    def refresh(self) -> None:
        """Ask the issuer when the keys are old, so that nobody has to wait for it; to be called now and then."""
        if self._fetched is None or self._now() - self._fetched < self._config.refresh_seconds:
            return
        with self._lock:
            if self._may_ask():
                self._ask()

    def _may_ask(self) -> bool:
        return self._tried is None or self._now() - self._tried >= _PAUSE_SECONDS

    def _ask(self) -> None:
        """Old keys stay in force when there is no answer."""
        self._fetching = True
        self._tried = self._now()
        try:
            self.current = self._discover()
            self._fetched = self._now()
        except HeadraceError as error:
            log.warning("The issuer's keys can't be fetched", error=str(error), keys=len(self.current.keys))
        finally:
            self._fetching = False

    def _discover(self) -> KeySet:
        url = self._config.url.rstrip("/") + _DISCOVERY
        found = self._server.call(url)
        issuer, jwks_uri = found.get("issuer"), found.get("jwks_uri")
        if not (
            isinstance(issuer, str) and issuer and isinstance(jwks_uri, str) and jwks_uri.startswith(("https://", "http://"))
        ):
            raise Terminal("the answer names no issuer and no jwks_uri", subject=url)
        keys = self._server.call(jwks_uri).get("keys")
        if not isinstance(keys, list):
            raise Terminal("the answer has no keys", subject=jwks_uri)
        return KeySet(issuer, dict(filter(None, map(_key, keys))))


def _key(raw: object) -> tuple[str, Key] | None:
    """A key of a JSON Web Key Set; None where it is for something else, or of a kind that is not used here."""
    if not isinstance(raw, dict) or raw.get("use", "sig") != "sig" or raw.get("kty") not in ALGORITHMS:
        return None
    allowed = ALGORITHMS[raw["kty"]]
    try:
        key = PyJWK.from_dict(raw)
    except PyJWTError:
        return None
    algorithm = raw.get("alg")
    return str(raw.get("kid", "")), Key(key.key, tuple(one for one in allowed if algorithm in (None, one)))
