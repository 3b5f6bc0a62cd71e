"""Authentication switched on, with the issuer of `headrace up`: who may send, and what subscribers are shown."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import httpx
import pytest

from headrace.base.clock import SystemClock
from headrace.receiver.answers import Answer as Refusal
from headrace.receiver.config import Issuer
from headrace.receiver.identity import OidcGatekeeper
from tests.support.subscriber import Request, subscriber
from tests.support.system import System, broker, trigger
from tests.support.waiting import eventually

AUDIENCE = "https://them.example"
EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("guarded")
    env = {"HEADRACE_IDENTITY_AUTHENTICATION": "true", "HEADRACE_CONTROLLER_PARTITIONS": "1"}
    running = System(folder / "data", env=env).start()
    yield running
    running.stop()
    shutil.rmtree(folder, ignore_errors=True)


def post(address: str, token: str | None, **attributes: str) -> int:
    headers = EVENT | {f"ce-{name}": value for name, value in attributes.items()}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    return httpx.post(address, headers=headers, content=b"{}", timeout=30, trust_env=False).status_code


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_tokens_open_ingresses_and_are_shown_to_subscribers_all_along_the_way(guarded: System) -> None:
    guard = OidcGatekeeper(Issuer(guarded.run.address("controller")), SystemClock()).guard(AUDIENCE, ())
    got: list[tuple[str, object]] = []
    shown: list[str] = []

    def take(request: Request) -> int:
        header = request.headers.get("authorization", "")
        shown.append(header.removeprefix("Bearer "))
        claims = guard.verify(header)
        got.append((request.id, claims if isinstance(claims, Refusal) else claims["sub"]))
        return 202

    def token(audience: str, *words: str) -> str:
        made = guarded.cli("token", "--audience", audience, *words)
        assert made.returncode == 0, made.stderr
        shown.append(made.stdout.strip())
        return shown[-1]

    with subscriber(take) as sink:
        onwards = {"ref": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "second"}}
        guarded.apply(
            broker("first"),
            broker("second"),
            trigger("between", "first", "", subscriber=onwards),
            trigger("last", "second", "", subscriber={"uri": sink.url(), "audience": AUDIENCE}),
        )
        address = guarded.get("broker/first")["status"]["address"]
        assert address["audience"] == "eventing.knative.dev/broker/default/first"
        seen = guarded.get("trigger/between")["status"]
        assert seen["subscriberAudience"] == "eventing.knative.dev/broker/default/second"
        assert seen["auth"]["serviceAccountName"] == "between-oidc-eventing.knative.dev-trigger"

        url, audience = address["url"], address["audience"]
        stranger = "system:serviceaccount:elsewhere:me"
        assert post(url, None, id="nobody") == 401
        assert post(url, "x.y.z", id="junk") == 401
        assert post(url, token("another"), id="another") == 401
        assert post(url, token(audience, "--subject", stranger), id="stranger") == 403
        assert post(url, token(audience), id="let-in") == 202

        eventually(lambda: got, 120, "the event came through both Brokers")
        assert guarded.cli("send", "broker/second", "--id", "by-hand").returncode == 0
        eventually(lambda: len(got) == 2, 60)
        as_stranger = guarded.cli("send", "broker/second", "--id", "stranger", "--as", stranger)
        assert (as_stranger.returncode, "403" in as_stranger.stderr) == (1, True)
        account = "system:serviceaccount:default:last-oidc-eventing.knative.dev-trigger"
        assert got == [("let-in", account), ("by-hand", account)]
    _nothing_of_a_token_was_told(guarded, shown)


def _nothing_of_a_token_was_told(system: System, tokens: list[str]) -> None:
    with system.client() as client:
        told = json.dumps(client.figures()) + json.dumps(system.get("trigger/last")) + json.dumps(system.get("trigger/between"))
    told += "".join(log.read_text(errors="replace") for log in (system.folder.path / "logs").glob("*.log"))
    assert len(told) > 1000
    for token in filter(None, tokens):
        assert token.rpartition(".")[2] not in told


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dead_letters_get_into_a_guarded_broker_and_from_there_to_their_subscriber(guarded: System) -> None:
    guard = OidcGatekeeper(Issuer(guarded.run.address("controller")), SystemClock()).guard(AUDIENCE, ())
    answers = [400, 202]
    verdicts: list[object] = []

    def take(request: Request) -> int:
        claims = guard.verify(request.headers.get("authorization", ""))
        verdicts.append(claims.status if isinstance(claims, Refusal) else claims["sub"])
        return answers.pop(0)

    with subscriber(take) as sink:
        letters = {"deadLetterSink": {"ref": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "letters"}}}
        asks = {"uri": sink.url(), "audience": AUDIENCE}
        guarded.apply(broker("sick"), broker("letters"), trigger("sick", "sick", "", subscriber=asks, delivery=letters))
        assert guarded.cli("send", "broker/sick", "--id", "bitter").returncode == 0
        eventually(lambda: "bitter" in guarded.cli("deadletters", "list", "trigger/sick").stdout, 120, "it is a dead letter")
        redriven = guarded.cli("deadletters", "redrive", "trigger/sick")
        assert (redriven.returncode, redriven.stdout) == (0, f"redriven 1 events to {sink.url()}\n")
    assert verdicts == ["system:serviceaccount:default:sick-oidc-eventing.knative.dev-trigger"] * 2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_token_is_printed_as_asked_and_a_wrong_request_says_what_is_wrong(guarded: System) -> None:
    made = guarded.cli("token", "--audience", "a", "--audience", "b", "--duration", "10m", "-o", "json")
    answer = json.loads(made.stdout)
    assert answer["spec"] == {"audiences": ["a", "b"], "expirationSeconds": 600}
    assert answer["status"]["token"].count(".") == 2
    for words, exit_code, said in (
        (("--audience", "a", "--subject", "me"), 2, "system:serviceaccount:NAMESPACE:NAME"),
        (("--audience", "a", "--duration", "0s"), 2, "at least a second"),
        (("--audience", "a", "--duration", "48h"), 1, "spec.expirationSeconds"),
        (("--audience", ""), 1, "spec.audiences"),
    ):
        refused = guarded.cli("token", *words)
        assert (refused.returncode, refused.stdout) == (exit_code, "")
        assert said in refused.stderr
