"""Words of the command line against the types that a controller serves; a fake transport stands for the controller."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli.selection import duration, select, state_of
from headrace.standalone import discovery
from headrace.standalone.client import Client, Refused


def answer(request: httpx.Request) -> httpx.Response:
    path = request.url.path
    if path == "/apis":
        return httpx.Response(200, json=discovery.group_list())
    if path == "/api/v1":
        return httpx.Response(200, json=discovery.resource_list("", "v1"))
    if path.startswith("/apis/"):
        _, _, group, version = path.split("/")
        return httpx.Response(200, json=discovery.resource_list(group, version))
    return httpx.Response(404, text="not ours")


@pytest.fixture
def client() -> Client:
    return Client("http://controller", httpx.MockTransport(answer))


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["trigger"], [("Trigger", "")]),
        (["Triggers", "a", "b"], [("Trigger", "a"), ("Trigger", "b")]),
        (["trigger/a", "broker/b"], [("Trigger", "a"), ("Broker", "b")]),
        (["kc"], [("KafkaChannel", "")]),
        (["sub,ch"], [("Subscription", ""), ("Channel", "")]),
        (["cm/settings"], [("ConfigMap", "settings")]),
        (["triggers.eventing.knative.dev"], [("Trigger", "")]),
        (["channel"], [("Channel", "")]),
    ],
)
def test_types_are_known_by_name_plural_short_name_and_group(
    client: Client, words: list[str], wanted: list[tuple[str, str]]
) -> None:
    assert [(one.kind.kind, one.name) for one in select(client, words, "default")] == wanted


def test_all_stands_for_every_kind_of_ours(client: Client) -> None:
    kinds = {one.kind.kind for one in select(client, ["all"], "default")}
    assert {"Broker", "Trigger", "KafkaChannel", "Channel", "Subscription"} <= kinds
    assert "Secret" not in kinds


def test_of_two_versions_the_preferred_one_is_used(client: Client) -> None:
    assert select(client, ["kafkachannel"], "default")[0].kind.version == "v1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tigger"], "Did you mean trigger"),
        (["xyzzy"], "The types are .*broker"),
        (["trigger/a", "b"], "expected TYPE/NAME"),
        (["trigger/"], "expected TYPE/NAME"),
        ([], "which type"),
    ],
)
def test_a_word_that_is_no_type_is_a_usage_error(client: Client, words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        select(client, words, "default")


def test_a_name_in_all_namespaces_is_a_usage_error(client: Client) -> None:
    with pytest.raises(UsageError, match="needs a namespace"):
        select(client, ["trigger", "a"], None)


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("2m", 120), ("1h30m", 5400), ("45", 45), ("1.5s", 1.5), ("0s", 0)])
def test_durations_are_read(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "2d", "m30", "-1s", "soon"])
def test_other_durations_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError, match="expected a duration"):
        duration(text)


def ready(status: str, generation: int = 1, **more: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": status, **more}]
    return {"metadata": {"generation": 1}, "status": {"observedGeneration": generation, "conditions": conditions}}


def test_ready_counts_for_the_generation_that_is_there() -> None:
    assert state_of(ready("True"), "Ready") == (True, "")
    assert state_of(ready("True", generation=0), "Ready") == (False, "not looked at yet")
    assert state_of({"metadata": {"generation": 1}}, "Ready") == (False, "not looked at yet")
    why = state_of(ready("False", reason="BrokerNotReady", message="broker/x is not ready"), "Ready")
    assert why == (False, "Ready is False: BrokerNotReady, broker/x is not ready")


def test_a_server_that_is_something_else_is_told() -> None:
    stranger = Client("http://web", httpx.MockTransport(lambda request: httpx.Response(200, text="<html>")))
    with pytest.raises(HeadraceError, match="not a Headrace controller"):
        stranger.types()
    missing = Client("http://web", httpx.MockTransport(lambda request: httpx.Response(404, text="<html>")))
    with pytest.raises(HeadraceError, match="not a Headrace controller"):
        missing.types()


def test_a_server_that_does_not_answer_is_told_with_what_to_do() -> None:
    with pytest.raises(HeadraceError, match=r"no controller answers.*headrace up.*--server"):
        Client("http://127.0.0.1:1").types()
    with pytest.raises(HeadraceError, match="not a URL"):
        Client("nonsense").types()


def test_a_refusal_keeps_code_and_reason() -> None:
    body = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "changed"}
    client = Client("http://c", httpx.MockTransport(lambda request: httpx.Response(409, json=body)))
    with pytest.raises(Refused) as refused:
        client.types()
    assert (refused.value.code, refused.value.reason, str(refused.value)) == (409, "Conflict", "changed")
