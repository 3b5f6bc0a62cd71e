"""Tokens from a server that speaks TokenRequest: what is asked, what is taken, what is never told."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.base.clock import SystemClock
from headrace.base.errors import HeadraceError, Retriable
from headrace.core.resources.timestamps import format_time
from headrace.http.tokens import Identity, Token, TokenClient, TokenServer
from tests.support.subscriber import Answer, Subscriber, subscriber

ME = Identity("ns", "me", "them")
SECRET = "secret-of-ours"


def grant(token: str = "abc", seconds: float = 3600) -> Answer:
    status = {"token": token, "expirationTimestamp": format_time(time.time() + seconds)}
    return Answer(201, body=json.dumps({"status": status}).encode())


@pytest.fixture
def server() -> Iterator[Subscriber]:
    with subscriber(grant()) as running:
        yield running


@pytest.fixture
def client(server: Subscriber, tmp_path: Path) -> TokenClient:
    own = tmp_path / "token"
    own.write_text(f"{SECRET}\n")
    return TokenClient(TokenServer(server.url(""), token_file=own), SystemClock())


def test_a_token_request_names_account_and_audience_and_shows_who_asks(client: TokenClient, server: Subscriber) -> None:
    token = client.fetch(ME)
    assert token.value == "abc"
    assert 3590 < token.expires - time.time() <= 3600
    asked = server.requests[0]
    assert asked.path == "/api/v1/namespaces/ns/serviceaccounts/me/token"
    assert asked.headers["authorization"] == f"Bearer {SECRET}"
    assert json.loads(asked.body) == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": ["them"], "expirationSeconds": 3600},
    }


def test_a_refusal_is_told_with_what_the_server_says(client: TokenClient, server: Subscriber) -> None:
    server.answer = Answer(404, body=b'{"message": "serviceaccounts \\"me\\" not found"}')
    with pytest.raises(Retriable, match=r'404.*serviceaccounts "me" not found'):
        client.fetch(ME)


def _answers() -> list[Any]:
    return [
        Answer(201, body=b"no json"),
        Answer(201, body=b"[]"),
        Answer(201, body=b"{}"),
        Answer(201, body=b'{"status": {"token": "abc"}}'),
        Answer(201, body=b'{"status": "abc"}'),
        Answer(403, body=b"\xff"),
        grant(""),
        grant("a\r\nb: c"),
        grant("\u00e9"),
        grant(seconds=-1),
        Answer(201, raw=lambda handler: None),
    ]


@pytest.mark.parametrize("answer", _answers())
def test_an_answer_without_a_usable_token_is_an_error_that_shows_no_token(
    client: TokenClient, server: Subscriber, answer: Answer
) -> None:
    server.answer = answer
    with pytest.raises(HeadraceError) as error:
        client.fetch(ME)
    assert "abc" not in str(error.value)
    assert SECRET not in str(error.value)


def test_our_own_token_does_not_follow_a_redirect(client: TokenClient, server: Subscriber) -> None:
    with subscriber(grant()) as elsewhere:
        server.answer = Answer(307, {"location": elsewhere.url()})
        with pytest.raises(Retriable, match="307"):
            client.fetch(ME)
        assert not elsewhere.requests


@pytest.mark.parametrize("content", [f"{SECRET}\nmore", "", f"{SECRET}\u00e9"])
def test_our_own_token_is_not_told_when_it_can_not_be_used(server: Subscriber, tmp_path: Path, content: str) -> None:
    own = tmp_path / "token"
    own.write_text(content)
    with pytest.raises(HeadraceError, match="holds no bearer token") as error:
        TokenClient(TokenServer(server.url(""), token_file=own), SystemClock()).fetch(ME)
    assert SECRET not in str(error.value)
    assert not server.requests


def test_without_a_server_the_error_names_it(tmp_path: Path) -> None:
    for make in (
        lambda: TokenServer("http://127.0.0.1:1"),
        lambda: TokenServer("http://127.0.0.1:1", token_file=tmp_path / "x"),
    ):
        _refuses(make)


def _refuses(make: Callable[[], TokenServer]) -> None:
    with pytest.raises(Retriable, match=r"^http://127\.0\.0\.1:1/api.*no answer"):
        TokenClient(make(), SystemClock()).fetch(ME)


def test_a_token_is_not_in_its_own_representation() -> None:
    assert "abc" not in repr(Token("abc", 0.0))
    assert "abc" not in str(Token("abc", 0.0))
