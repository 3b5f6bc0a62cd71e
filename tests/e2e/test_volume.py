"""Many events, counted: each that was accepted reaches each Trigger that wants it, once, in order where order was asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.burst import send_all
from tests.support.system import Inbox, System, broker, new_name, trigger
from tests.support.waiting import eventually

EVENTS = int(os.environ.get("HEADRACE_TEST_EVENTS", "100000"))
TRIGGERS = 10
KEYS = 200
CONNECTIONS = 25
ORDERED = {"kafka.eventing.knative.dev/delivery.order": "ordered"}


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_each_of_many_events_reaches_each_trigger_that_matches_once_and_in_order_per_key(system: System, inbox: Inbox) -> None:
    name = new_name("volume")
    system.apply(
        broker(name),
        *(
            trigger(
                f"{name}-{number}",
                name,
                inbox.url(str(number)),
                filter={"attributes": {"type": f"kind.{number}"}},
                # Half of them in order, half not.
                annotations=ORDERED if number % 2 else {},
            )
            for number in range(TRIGGERS)
        ),
    )

    def kind(number: int) -> int:
        return (number // KEYS) % TRIGGERS

    def events(connection: int) -> Iterator[dict[str, str]]:
        """Those of the keys that this connection sends, so that each key's are sent one after the other."""
        for number in range(EVENTS):
            if number % KEYS % CONNECTIONS != connection:
                continue
            yield {
                "id": f"{number:07}",
                "source": "/test",
                "type": f"kind.{kind(number)}",
                "partitionkey": f"key-{number % KEYS}",
            }

    accepted = set(send_all(system.address(f"broker/{name}"), [events(one) for one in range(CONNECTIONS)]))
    assert len(accepted) == EVENTS
    wanted = {str(which): {event_id for event_id in accepted if kind(int(event_id)) == which} for which in range(TRIGGERS)}
    for path, ids in wanted.items():
        eventually(lambda path=path, ids=ids: len(inbox.ids(path)) >= len(ids), 900, f"{len(ids)} at {path}", interval=0.5)  # type: ignore[misc]
        got = inbox.ids(path)
        assert len(got) == len(ids), "none repeated"
        assert set(got) == ids, "none lost, none of others"
        if int(path) % 2:
            for key in range(KEYS):
                mine = [event_id for event_id in got if int(event_id) % KEYS == key]
                assert mine == sorted(mine), f"order of key-{key} at {path}"
