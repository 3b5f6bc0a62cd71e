"""The small issuer: a key that lasts, tokens that a receiver takes, requests that it can't fulfil."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jwt
import pytest
from jwt import PyJWK

from headrace.base.clock import VirtualClock
from headrace.base.errors import Terminal
from headrace.standalone.failures import Failure
from headrace.standalone.issuer import TokenIssuer

URL = "http://127.0.0.1:1"


def issuer(file: Path | None = None) -> TokenIssuer:
    return TokenIssuer(file, lambda: URL, VirtualClock())


def request(**spec: Any) -> dict[str, Any]:
    return {"spec": {"audiences": ["a"], **spec}}


def claims(by: TokenIssuer, token: str) -> dict[str, Any]:
    """What the token says, its signature checked with the keys that are shown."""
    key = PyJWK.from_dict(by.keys()["keys"][0])
    assert jwt.get_unverified_header(token)["kid"] == key.key_id
    options: Any = {"verify_exp": False, "verify_aud": False, "verify_iat": False, "verify_nbf": False}
    return dict(jwt.decode(token, key.key, algorithms=["RS256"], options=options))


def test_a_token_is_signed_by_the_key_that_is_shown_and_says_whose_it_is() -> None:
    made = issuer()
    answer = made.answer("ns", "someone", request(expirationSeconds=60))
    found = claims(made, answer["status"]["token"])
    assert (found["iss"], found["sub"], found["aud"]) == (made.discovery()["issuer"], "system:serviceaccount:ns:someone", ["a"])
    assert found["exp"] - found["iat"] == 60
    assert answer["status"]["expirationTimestamp"] == "2023-11-14T22:14:20Z"


def test_only_the_public_half_of_the_key_is_shown() -> None:
    assert issuer().keys()["keys"][0].keys() == {"kty", "n", "e", "kid", "use", "alg"}


def test_the_key_is_kept_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "data" / "issuer.pem"
    token = issuer(file).answer("ns", "a", request())["status"]["token"]
    assert file.stat().st_mode & 0o777 == 0o600
    again = issuer(file)
    assert claims(again, token)["sub"] == "system:serviceaccount:ns:a"


def test_a_key_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    file = tmp_path / "issuer.pem"
    issuer(file).keys()
    os.chmod(file, 0o644)
    issuer(file).keys()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_that_holds_no_key_is_named(tmp_path: Path) -> None:
    file = tmp_path / "issuer.pem"
    file.write_text("nothing")
    with pytest.raises(Terminal, match=r"issuer.pem: holds no RSA key"):
        issuer(file).keys()


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"audiences": []}, "spec.audiences"),
        ({"audiences": "a"}, "spec.audiences"),
        ({"audiences": [""]}, "spec.audiences"),
        ({"audiences": [1]}, "spec.audiences"),
        ({"audiences": None}, "spec.audiences"),
        ({"expirationSeconds": 0}, "spec.expirationSeconds"),
        ({"expirationSeconds": True}, "spec.expirationSeconds"),
        ({"expirationSeconds": "60"}, "spec.expirationSeconds"),
        ({"expirationSeconds": 86_401}, "spec.expirationSeconds"),
    ],
)
def test_a_request_that_can_not_be_fulfilled_is_refused_with_its_field(spec: dict[str, Any], named: str) -> None:
    with pytest.raises(Failure, match=named) as refused:
        issuer().answer("ns", "a", request(**spec))
    assert refused.value.code == 422


@pytest.mark.parametrize(("namespace", "name"), [("NS", "a"), ("ns", "a:b"), ("ns", "A"), ("a.b", "a")])
def test_a_subject_that_is_no_service_account_is_refused(namespace: str, name: str) -> None:
    with pytest.raises(Failure, match="can't be a ServiceAccount"):
        issuer().answer(namespace, name, request())


def test_a_request_without_a_spec_is_refused() -> None:
    with pytest.raises(Failure, match=r"spec\.audiences"):
        issuer().answer("ns", "a", {})
