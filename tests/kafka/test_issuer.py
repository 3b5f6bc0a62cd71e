"""A controller's tokens as a receiver sees them: discovered, verified, refused once they are for somebody else."""

from __future__ import annotations

import httpx

from headrace.base.clock import SystemClock
from headrace.http.tokens import Identity, TokenClient, TokenServer
from headrace.receiver.answers import Answer
from headrace.receiver.config import Issuer
from headrace.receiver.identity import OidcGatekeeper
from tests.support.controllers import RunningController

TOKEN = "/api/v1/namespaces/ns/serviceaccounts/me/token"


def test_a_receiver_takes_a_token_that_was_asked_for_its_audience_and_no_other(controller: RunningController) -> None:
    tokens = TokenClient(TokenServer(controller.url), SystemClock())
    gatekeeper = OidcGatekeeper(Issuer(controller.url), SystemClock())
    token = tokens.fetch(Identity("ns", "me", "here"))
    claims = gatekeeper.guard("here", ()).verify(f"Bearer {token.value}")
    assert not isinstance(claims, Answer)
    assert claims["sub"] == "system:serviceaccount:ns:me"
    refused = gatekeeper.guard("there", ()).verify(f"Bearer {token.value}")
    assert isinstance(refused, Answer)
    assert refused.status == 401


def test_an_answer_with_a_token_is_not_to_be_stored(http: httpx.Client) -> None:
    answer = http.post(TOKEN, json={"spec": {"audiences": ["a"]}})
    assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")


def test_a_request_that_is_refused_says_which_field_is_wrong(http: httpx.Client) -> None:
    answer = http.post(TOKEN, json={"spec": {"audiences": []}})
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    assert answer.json()["details"]["causes"][0]["field"] == "spec.audiences"
    assert http.get(TOKEN).status_code == 405


def test_a_web_page_gets_no_token(http: httpx.Client) -> None:
    answer = http.post(TOKEN, json={"spec": {"audiences": ["a"]}}, headers={"origin": "https://page.example"})
    assert answer.status_code == 403
