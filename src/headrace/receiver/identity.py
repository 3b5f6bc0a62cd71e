"""Who sends: bearer tokens of an OpenID Connect issuer on ingresses with an `audience`, and the policies that let a sender in.

Missing, broken, foreign or expired tokens: 401. A known sender that no policy lets in: 403. Nothing of a token gets into a log or an
answer. What is checked: signature (asymmetric algorithms), `iss`, `aud`, `exp`, `nbf`, `iat`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt

from headrace.base.clock import Clock
from headrace.core.events.model import Event
from headrace.receiver.answers import Answer
from headrace.receiver.config import Issuer
from headrace.receiver.guard import Claims
from headrace.receiver.issuer import IssuerKeys
from headrace.receiver.policies import Policy, parse_policies

_REMEMBERED = 10_000
_REMEMBER_SECONDS = 60.0
"""A verified token is not verified again for this long, and never beyond its `exp` or a change of the issuer's keys."""
_LONGEST = 16 * 1024

_OPTIONS: Any = {"verify_signature": True} | {
    f"verify_{name}": False for name in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")
}
"""The rest is checked here: by the clock that was passed in, and the audience per ingress."""

_CHALLENGE = ("www-authenticate", "Bearer")
_INVALID = ("www-authenticate", 'Bearer error="invalid_token"')
NO_TOKEN = Answer(401, "This address asks for a bearer token in the header Authorization", (_CHALLENGE,))
NO_KEYS = Answer(503, "Tokens can't be verified at the moment: the issuer does not answer", (("retry-after", "5"),))
FORBIDDEN = Answer(403, "No policy lets this sender send this event here")


def rejected(why: str) -> Answer:
    """The answer to a token that is not taken."""
    return Answer(401, f"The token is not valid here: {why}", (_INVALID,))


@dataclass(frozen=True, slots=True)
class _Verified:
    """The claims of a token that was found right, until then (monotonic clock) and with these keys."""

    claims: Claims
    until: float
    keys: object


class TokenVerifier:
    """Judges tokens of one issuer. Whoever asks checks `aud`: a token may be meant for several."""

    def __init__(self, config: Issuer, clock: Clock) -> None:
        self.keys = IssuerKeys(config, clock)
        self._leeway = config.leeway_seconds
        self._clock = clock
        self._verified: dict[str, _Verified] = {}
        self._lock = threading.Lock()

    def known(self, token: str) -> Answer | Claims | None:
        """The verdict, if it needs no answer of the issuer; else None."""
        found = self._verified.get(token)
        if found is not None and found.keys is self.keys.current and self._clock.monotonic() < found.until:
            return found.claims
        kid = _kid(token)
        if isinstance(kid, Answer):
            return kid
        return None if self.keys.must_wait(kid) else self._judge(token, kid)

    def verify(self, token: str) -> Answer | Claims:
        """The verdict; waits for the issuer where needed."""
        kid = _kid(token)
        if isinstance(kid, Answer):
            return kid
        self.keys.fetch(kid)
        return self._judge(token, kid)

    def _judge(self, token: str, kid: str | None) -> Answer | Claims:
        current = self.keys.current
        if not current.issuer:
            return NO_KEYS
        for key in current.candidates(kid):
            try:
                claims = jwt.decode(token, key.key, algorithms=list(key.algorithms), options=_OPTIONS)
            except (jwt.PyJWTError, ValueError, TypeError):
                continue
            wrong = self._wrong(claims, current.issuer)
            if wrong:
                return rejected(wrong)
            self._remember(token, _Verified(claims, self._until(claims), current))
            return claims
        return rejected("no key of the issuer has signed it")

    def _wrong(self, claims: Claims, issuer: str) -> str:
        now, leeway = self._clock.now(), self._leeway
        if claims.get("iss") != issuer:
            return "it is from another issuer"
        times = {name: claims.get(name) for name in ("exp", "nbf", "iat")}
        if any(value is not None and not _is_number(value) for value in times.values()) or times["exp"] is None:
            return "its times are missing or wrong"
        if times["exp"] + leeway <= now:
            return "it has expired"
        if max(times["nbf"] or 0, times["iat"] or 0) - leeway > now:
            return "it is not valid yet"
        return ""

    def _until(self, claims: Claims) -> float:
        left: float = claims["exp"] + self._leeway - self._clock.now()
        return self._clock.monotonic() + min(_REMEMBER_SECONDS, left)

    def _remember(self, token: str, verified: _Verified) -> None:
        with self._lock:
            if len(self._verified) >= _REMEMBERED:
                self._verified.clear()
            self._verified[token] = verified


class AudienceGuard:
    """The guard of one ingress: the token is meant for it, and a policy lets the sender in with these events."""

    def __init__(self, verifier: TokenVerifier, audience: str, policies: Sequence[Policy]) -> None:
        self._verifier = verifier
        self._audience = audience
        self._policies = policies

    def known(self, authorization: str | None) -> Answer | Claims | None:
        """See `guard.Guard`."""
        token = _bearer(authorization)
        return NO_TOKEN if token is None else self._meant(self._verifier.known(token))

    def verify(self, authorization: str) -> Answer | Claims:
        """See `guard.Guard`."""
        token = _bearer(authorization)
        verdict = NO_TOKEN if token is None else self._meant(self._verifier.verify(token))
        return NO_KEYS if verdict is None else verdict

    def permit(self, claims: Claims, events: Iterable[Event]) -> Answer | None:
        """See `guard.Guard`: every event must be let in by some policy that knows the sender."""
        mine = [policy for policy in self._policies if policy.knows(claims)]
        allowed = all(any(policy.accepts(event.attributes) for policy in mine) for event in events)
        return None if mine and allowed else FORBIDDEN

    def _meant(self, verdict: Answer | Claims | None) -> Answer | Claims | None:
        if verdict is None or isinstance(verdict, Answer):
            return verdict
        audience = verdict.get("aud")
        meant = audience if isinstance(audience, list) else [audience]
        return verdict if self._audience in meant else rejected("it is meant for another audience")


class OidcGatekeeper:
    """Makes the guards of all ingresses; they share the issuer's keys and what has been verified."""

    def __init__(self, config: Issuer, clock: Clock) -> None:
        self._verifier = TokenVerifier(config, clock)

    def guard(self, audience: str, policies: Sequence[Mapping[str, Any]]) -> AudienceGuard:
        """The guard of an ingress. Raises `HeadraceError` for a policy that is not understood."""
        return AudienceGuard(self._verifier, audience, parse_policies(policies))

    def refresh(self) -> None:
        """Renew what is known of the issuer, once it has been asked for; to be called now and then. May wait for the issuer."""
        self._verifier.keys.refresh()


def _bearer(authorization: str | None) -> str | None:
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token and len(token) <= _LONGEST else None


def _kid(token: str) -> str | Answer | None:
    try:
        kid = jwt.get_unverified_header(token).get("kid")
    except (jwt.PyJWTError, ValueError, TypeError):
        return rejected("it is no signed JSON Web Token")
    return kid if kid is None or isinstance(kid, str) else rejected("it is no signed JSON Web Token")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
