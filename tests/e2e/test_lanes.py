"""Lanes by hand: held, watched, and their dead letters sent again."""

from __future__ import annotations

import json

from headrace.http.sink import Answer
from tests.support.system import Inbox, Json, Producer, System, broker, new_name, trigger
from tests.support.waiting import eventually


def row(system: System, name: str) -> Json:
    shown = system.cli("top", f"trigger/{name}", "-o", "json")
    assert shown.returncode == 0, shown.stderr
    (one,) = json.loads(shown.stdout)
    found: Json = one
    return found


def states(system: System, name: str) -> set[str]:
    return set(row(system, name)["states"])


def test_a_paused_trigger_waits_and_a_resumed_one_misses_nothing(system: System, inbox: Inbox) -> None:
    name = new_name("held")
    system.apply(broker(name), trigger(name, name, inbox.url("held")), trigger(f"{name}-free", name, inbox.url("free")))
    paused = system.cli("pause", f"trigger/{name}")
    assert (paused.returncode, paused.stdout) == (0, f"trigger/{name} paused\n")
    eventually(lambda: states(system, name) == {"PAUSED"}, 120, "every partition is paused", interval=0.5)
    producer = Producer(system.address(f"broker/{name}"))
    ids = [str(number) for number in range(20)]
    for event_id in ids:
        assert producer.send(id=event_id) == 202
    producer.close()
    eventually(lambda: sorted(inbox.ids("free")) == sorted(ids), 60, "the other one gets all")
    assert inbox.ids("held") == []
    eventually(lambda: row(system, name)["lag"] == 20, 30, "top shows what waits")
    assert system.cli("resume", f"trigger/{name}").returncode == 0
    eventually(lambda: sorted(inbox.ids("held")) == sorted(ids), 60, "what waited is delivered")
    eventually(lambda: row(system, name)["lag"] == 0, 30)
    assert row(system, name)["delivered"] == 20


def test_top_shows_every_lane_in_one_reading(system: System, inbox: Inbox) -> None:
    name = new_name("seen")
    system.apply(broker(name), trigger(name, name, inbox.url("seen")))
    shown = system.cli("top", "--once")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[0].split()[:3] == ["NAME", "TOPIC", "STATE"]
    assert f"default/trigger/{name}" in shown.stdout
    refused = system.cli("top", f"broker/{name}")
    assert (refused.returncode, "expected trigger/NAME" in refused.stderr) == (2, True)


def test_a_replay_delivers_the_past_once_more_and_leaves_the_position_alone(system: System, inbox: Inbox) -> None:
    name = new_name("again")
    system.apply(
        broker(name),
        trigger(name, name, inbox.url("again"), filter={"attributes": {"type": "wanted"}}),
        trigger(f"{name}-other", name, inbox.url("other")),
    )
    producer = Producer(system.address(f"broker/{name}"))
    for number in range(10):
        assert producer.send(id=str(number), type="wanted" if number % 2 else "unwanted") == 202
    eventually(lambda: len(inbox.ids("again")) == 5 and len(inbox.ids("other")) == 10, 60)
    replayed = system.cli("replay", f"trigger/{name}", "--from", "earliest", timeout=240)
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout.startswith(f"trigger/{name} replayed from earliest to 0:")
    assert inbox.counts("again") == {str(number): 2 for number in range(1, 10, 2)}
    assert producer.send(id="new", type="wanted") == 202
    producer.close()
    eventually(lambda: "new" in inbox.ids("again"), 60)
    assert inbox.counts("again")["new"] == 1
    eventually(lambda: len(inbox.ids("other")) == 11, 60, "the other one got nothing twice")
    assert "replay" not in system.cli("get", "triggers").stdout


def test_a_replay_without_a_sensible_range_is_refused(system: System, inbox: Inbox) -> None:
    name = new_name("norange")
    system.apply(broker(name), trigger(name, name, inbox.url("x")))
    for options, message in (
        (("--from", "latest"), "nothing to replay"),
        (("--from", "yesterday"), "expected latest, earliest, a time"),
        (("--from", "earliest", "--to", "0:x"), "expected latest, earliest, a time"),
        (("--from", "earliest", "--to", "earliest"), "expected a time"),
    ):
        refused = system.cli("replay", f"trigger/{name}", *options)
        assert (refused.returncode, message in refused.stderr) == (2, True), refused.stderr


def test_dead_letters_are_listed_shown_and_sent_again(system: System, inbox: Inbox) -> None:
    name = new_name("letters")
    failing = [True]
    inbox.behave("sick", lambda path, event: Answer(422 if failing[0] else 202))
    box = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "metadata": {"name": f"{name}-box"}}
    sink = {"ref": {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "name": f"{name}-box"}}
    system.apply(box, broker(name), trigger(name, name, inbox.url("sick"), delivery={"deadLetterSink": sink}))
    producer = Producer(system.address(f"broker/{name}"))
    for number in range(3):
        assert producer.send(id=str(number), subject="one") == 202
    producer.close()
    lane = f"trigger/{name}"

    def listed() -> list[Json]:
        shown = system.cli("deadletters", "list", lane, "-o", "json")
        assert shown.returncode == 0, shown.stderr
        found: list[Json] = json.loads(shown.stdout)
        return found

    eventually(lambda: len(listed()) == 3, 60, "three dead letters")
    assert [(one["attributes"]["id"], one["code"]) for one in listed()] == [("0", "422"), ("1", "422"), ("2", "422")]
    shown = system.cli("deadletters", "show", lane, "1")
    assert shown.returncode == 0, shown.stderr
    assert "knativeerrorcode" in shown.stdout
    refused = system.cli("deadletters", "redrive", lane)
    assert (refused.returncode, "answered 422" in refused.stdout) == (1, True)
    failing[0] = False
    again = system.cli("deadletters", "redrive", lane)
    assert (again.returncode, again.stdout) == (0, f"redriven 3 events to {inbox.url('sick')}\n")
    assert "knativeerrorcode" not in inbox.events("sick")[-1].attributes
    once_more = system.cli("deadletters", "redrive", lane)
    assert once_more.stdout.startswith("redriven 0 events")
    missing = system.cli("deadletters", "show", lane, "nowhere")
    assert (missing.returncode, "no dead letter nowhere" in missing.stderr) == (1, True)


def test_dead_letters_of_a_trigger_without_a_sink_of_ours_are_refused_with_what_to_do(system: System, inbox: Inbox) -> None:
    name = new_name("nosink")
    system.apply(broker(name), trigger(name, name, inbox.url("x")))
    refused = system.cli("deadletters", "list", f"trigger/{name}")
    assert refused.returncode == 1
    assert "has no dead letter sink. Set spec.delivery.deadLetterSink.ref" in refused.stderr
