"""Where tokens come from, and which egresses can have them."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.base.clock import SystemClock
from headrace.base.errors import Terminal
from headrace.core.contract import Egress, EgressConfig, Reference, Resource
from headrace.core.resources.timestamps import format_time
from headrace.dispatcher.worker.subscription import subscription_of
from headrace.dispatcher.worker.tokens import FetchThread
from headrace.http.tokens import Identity, Token, TokenServer
from tests.support.subscriber import Answer, Request, Subscriber, subscriber

IN_NS = Resource(reference=Reference(namespace="ns", name="b"))
ME = Identity("ns", "me", "them")
Posted = queue.Queue[Callable[[], None]]


def grant(request: Request) -> Answer:
    """A token that names whom it is for."""
    status = {"token": json.loads(request.body)["spec"]["audiences"][0], "expirationTimestamp": format_time(time.time() + 60)}
    return Answer(201, body=json.dumps({"status": status}).encode())


@pytest.fixture
def server() -> Iterator[Subscriber]:
    with subscriber(grant) as running:
        yield running


@pytest.fixture
def posted() -> Posted:
    """Calls that were handed to the engine's thread."""
    return queue.Queue()


@pytest.fixture
def thread(server: Subscriber, posted: Posted) -> Iterator[FetchThread]:
    made = FetchThread(TokenServer(server.url("")), SystemClock(), posted.put)
    yield made
    made.close()


def test_answers_are_given_on_the_engines_thread(thread: FetchThread, posted: Posted) -> None:
    got: list[tuple[Token | str, int]] = []
    thread.fetch(ME, 0.0, lambda answer: got.append((answer, threading.get_ident())))
    call = posted.get(timeout=20)
    assert not got
    call()
    answer, where = got[0]
    assert isinstance(answer, Token)
    assert (answer.value, where) == ("them", threading.get_ident())


def test_what_is_due_earlier_is_asked_first(thread: FetchThread, posted: Posted, server: Subscriber) -> None:
    got: list[Token | str] = []
    thread.fetch(replace_audience("later"), 3600.0, got.append)
    thread.fetch(replace_audience("now"), 0.0, got.append)
    posted.get(timeout=20)()
    assert [one.value for one in got if isinstance(one, Token)] == ["now"]
    assert len(server.requests) == 1


def test_a_server_that_is_not_there_is_a_reason_and_the_thread_goes_on(posted: Posted) -> None:
    thread = FetchThread(TokenServer("http://127.0.0.1:1"), SystemClock(), posted.put)
    got: list[Token | str] = []
    for _ in range(2):
        thread.fetch(ME, 0.0, got.append)
        posted.get(timeout=20)()
    thread.close()
    assert len(got) == 2
    assert all(isinstance(one, str) and "no answer" in one for one in got)


def test_an_authority_that_can_not_be_read_is_a_reason(posted: Posted, tmp_path: Path) -> None:
    thread = FetchThread(TokenServer("https://127.0.0.1:1", tmp_path / "none"), SystemClock(), posted.put)
    got: list[Token | str] = []
    thread.fetch(ME, 0.0, got.append)
    posted.get(timeout=20)()
    thread.close()
    assert "no authority can be read" in str(got[0])


def replace_audience(audience: str) -> Identity:
    return ME._replace(audience=audience)


FULL = Egress(
    uid="u",
    destination="http://127.0.0.1/",
    destination_audience="a",
    reply_url="http://127.0.0.1/r",
    reply_url_audience="r",
    egress_config=EgressConfig(dead_letter="http://127.0.0.1/d", dead_letter_audience="d"),
    oidc_service_account_name="me",
)


def test_each_address_asks_with_its_own_audience_and_the_egresses_account() -> None:
    made = subscription_of(IN_NS, FULL, tokens=True)
    found = [target.identity for target in (made.subscriber, made.reply, made.dead_letter) if target is not None]
    assert found == [Identity("ns", "me", audience) for audience in ("a", "r", "d")]


def test_the_account_is_in_the_namespace_of_the_egress() -> None:
    made = subscription_of(IN_NS, replace(FULL, reference=Reference(namespace="own", name="t")), tokens=True)
    assert made.subscriber.identity == Identity("own", "me", "a")


@pytest.mark.parametrize(
    ("egress", "field"),
    [
        (replace(FULL, reply_url_audience="", egress_config=EgressConfig()), "destinationAudience"),
        (replace(FULL, destination_audience="", egress_config=EgressConfig()), "replyUrlAudience"),
        (replace(FULL, destination_audience="", reply_url_audience=""), "egressConfig.deadLetterAudience"),
    ],
)
def test_an_audience_without_a_way_to_its_token_closes_the_egress_and_is_named(egress: Egress, field: str) -> None:
    with pytest.raises(Terminal, match=f"ns/b: {field}: .*knows no token server"):
        subscription_of(IN_NS, egress)
    with pytest.raises(Terminal, match=f"ns/b: {field}: .*oidcServiceAccountName"):
        subscription_of(IN_NS, replace(egress, oidc_service_account_name=""), tokens=True)


def test_without_audiences_neither_account_nor_server_is_needed() -> None:
    plain = replace(FULL, destination_audience="", reply_url_audience="", egress_config=EgressConfig())
    assert subscription_of(IN_NS, replace(plain, oidc_service_account_name="")).subscriber.identity is None
