"""Rules of the specification that only a whole system can show."""

from __future__ import annotations

import httpx
import pytest

from headrace.core.events.model import Event
from headrace.http.sink import Answer
from tests.support.system import Inbox, Json, Producer, System, broker, new_name, trigger
from tests.support.waiting import eventually

QUICK = {"retry": 3, "backoffPolicy": "linear", "backoffDelay": "PT0.02S"}


@pytest.mark.spec("DP-14", "DP-15", "CP-R2", "CP-R4")
def test_what_is_sent_twice_is_delivered_twice_and_what_is_sent_once_is_delivered_once(system: System, inbox: Inbox) -> None:
    name = new_name("twice")
    system.apply(broker(name), trigger(f"{name}-a", name, inbox.url("same")), trigger(f"{name}-b", name, inbox.url("same")))
    producer = Producer(system.address(f"broker/{name}"))
    for event_id in ("double", "single", "double"):
        assert producer.send(id=event_id) == 202
    producer.close()
    eventually(lambda: inbox.counts("same") == {"double": 4, "single": 2}, 60, "two Triggers, each event once per sending")


@pytest.mark.spec("DP-18", "CP-R5")
def test_every_attempt_sends_the_same_event(system: System, inbox: Inbox) -> None:
    name = new_name("attempts")
    answers = iter((500, 500, 202))
    inbox.behave("shaky", lambda path, event: Answer(next(answers)))
    system.apply(broker(name), trigger(name, name, inbox.url("shaky"), delivery=QUICK))
    producer = Producer(system.address(f"broker/{name}"))
    assert producer.send(id="one", subject="s", ext="x") == 202
    producer.close()
    eventually(lambda: len(inbox.events("shaky")) == 3, 60)
    first, second, third = inbox.events("shaky")
    assert first == second == third
    assert first.attributes["ext"] == "x"


def subscription(name: str, uri: str, **more: Json) -> Json:
    reference = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": name}
    return {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "Subscription",
        "metadata": {"name": f"{name}-s"},
        "spec": {"channel": reference, "subscriber": {"uri": uri}, "delivery": QUICK, **more},
    }


def channel(name: str) -> Json:
    return {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "metadata": {"name": name}}


@pytest.mark.spec("DP-23", "CP-S5", "CP-E3")
def test_an_event_that_nobody_asked_for_is_ignored_and_completes_the_delivery(system: System, inbox: Inbox) -> None:
    name = new_name("unasked")
    inbox.behave("talks", lambda path, event: Answer(200, Event({**event.attributes, "id": "answer"}, event.data)))
    system.apply(channel(name), subscription(name, inbox.url("talks")))
    producer = Producer(system.address(f"channel/{name}"))
    for event_id in ("1", "2"):
        assert producer.send(id=event_id) == 202
    producer.close()
    # Channels are ordered: the second comes only when the first is complete.
    eventually(lambda: inbox.ids("talks") == ["1", "2"], 60)


@pytest.mark.spec("CP-E5", "CP-E4", "CP-E6")
def test_a_reply_that_fails_is_retried_by_itself_and_then_the_event_is_undeliverable(system: System, inbox: Inbox) -> None:
    name = new_name("replies")
    inbox.behave("asked", lambda path, event: Answer(200, Event({**event.attributes, "type": "answer"}, event.data)))
    answers = iter((500, 202, 500, 500, 500, 500))
    inbox.behave("heard", lambda path, event: Answer(next(answers)))
    delivery = {**QUICK, "deadLetterSink": {"uri": inbox.url("dead")}}
    system.apply(channel(name), subscription(name, inbox.url("asked"), reply={"uri": inbox.url("heard")}, delivery=delivery))
    producer = Producer(system.address(f"channel/{name}"))
    assert producer.send(id="passes") == 202
    assert producer.send(id="fails") == 202
    producer.close()
    eventually(lambda: inbox.ids("dead") == ["fails"], 60)
    assert inbox.ids("heard") == ["passes"] * 2 + ["fails"] * 4
    assert inbox.ids("asked") == ["passes", "fails"]


@pytest.mark.spec("DP-19")
def test_delivery_shows_in_the_metrics(system: System, inbox: Inbox) -> None:
    name = new_name("counted")
    system.apply(broker(name), trigger(name, name, inbox.url("counted")))
    producer = Producer(system.address(f"broker/{name}"))
    for number in range(7):
        assert producer.send(id=str(number)) == 202
    producer.close()

    def delivered() -> float:
        text = httpx.get(f"{system.part('dispatcher').operations}/metrics").text
        lines = [line for line in text.splitlines() if line.startswith("headrace_events_total{") and f'name="{name}"' in line]
        return sum(float(line.split()[-1]) for line in lines if 'outcome="delivered"' in line)

    eventually(lambda: delivered() == 7.0, 60, "seven deliveries are counted")
    received = httpx.get(f"{system.part('receiver').operations}/metrics").text
    assert f'"{name}"' in received
