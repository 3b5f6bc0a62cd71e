"""The matrices of Knative's own conformance features, against a running system: dead letters, routing, redelivery, chains, sizes."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from headrace.core.events.model import Event
from headrace.http.sink import Answer
from tests.support.system import Inbox, Json, Producer, System, broker, new_name, trigger
from tests.support.waiting import eventually

QUICK = {"backoffPolicy": "linear", "backoffDelay": "PT0.02S"}


def failing_first(count: int) -> Callable[[str, Event], Answer]:
    """Refuses the first `count` attempts of each event."""
    seen: dict[str, int] = defaultdict(int)

    def handler(path: str, event: Event) -> Answer:
        seen[event.attributes["id"]] += 1
        return Answer(500 if seen[event.attributes["id"]] <= count else 202)

    return handler


def delivery(inbox: Inbox, spec: Json | None, sink: str) -> dict[str, Any]:
    if spec is None:
        return {}
    wanted = {name: value for name, value in spec.items() if name != "sink"}
    return {"delivery": {**QUICK, **wanted, **({"deadLetterSink": {"uri": inbox.url(sink)}} if spec.get("sink") else {})}}


NO_RETRY: Json = {"retry": 0}
DLQ = {
    "dlq-test-0": (None, (None, 0), (None, 0), {"t0": 1, "t1": 1}),
    "dlq-test-1": ({"sink": 1, "retry": 3}, (None, 3), (None, 4), {"t0": 4, "t1": 4, "broker-dead": 1}),
    "dlq-test-2": (NO_RETRY, ({"sink": 1, "retry": 3}, 3), ({"retry": 1}, 2), {"t0": 4, "t1": 2}),
    "dlq-test-3": ({"sink": 1, "retry": 1}, ({"sink": 1, "retry": 3}, 3), (None, 2), {"t0": 4, "t1": 2, "broker-dead": 1}),
    "dlq-test-4": (
        {"sink": 1, "retry": 1},
        ({"sink": 1, "retry": 3}, 4),
        (None, 2),
        {"t0": 4, "t1": 2, "t0-dead": 1, "broker-dead": 1},
    ),
}


@pytest.mark.spec("CP-E2", "CP-E6", "CP-X4", "CP-X7", "DP-10", "DP-16")
@pytest.mark.parametrize("case", list(DLQ))
def test_the_dead_letter_matrix(system: System, inbox: Inbox, case: str) -> None:
    on_broker, (first, first_fails), (second, second_fails), wanted = DLQ[case]
    name = new_name(case)
    inbox.behave("t0", failing_first(first_fails))
    inbox.behave("t1", failing_first(second_fails))
    system.apply(
        broker(name, **delivery(inbox, on_broker, "broker-dead")),
        trigger(f"{name}-0", name, inbox.url("t0"), **delivery(inbox, first, "t0-dead")),
        trigger(f"{name}-1", name, inbox.url("t1"), **delivery(inbox, second, "t1-dead")),
    )
    producer = Producer(system.address(f"broker/{name}"))
    assert producer.send(id="it") == 202
    paths = ("t0", "t1", "t0-dead", "t1-dead", "broker-dead")

    def counts() -> dict[str, int]:
        return {path: len(inbox.events(path)) for path in paths if inbox.events(path)}

    eventually(lambda: counts() == wanted, 60, f"attempts {wanted}")
    # A second event that all take ends the wait for what must not come.
    inbox.behave("t0", lambda path, event: Answer())
    inbox.behave("t1", lambda path, event: Answer())
    assert producer.send(id="last") == 202
    producer.close()
    eventually(lambda: "last" in inbox.ids("t0") and "last" in inbox.ids("t1"), 60)
    assert counts() == {**wanted, "t0": wanted["t0"] + 1, "t1": wanted["t1"] + 1}


@pytest.mark.spec("CP-R3", "CP-R4", "CP-R7", "CP-B4", "CP-E4", "DP-21")
def test_the_routing_matrix(system: System, inbox: Inbox) -> None:
    name = new_name("routing")
    filters: dict[str, Json] = {
        "all-0": {},
        "none": {"filter": {"attributes": {"type": "other"}}},
        "match-0": {"filter": {"attributes": {"type": "asked"}}},
        "match-1": {"filter": {"attributes": {"type": "asked", "source": "/test"}}},
        "replied": {"filter": {"attributes": {"type": "answered"}}},
        "all-1": {},
    }
    inbox.behave("match-0", lambda path, event: Answer(200, Event({**event.attributes, "type": "answered", "id": "2"}, b"{}")))
    made = [trigger(f"{name}-{path}", name, inbox.url(path), **spec) for path, spec in filters.items()]
    system.apply(broker(name), *made)
    producer = Producer(system.address(f"broker/{name}"))
    assert producer.send(id="1", type="asked") == 202
    producer.close()
    wanted = {"all-0": ["1", "2"], "none": [], "match-0": ["1"], "match-1": ["1"], "replied": ["2"], "all-1": ["1", "2"]}
    eventually(lambda: {path: sorted(inbox.ids(path)) for path in filters} == wanted, 60, f"routes {wanted}")


@pytest.mark.spec("CP-E2", "DP-10", "CP-X8")
@pytest.mark.parametrize("refused", [{1, 2, 3, 5, 8, 13}, {1, 2, 3}])
def test_redelivery_until_the_subscriber_takes_it(system: System, inbox: Inbox, refused: set[int]) -> None:
    """Fibonacci: requests 1, 2, 3, 5, 8, 13 fail; drop-n: the first three do. Every event arrives once."""
    name = new_name("redelivery")
    taken: list[str] = []
    requests = [0]

    def handler(path: str, event: Event) -> Answer:
        requests[0] += 1
        if requests[0] in refused:
            return Answer(500)
        taken.append(event.attributes["id"])
        return Answer()

    inbox.behave("shaky", handler)
    system.apply(broker(name), trigger(name, name, inbox.url("shaky"), delivery={"retry": 5, **QUICK}))
    producer = Producer(system.address(f"broker/{name}"))
    ids = [str(number) for number in range(10)]
    for event_id in ids:
        assert producer.send(id=event_id) == 202
    producer.close()
    eventually(lambda: sorted(taken) == ids, 60, "each event is taken")
    assert len(inbox.ids("shaky")) == 10 + len(refused)


@pytest.mark.spec("CP-R5", "CP-R6")
@pytest.mark.parametrize("size", [36_864, 900_000])
def test_long_messages_and_long_replies_pass_unchanged(system: System, inbox: Inbox, size: int) -> None:
    name = new_name("long")
    data = bytes(range(256)) * (size // 256)
    inbox.behave("asks", lambda path, event: Answer(200, Event({**event.attributes, "type": "answer"}, event.data)))
    system.apply(
        broker(name),
        trigger(f"{name}-a", name, inbox.url("asks"), filter={"attributes": {"type": "question"}}),
        trigger(f"{name}-b", name, inbox.url("hears"), filter={"attributes": {"type": "answer"}}),
    )
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/long", "ce-type": "question", "content-type": "text/plain"}
    sent = httpx.post(system.address(f"broker/{name}"), content=data, headers=headers, timeout=30)
    assert sent.status_code == 202
    eventually(lambda: inbox.ids("hears") == ["1"], 60)
    assert inbox.events("asks")[0].data == data
    assert inbox.events("hears")[0].data == data


@pytest.mark.spec("CP-D1", "CP-D5", "CP-R11", "CP-C4")
def test_a_chain_of_channels_carries_every_event_to_its_end(system: System, inbox: Inbox) -> None:
    name = new_name("chain")
    length = 5
    channels = [
        {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "metadata": {"name": f"{name}-{number}"}}
        for number in range(length)
    ]

    def link(number: int) -> Json:
        reference = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel"}
        last = number == length - 1
        subscriber = {"uri": inbox.url("end")} if last else {"ref": {**reference, "name": f"{name}-{number + 1}"}}
        return {
            "apiVersion": "messaging.knative.dev/v1",
            "kind": "Subscription",
            "metadata": {"name": f"{name}-{number}"},
            "spec": {"channel": {**reference, "name": f"{name}-{number}"}, "subscriber": subscriber},
        }

    system.apply(*channels, *map(link, range(length)))
    producer = Producer(system.address(f"kafkachannel/{name}-0"))
    ids = [str(number) for number in range(10)]
    for event_id in ids:
        assert producer.send(id=event_id) == 202
    producer.close()
    eventually(lambda: inbox.ids("end") == ids, 90, "all come through in order")


@pytest.mark.spec("CP-E6", "DP-11")
def test_the_reason_of_a_dead_letter_is_cut_at_1024_bytes(system: System, inbox: Inbox) -> None:
    name = new_name("cut")
    page = "<html>" + "x" * 3000 + "</html>"
    body = Event(
        {"specversion": "1.0", "id": "e", "source": "/e", "type": "error", "datacontenttype": "text/html"}, page.encode()
    )
    inbox.behave("refuses", lambda path, event: Answer(422, body))
    dead = {"deadLetterSink": {"uri": inbox.url("dead")}, "retry": 3, **QUICK}
    system.apply(broker(name), trigger(name, name, inbox.url("refuses"), delivery=dead))
    producer = Producer(system.address(f"broker/{name}"))
    assert producer.send(id="1") == 202
    producer.close()
    eventually(lambda: inbox.ids("dead") == ["1"], 60)
    attributes = inbox.events("dead")[0].attributes
    assert attributes["knativeerrorcode"] == "422"
    assert attributes["knativeerrordest"] == inbox.url("refuses")
    assert base64.b64decode(attributes["knativeerrordata"]) == page.encode()[:1024]
    assert inbox.ids("refuses") == ["1"]
