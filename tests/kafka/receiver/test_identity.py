"""Ingresses that ask for identity, by real HTTP (reference A2, step 5)."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from headrace.kafka.settings import KafkaSettings
from headrace.receiver import Issuer
from tests.conftest import TopicFactory
from tests.kafka.receiver.conftest import Benches
from tests.kafka.receiver.harness import EVENT, Bench, read_all, resource, structured
from tests.support.issuer import IssuerServer, issuer
from tests.support.waiting import eventually

POLICY = {
    "tokenMatchers": [{"exact": {"attributes": {"sub": "system:serviceaccount:ns:sender"}}}],
    "filters": [{"prefix": {"attributes": {"type": "test."}}}],
}


@pytest.fixture
def oidc() -> Iterator[IssuerServer]:
    with issuer() as made:
        yield made


@pytest.fixture
def name(topic: TopicFactory) -> str:
    return topic()


@pytest.fixture
def bench(receivers: Benches, kafka: KafkaSettings, name: str, oidc: IssuerServer) -> Bench:
    guarded = resource(kafka, name, ingress_audience="here", ingress_event_policies=(POLICY,))
    return receivers(issuer=Issuer(oidc.url)).start(guarded, resource(kafka, name, "/open"))


def test_only_a_known_sender_with_an_event_that_it_may_send_is_let_in(
    bench: Bench, oidc: IssuerServer, kafka: KafkaSettings, name: str
) -> None:
    def send(token: str | None, **attributes: str) -> int:
        shown = {} if token is None else {"authorization": f"Bearer {token}"}
        return bench.send(headers=EVENT | attributes | shown).status

    sender = oidc.token("here", sub="system:serviceaccount:ns:sender")
    assert send(None) == 401
    assert send("garbage") == 401
    assert send(oidc.token("there", sub="system:serviceaccount:ns:sender")) == 401
    assert send(oidc.token("here", sub="system:serviceaccount:ns:other")) == 403
    assert send(sender, **{"ce-type": "other"}) == 403
    assert send(sender, **{"ce-id": ""}) == 400
    assert read_all(kafka, name) == []
    assert [send(sender) for _ in range(3)] == [202] * 3
    assert len(read_all(kafka, name)) == 3


def test_a_refusal_says_how_to_do_better(bench: Bench) -> None:
    answer = bench.send()
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "Authorization" in answer.text


def test_structured_events_and_batches_pass_the_same_door(bench: Bench, oidc: IssuerServer) -> None:
    shown = {"authorization": f"Bearer {oidc.token('here', sub='system:serviceaccount:ns:sender')}"}
    one = {"content-type": "application/cloudevents+json"} | shown
    many = {"content-type": "application/cloudevents-batch+json"} | shown
    assert bench.send(body=structured(), headers=one).status == 202
    assert bench.send(body=structured(type="other"), headers=one).status == 403
    assert bench.send(body=b"[" + structured() + b"," + structured(type="other") + b"]", headers=many).status == 403
    assert bench.send(body=b"[" + structured() + b"," + structured() + b"]", headers=many).status == 202


def test_an_ingress_without_audience_asks_nobody(bench: Bench, oidc: IssuerServer) -> None:
    assert bench.send("/open").status == 202
    assert oidc.requests == []


def test_an_issuer_that_does_not_answer_keeps_nobody_else_waiting(
    receivers: Benches, kafka: KafkaSettings, name: str, oidc: IssuerServer
) -> None:
    silent = threading.Event()
    page, oidc.page = oidc.page, lambda path: (silent.wait(20), page(path))[1]  # type: ignore[method-assign]
    guarded = resource(kafka, name, ingress_audience="here", ingress_event_policies=(POLICY,))
    bench = receivers(issuer=Issuer(oidc.url)).start(guarded, resource(kafka, name, "/open"))
    shown = {"authorization": f"Bearer {oidc.token('here', sub='system:serviceaccount:ns:sender')}"}
    statuses: list[int] = []
    waiting = [threading.Thread(target=lambda: statuses.append(bench.send(headers=EVENT | shown).status)) for _ in range(10)]
    for thread in waiting:
        thread.start()
    eventually(lambda: oidc.requests, what="the issuer is asked")
    assert bench.send("/open").status == 202
    assert statuses == []
    silent.set()
    for thread in waiting:
        thread.join()
    # Whether the issuer was in time depends on this machine; nobody was turned away for good.
    assert set(statuses) <= {202, 503}
    eventually(lambda: bench.send(headers=EVENT | shown).status == 202, what="the keys are there")
