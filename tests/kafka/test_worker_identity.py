"""Subscribers that ask for an audience: what a worker shows them, against a real Kafka and a subscriber that verifies as a receiver does."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from headrace.base.clock import SystemClock
from headrace.core.contract import EgressConfig
from headrace.core.resources.timestamps import format_time
from headrace.http.tokens import TokenServer
from headrace.receiver.answers import Answer as Refusal
from headrace.receiver.config import Issuer
from headrace.receiver.identity import OidcGatekeeper
from tests.support.issuer import IssuerServer, issuer
from tests.support.subscriber import Answer, Request, Subscriber, subscriber
from tests.support.waiting import eventually
from tests.support.workbench import Workbench, egress

THEM = "eventing.knative.dev/broker/ns/them"
ACCOUNT = {"oidc_service_account_name": "lane-oidc"}


@pytest.fixture
def oidc() -> Iterator[IssuerServer]:
    with issuer() as running:
        yield running


class TokenRequests:
    """A Kubernetes API server, as far as tokens go: `answering` False is one that fails. `given` lists its tokens."""

    def __init__(self, oidc: IssuerServer) -> None:
        self._oidc = oidc
        self.answering = True
        self.given: list[str] = []

    def answer(self, request: Request) -> Answer:
        _, _, _, _, namespace, _, account, _ = request.path.split("/")
        if not self.answering:
            return Answer(500, body=b'{"message": "it is down"}')
        audiences = json.loads(request.body)["spec"]["audiences"]
        token = self._oidc.token(audiences, sub=f"system:serviceaccount:{namespace}:{account}")
        self.given.append(token)
        status = {"token": token, "expirationTimestamp": format_time(time.time() + 300)}
        return Answer(201, body=json.dumps({"status": status}).encode())


@pytest.fixture
def requests(oidc: IssuerServer) -> TokenRequests:
    return TokenRequests(oidc)


@pytest.fixture
def server(requests: TokenRequests) -> Iterator[Subscriber]:
    with subscriber(requests.answer) as running:
        yield running


class Door:
    """Answers as an ingress with an audience does; `subjects` lists whom it let in."""

    def __init__(self, oidc: IssuerServer, audience: str, status: int = 202) -> None:
        everybody = {"tokenMatchers": [{"prefix": {"attributes": {"sub": "system:serviceaccount:ns:"}}}]}
        self._guard = OidcGatekeeper(Issuer(oidc.url), SystemClock()).guard(audience, [everybody])
        self._status = status
        self.subjects: list[object] = []

    def answer(self, request: Request) -> int:
        claims = self._guard.verify(request.headers.get("authorization", ""))
        if isinstance(claims, Refusal):
            return claims.status
        self.subjects.append(claims["sub"])
        return self._status


def done(bench: Workbench, low: int) -> None:
    eventually(lambda: "lane" in bench.progress and bench.progress["lane"].progress.low >= low, what=f"progress at {low}")


def test_a_subscriber_that_asks_for_an_audience_lets_the_account_of_the_lane_in(
    bench: Workbench, oidc: IssuerServer, requests: TokenRequests, server: Subscriber
) -> None:
    door = Door(oidc, THEM)
    with subscriber(door.answer) as sink:
        bench.subscribe(egress(sink.url(), destination_audience=THEM, **ACCOUNT))
        worker = bench.start({"lane": 0}, tokens=TokenServer(server.url("")))
        worker.events(200)
        done(bench, 200)
    assert door.subjects == ["system:serviceaccount:ns:lane-oidc"] * 200
    assert len(requests.given) == 1, "one token serves them all"


def test_a_dead_letter_goes_with_a_token_for_its_own_sink(bench: Workbench, oidc: IssuerServer, server: Subscriber) -> None:
    refusing, letters = Door(oidc, THEM, status=400), Door(oidc, "letters")
    with subscriber(refusing.answer) as sink, subscriber(letters.answer) as dead:
        made = egress(sink.url(), destination_audience=THEM, **ACCOUNT)
        config = EgressConfig(dead_letter=dead.url(), dead_letter_audience="letters")
        bench.subscribe(replace(made, egress_config=config))
        worker = bench.start({"lane": 0}, tokens=TokenServer(server.url("")))
        worker.events(1)
        done(bench, 1)
    assert (len(refusing.subjects), len(letters.subjects)) == (1, 1)


@pytest.mark.parametrize("ordered", [True, False])
def test_while_no_token_can_be_had_events_wait_without_an_attempt_and_it_is_told(
    bench: Workbench,
    oidc: IssuerServer,
    requests: TokenRequests,
    server: Subscriber,
    caplog: pytest.LogCaptureFixture,
    ordered: bool,
) -> None:
    door = Door(oidc, THEM)
    requests.answering = False
    with subscriber(door.answer) as sink, subscriber() as plain, caplog.at_level(logging.DEBUG):
        bench.subscribe(egress(sink.url(), ordered=ordered, destination_audience=THEM, **ACCOUNT))
        bench.subscribe(egress(plain.url(), uid="open"))
        worker = bench.start({"lane": 0, "open": 0}, tokens=TokenServer(server.url("")))
        worker.events(100)
        eventually(lambda: "it is down" in blocked(bench), what="the lane says what it waits for")
        eventually(lambda: len(plain.requests) == 100, what="the other lane goes on")
        assert not door.subjects
        requests.answering = True
        done(bench, 100)
        eventually(lambda: not blocked(bench))
        report = bench.report()
    assert len(door.subjects) == 100
    assert report is not None
    assert (report.lanes["lane"].failed, report.lanes["lane"].delivered) == (0, 100)
    assert requests.given
    logged = repr([vars(record) for record in caplog.records])
    assert "it is down" in logged
    assert not any(token in logged for token in requests.given)
    assert not any(token in repr(bench.reports) for token in requests.given)


def test_a_stop_does_not_wait_for_a_token_and_loses_nothing(
    bench: Workbench, oidc: IssuerServer, requests: TokenRequests, server: Subscriber
) -> None:
    door = Door(oidc, THEM)
    requests.answering = False
    with subscriber(door.answer) as sink:
        bench.subscribe(egress(sink.url(), destination_audience=THEM, **ACCOUNT))
        worker = bench.start({"lane": bench.initial("lane")}, tokens=TokenServer(server.url("")))
        worker.events(3)
        eventually(lambda: blocked(bench))
        bench.drain()
        worker.end_input()
        worker.join()
        bench.read_progress()
        assert bench.progress["lane"].progress.low == 0
        requests.answering = True
        again = bench.start({"lane": bench.progress["lane"]}, tokens=TokenServer(server.url("")))
        again.events(3)
        done(bench, 3)
    assert len(door.subjects) == 3


def test_without_a_token_server_the_egress_is_closed_and_the_others_go_on(bench: Workbench, oidc: IssuerServer) -> None:
    with subscriber() as sink:
        bench.subscribe(egress(sink.url("/closed"), destination_audience=THEM, **ACCOUNT))
        bench.subscribe(egress(sink.url("/open"), uid="open"))
        worker = bench.start({"lane": 0, "open": 0})
        worker.events(1)
        eventually(lambda: sink.requests)
        eventually(lambda: (report := bench.report()) is not None and "knows no token server" in report.closed.get("lane", ""))
        assert [request.path for request in sink.requests] == ["/open"]


def blocked(bench: Workbench) -> str:
    """What the lane says that it waits for."""
    report = bench.report()
    return report.lanes["lane"].blocked if report is not None and "lane" in report.lanes else ""
