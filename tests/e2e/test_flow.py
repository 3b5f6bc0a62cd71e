"""Events flow from a producer to every subscriber that wants them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.events.model import Event
from headrace.http.sink import Answer
from tests.support.system import Inbox, Json, Producer, System, broker, new_name, trigger
from tests.support.waiting import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "01-broker-and-triggers"


def arrived(inbox: Inbox, path: str, ids: list[str], seconds: float = 60) -> None:
    """Wait until exactly these came to `path`, each once."""
    eventually(lambda: set(inbox.ids(path)) >= set(ids), seconds, f"{path} gets {len(ids)} events")
    assert sorted(inbox.ids(path)) == sorted(ids)


def test_the_first_example_works_as_its_readme_says(system: System, inbox: Inbox, tmp_path: Path) -> None:
    for manifest in EXAMPLE.glob("*.yaml"):
        (tmp_path / manifest.name).write_text(manifest.read_text().replace("http://127.0.0.1:9000", inbox.url("").rstrip("/")))
    applied = system.cli("apply", "-f", str(tmp_path), "--wait", "--timeout", "180s", timeout=200)
    assert applied.returncode == 0, applied.stderr
    assert applied.stdout.splitlines() == [
        "broker/shop created",
        "trigger/everything created",
        "trigger/orders created",
        "trigger/europe created",
    ]
    again = system.cli("apply", "-f", str(tmp_path))
    assert [line.split()[1] for line in again.stdout.splitlines()] == ["unchanged"] * 4
    sent = system.cli(
        "send", "broker/shop", "-t", "com.example.order.placed", "-s", "/shops/eu/paris", "-d", '{"item": "hat"}', "--id", "1"
    )
    assert sent.returncode == 0, sent.stderr
    assert (
        system.cli(
            "send", "broker/shop", "-t", "com.example.payment.received", "-s", "/shops/us/boston", "--id", "2"
        ).returncode
        == 0
    )
    arrived(inbox, "everything", ["1", "2"])
    arrived(inbox, "orders", ["1"])
    arrived(inbox, "europe", ["1"])
    event = inbox.events("orders")[0]
    assert event.data == b'{"item": "hat"}'
    assert event.attributes["datacontenttype"] == "application/json"
    shown = system.cli("get", "triggers").stdout
    assert shown.splitlines()[0].split()[:3] == ["NAME", "BROKER", "SUBSCRIBER_URI"]
    assert shown.count("True") == 3
    described = system.cli("describe", "trigger/europe").stdout
    assert "SubscriberResolved" in described
    assert "PARTITION" in described
    tailed = system.cli("tail", "broker/shop", "--from-beginning", "--count", "2", "--json")
    assert tailed.returncode == 0, tailed.stderr
    assert len(tailed.stdout.splitlines()) == 2
    deleted = system.cli("delete", "-f", str(tmp_path), "--timeout", "180s", timeout=200)
    assert deleted.returncode == 0, deleted.stderr
    assert "No brokers, eventpolicies" in system.cli("get", "all").stderr


def test_an_event_sent_right_after_ready_is_delivered_100_times_of_100(system: System, inbox: Inbox) -> None:
    name = new_name("prompt")
    system.apply(broker(name))
    producer = Producer(system.address(f"broker/{name}"))
    for number in range(100):
        kind = f"kind.{number}"
        own = trigger(f"{name}-{number}", name, inbox.url(str(number)), filter={"attributes": {"type": kind}})
        system.apply(own)
        assert producer.send(type=kind, id=str(number)) == 202
    producer.close()
    for number in range(100):
        arrived(inbox, str(number), [str(number)])


def test_a_reply_goes_through_the_broker_to_who_wants_it(system: System, inbox: Inbox) -> None:
    name = new_name("reply")

    def upper(path: str, event: Event) -> Answer:
        return Answer(200, Event({**event.attributes, "type": "answer", "id": f"re-{event.attributes['id']}"}, b"{}"))

    inbox.behave("asks", upper)
    system.apply(
        broker(name),
        trigger(f"{name}-asks", name, inbox.url("asks"), filter={"attributes": {"type": "question"}}),
        trigger(f"{name}-hears", name, inbox.url("hears"), filter={"attributes": {"type": "answer"}}),
    )
    producer = Producer(system.address(f"broker/{name}"))
    for number in range(10):
        assert producer.send(type="question", id=str(number)) == 202
    producer.close()
    arrived(inbox, "hears", [f"re-{number}" for number in range(10)])
    arrived(inbox, "asks", [str(number) for number in range(10)])


def test_what_cannot_be_delivered_goes_to_the_dead_letter_sink_with_the_reason(system: System, inbox: Inbox) -> None:
    name = new_name("dead")
    inbox.behave("fails", lambda path, event: Answer(500))
    system.apply(
        broker(name),
        trigger(
            f"{name}-t",
            name,
            inbox.url("fails"),
            delivery={
                "retry": 2,
                "backoffPolicy": "linear",
                "backoffDelay": "PT0.05S",
                "deadLetterSink": {"uri": inbox.url("dead")},
            },
        ),
    )
    producer = Producer(system.address(f"broker/{name}"))
    producer.send(id="lost")
    producer.close()
    arrived(inbox, "dead", ["lost"])
    assert inbox.counts("fails") == {"lost": 3}
    attributes = inbox.events("dead")[0].attributes
    assert attributes["knativeerrorcode"] == "500"
    assert attributes["knativeerrordest"] == inbox.url("fails")


def test_a_channel_gives_every_event_to_every_subscription_and_sends_replies_on(system: System, inbox: Inbox) -> None:
    name = new_name("channel")

    def answer(path: str, event: Event) -> Answer:
        return Answer(200, Event({**event.attributes, "id": f"re-{event.attributes['id']}"}, event.data))

    inbox.behave("first", answer)
    channel = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "metadata": {"name": name}}

    def subscription(which: str, **spec: Json) -> Json:
        reference = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": name}
        full = {"channel": reference, "subscriber": {"uri": inbox.url(which)}, **spec}
        return {
            "apiVersion": "messaging.knative.dev/v1",
            "kind": "Subscription",
            "metadata": {"name": f"{name}-{which}"},
            "spec": full,
        }

    system.apply(channel, subscription("first", reply={"uri": inbox.url("replies")}), subscription("second"))
    producer = Producer(system.address(f"channel/{name}"))
    ids = [str(number) for number in range(20)]
    for event_id in ids:
        assert producer.send(id=event_id) == 202
    producer.close()
    arrived(inbox, "first", ids)
    arrived(inbox, "second", ids)
    arrived(inbox, "replies", [f"re-{event_id}" for event_id in ids])
    # One partition, and channels are ordered.
    assert inbox.ids("second") == ids


def test_a_broker_can_be_the_subscriber_of_a_trigger(system: System, inbox: Inbox) -> None:
    first, second = new_name("first"), new_name("second")
    reference = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": second}
    chained = trigger(f"{first}-t", first, "")
    chained["spec"]["subscriber"] = {"ref": reference}
    system.apply(broker(first), broker(second), chained, trigger(f"{second}-t", second, inbox.url("end")))
    producer = Producer(system.address(f"broker/{first}"))
    assert producer.send(id="through") == 202
    producer.close()
    arrived(inbox, "end", ["through"])


@pytest.mark.slow
def test_a_subscriber_that_fails_for_a_while_loses_nothing(system: System, inbox: Inbox) -> None:
    name = new_name("flaky")
    failing = [True]
    inbox.behave("flaky", lambda path, event: Answer(500 if failing[0] else 202))
    delivery = {"retry": 200, "backoffPolicy": "linear", "backoffDelay": "PT0.02S"}
    system.apply(
        broker(name),
        trigger(f"{name}-f", name, inbox.url("flaky"), delivery=delivery),
        trigger(f"{name}-w", name, inbox.url("well")),
    )
    producer = Producer(system.address(f"broker/{name}"))
    for number in range(50):
        producer.send(id=str(number))
    producer.close()
    # The other one does not notice.
    arrived(inbox, "well", [str(number) for number in range(50)])
    failing[0] = False
    eventually(lambda: len(inbox.counts("flaky")) == 50, 90)
