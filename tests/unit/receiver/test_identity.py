"""Tokens and policies: who is let in, who gets 401, who 403, and what the issuer is asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from headrace.base.clock import VirtualClock
from headrace.base.errors import Terminal
from headrace.core.events.model import Event
from headrace.receiver.answers import Answer
from headrace.receiver.config import Issuer
from headrace.receiver.identity import AudienceGuard, OidcGatekeeper
from tests.support.issuer import IssuerServer, issuer

OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
"""A key that is not the issuer's, unless a test makes it so."""
ANYBODY = {"tokenMatchers": [{"prefix": {"attributes": {"sub": ""}}}]}


@pytest.fixture
def oidc() -> Iterator[IssuerServer]:
    with issuer() as made:
        yield made


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(start=time.time())


@pytest.fixture
def gatekeeper(oidc: IssuerServer, clock: VirtualClock) -> OidcGatekeeper:
    return OidcGatekeeper(Issuer(oidc.url), clock)


@pytest.fixture
def guard(gatekeeper: OidcGatekeeper) -> AudienceGuard:
    return gatekeeper.guard("here", [ANYBODY])


def verdict(guard: AudienceGuard, token: str) -> int:
    """The status of a refusal, 0 for a token that is taken."""
    shown = f"Bearer {token}"
    found = guard.known(shown)
    if found is None:
        found = guard.verify(shown)
    return found.status if isinstance(found, Answer) else 0


def test_a_token_for_this_audience_is_taken(guard: AudienceGuard, oidc: IssuerServer) -> None:
    assert verdict(guard, oidc.token("here")) == 0
    assert verdict(guard, oidc.token(["there", "here"])) == 0


@pytest.mark.parametrize(
    "claims",
    [
        {"audience": "there"},
        {"audience": []},
        {"audience": None},
        {"audience": "here", "iss": "http://other"},
        {"audience": "here", "iss": None},
        {"audience": "here", "exp": None},
        {"audience": "here", "exp": "tomorrow"},
        {"audience": "here", "exp": True},
        {"audience": "here", "exp": 1e300},
        {"audience": "here", "nbf": 9_000_000_000},
        {"audience": "here", "iat": 9_000_000_000},
    ],
)
def test_a_token_with_other_claims_is_not(guard: AudienceGuard, oidc: IssuerServer, claims: dict[str, Any]) -> None:
    assert verdict(guard, oidc.token(claims.pop("audience"), **claims)) == 401


@pytest.mark.parametrize(
    "shown", [None, "", "Bearer", "Bearer ", "Basic abc", "Bearer a.b", "Bearer a.b.c", "Bearer " + "x" * 20_000]
)
def test_what_is_no_token_is_answered_401_without_asking_the_issuer(
    guard: AudienceGuard, oidc: IssuerServer, shown: str | None
) -> None:
    found = guard.known(shown)
    assert isinstance(found, Answer)
    assert found.status == 401
    assert ("www-authenticate", "Bearer") in found.lines or any("Bearer" in value for _, value in found.lines)
    assert oidc.requests == []


def test_signatures_of_others_and_weak_ones_are_not_taken(guard: AudienceGuard, oidc: IssuerServer) -> None:
    assert verdict(guard, oidc.token("here", key=OTHER)) == 401
    assert verdict(guard, oidc.token("here", key="", algorithm="none")) == 401
    secret = "x" * 64
    assert verdict(guard, oidc.token("here", key=secret, algorithm="HS256")) == 401
    good = oidc.token("here")
    head, claims, signature = good.split(".")
    assert verdict(guard, f"{head}.{claims}.{signature[:-4]}AAAA") == 401
    assert verdict(guard, f"{head}.{claims[:-4]}AAAA.{signature}") == 401


def test_keys_of_elliptic_curves_and_tokens_without_kid_are_taken(guard: AudienceGuard, oidc: IssuerServer) -> None:
    oidc.keys["ec"] = ec.generate_private_key(ec.SECP256R1())
    assert verdict(guard, oidc.token("here", kid="ec", algorithm="ES256")) == 0
    assert verdict(guard, oidc.token("here", kid=None, key=oidc.keys["ec"], algorithm="ES256")) == 0


def test_a_token_expires_also_when_it_has_been_seen_before(
    guard: AudienceGuard, oidc: IssuerServer, clock: VirtualClock
) -> None:
    token = oidc.token("here")
    assert verdict(guard, token) == 0
    clock.advance(320)
    assert verdict(guard, token) == 0, "the clocks may differ by 30 s"
    clock.advance(20)
    assert verdict(guard, token) == 401


def test_keys_are_fetched_once_and_again_when_they_are_old(
    guard: AudienceGuard, gatekeeper: OidcGatekeeper, oidc: IssuerServer, clock: VirtualClock
) -> None:
    gatekeeper.refresh()
    assert oidc.requests == [], "nobody has shown a token yet"
    for _ in range(5):
        assert verdict(guard, oidc.token("here", jti=str(clock.now()))) == 0
    clock.advance(299)
    gatekeeper.refresh()
    assert len(oidc.requests) == 2
    clock.advance(1)
    for _ in range(5):
        gatekeeper.refresh()
    assert len(oidc.requests) == 4


def test_an_unknown_key_makes_the_keys_be_fetched_but_not_too_often(
    guard: AudienceGuard, oidc: IssuerServer, clock: VirtualClock
) -> None:
    assert verdict(guard, oidc.token("here")) == 0
    clock.advance(10)
    oidc.keys["new"] = OTHER
    assert verdict(guard, oidc.token("here", kid="new")) == 0
    asked = len(oidc.requests)
    for number in range(20):
        assert verdict(guard, oidc.token("here", kid=f"made-up-{number}", key=oidc.keys["rsa"])) == 401
    assert len(oidc.requests) == asked
    clock.advance(10)
    assert verdict(guard, oidc.token("here", kid="made-up", key=oidc.keys["rsa"])) == 401
    assert len(oidc.requests) == asked + 2


def test_a_key_that_the_issuer_has_withdrawn_is_not_taken_any_more(
    guard: AudienceGuard, gatekeeper: OidcGatekeeper, oidc: IssuerServer, clock: VirtualClock
) -> None:
    token = oidc.token("here", exp=int(clock.now()) + 3000)
    assert verdict(guard, token) == 0
    oidc.keys = {"new": OTHER}
    clock.advance(310)
    gatekeeper.refresh()
    assert verdict(guard, token) == 401


def test_an_issuer_that_is_away_leaves_its_keys_in_force(
    guard: AudienceGuard, gatekeeper: OidcGatekeeper, oidc: IssuerServer, clock: VirtualClock
) -> None:
    token = oidc.token("here", exp=int(clock.now()) + 3000)
    assert verdict(guard, token) == 0
    oidc.answering = False
    clock.advance(400)
    gatekeeper.refresh()
    assert verdict(guard, token) == 0


def test_an_issuer_that_never_answered_is_no_reason_to_blame_the_sender(guard: AudienceGuard, oidc: IssuerServer) -> None:
    oidc.answering = False
    assert verdict(guard, oidc.token("here")) == 503


def test_the_issuers_name_is_the_one_that_discovery_gives(oidc: IssuerServer, clock: VirtualClock) -> None:
    oidc.named = "https://kubernetes.default.svc.cluster.local"
    guard = OidcGatekeeper(Issuer(f"{oidc.url}/"), clock).guard("here", [ANYBODY])
    assert verdict(guard, oidc.token("here")) == 0
    assert verdict(guard, oidc.token("here", iss=oidc.url)) == 401


def test_the_issuer_is_shown_our_token(oidc: IssuerServer, clock: VirtualClock, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    guard = OidcGatekeeper(Issuer(oidc.url, token_file=file), clock).guard("here", [ANYBODY])
    assert verdict(guard, oidc.token("here")) == 0
    assert {shown for _, shown in oidc.requests} == {"Bearer secret"}


def event(**attributes: str) -> Event:
    return Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"} | attributes, None)


@pytest.mark.parametrize(
    ("policies", "claims", "allowed"),
    [
        ([], {"sub": "a"}, False),
        ([{}], {"sub": "a"}, False),
        ([{"tokenMatchers": []}], {"sub": "a"}, False),
        ([{"tokenMatchers": [{"exact": {"attributes": {"sub": "a"}}}]}], {"sub": "a"}, True),
        ([{"tokenMatchers": [{"exact": {"attributes": {"sub": "a"}}}]}], {"sub": "ab"}, False),
        ([{"tokenMatchers": [{"prefix": {"attributes": {"sub": "a"}}}]}], {"sub": "ab"}, True),
        ([{"tokenMatchers": [{"prefix": {"attributes": {"sub": "b"}}}]}], {"sub": "ab"}, False),
        ([{"tokenMatchers": [{"prefix": {"attributes": {"sub": ""}}}]}], {}, False),
        ([{"tokenMatchers": [{"exact": {"attributes": {"sub": "a", "team": "x"}}}]}], {"sub": "a"}, False),
        ([{"tokenMatchers": [{"exact": {"attributes": {"sub": "a", "team": "x"}}}]}], {"sub": "a", "team": "x"}, True),
        ([{"tokenMatchers": [{"exact": {"attributes": {"groups": "y"}}}]}], {"groups": ["x", "y"]}, True),
        ([{"tokenMatchers": [{"exact": {"attributes": {"k8s.ns": "y"}}}]}], {"k8s": {"ns": "y"}}, True),
        ([{"tokenMatchers": [{"exact": {"attributes": {"admin": "true"}}}]}], {"admin": True}, True),
        ([ANYBODY | {"filters": [{"exact": {"attributes": {"type": "t"}}}]}], {"sub": "a"}, True),
        ([ANYBODY | {"filters": [{"exact": {"attributes": {"type": "u"}}}]}], {"sub": "a"}, False),
        (
            [ANYBODY | {"filters": [{"prefix": {"attributes": {"type": "t"}}}, {"cesql": {"expression": "FALSE"}}]}],
            {"sub": "a"},
            False,
        ),
        ([{"tokenMatchers": [{"exact": {"attributes": {"sub": "b"}}}]}, ANYBODY], {"sub": "a"}, True),
    ],
)
def test_a_sender_needs_a_policy_that_knows_it_and_takes_its_event(
    oidc: IssuerServer, clock: VirtualClock, policies: list[dict[str, Any]], claims: dict[str, Any], allowed: bool
) -> None:
    guard = OidcGatekeeper(Issuer(oidc.url), clock).guard("here", policies)
    refusal = guard.permit(claims, [event()])
    assert (refusal is None) is allowed
    assert refusal is None or refusal.status == 403


def test_every_event_of_a_batch_needs_a_policy(oidc: IssuerServer, clock: VirtualClock) -> None:
    only = [ANYBODY | {"filters": [{"exact": {"attributes": {"type": kind}}}]} for kind in ("a", "b")]
    guard = OidcGatekeeper(Issuer(oidc.url), clock).guard("here", only)
    assert guard.permit({"sub": "x"}, [event(type="a"), event(type="b")]) is None
    assert guard.permit({"sub": "x"}, [event(type="a"), event(type="c")]) is not None


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ({"tokenMatchers": {}}, "tokenMatchers"),
        ({"tokenMatchers": [{}]}, "exact, prefix"),
        ({"tokenMatchers": [{"suffix": {}}]}, "suffix"),
        ({"tokenMatchers": [{"exact": {"attributes": {}}}]}, "claims"),
        ({"tokenMatchers": [{"exact": {"attributes": {"sub": 1}}}]}, "claims"),
        ({"tokenMatchers": [{"exact": {"attributes": {"sub": "a"}}, "prefix": {"attributes": {"sub": "a"}}}]}, "one of"),
        ({"filters": [{"unknown": {}}]}, "filters"),
        ({"something": []}, "something"),
    ],
)
def test_a_policy_that_is_not_understood_is_refused(
    oidc: IssuerServer, clock: VirtualClock, policy: dict[str, Any], named: str
) -> None:
    with pytest.raises(Terminal, match=named):
        OidcGatekeeper(Issuer(oidc.url), clock).guard("here", [policy])


def test_nothing_of_a_token_is_in_an_answer(guard: AudienceGuard, oidc: IssuerServer) -> None:
    for token in (oidc.token("there", sub="somebody"), "garbage-token", oidc.token("here", exp=1)):
        found = guard.verify(f"Bearer {token}")
        assert isinstance(found, Answer)
        assert token not in found.text
        assert "somebody" not in found.text
