"""`sink`: a subscriber for the terminal."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass

from headrace.cli.eventform import print_event
from headrace.cli.output import console, error_console
from headrace.core.events.model import Event, InvalidEvent
from headrace.http.sink import Answer, EventSink


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How to answer: the status (after `fail_first` answers of 500), the type of a reply, seconds to think."""

    status: int = 202
    fail_first: int = 0
    reply: str | None = None
    delay: float = 0.0

    def answer(self, number: int, event: Event) -> Answer:
        """The answer to the request of this number (from 1)."""
        if number <= self.fail_first:
            return Answer(500, after=self.delay)
        if self.reply is None or self.status >= 300:
            return Answer(self.status, after=self.delay)
        attributes = {**event.attributes, "id": str(uuid.uuid4()), "type": self.reply, "source": "/headrace/sink"}
        # A 202 never carries a reply.
        return Answer(200 if self.status == 202 else self.status, Event(attributes, event.data), self.delay)


def run_sink(host: str, port: int, behaviour: Behaviour, *, count: int, as_json: bool, quiet: bool) -> None:
    """Serve until interrupted, or `count` events have come."""
    seen = 0
    enough = threading.Event()

    def handle(path: str, event: Event) -> Answer:
        nonlocal seen
        seen += 1
        answer = behaviour.answer(seen, event)
        if not quiet:
            print_event(event, f"#{seen} {path} -> {answer.status}", as_json=as_json)
        if seen == count:
            enough.set()
        return answer

    def refuse(path: str, error: InvalidEvent) -> None:
        error_console().print(f"not a CloudEvent at {path}: {error}", style="yellow", markup=False)

    server = EventSink(handle, host=host, port=port, on_invalid=refuse)
    server.start()
    (error_console() if as_json else console()).print(f"listening on {server.url} (Ctrl-C ends)", markup=False)
    try:
        enough.wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
        error_console().print(f"{seen} events received", markup=False)
