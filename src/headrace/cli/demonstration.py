"""What `headrace demo` does: a system of its own, the first example, events, and a ledger of who got what."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from headrace.base import log, signals
from headrace.base.classarchive import RECORDING_SECONDS
from headrace.base.clock import Deadline
from headrace.base.errors import Terminal
from headrace.cli.applying import applied, check, plan
from headrace.cli.ledger import Ledger
from headrace.cli.manifests import Document, read_all
from headrace.cli.output import console, print_table
from headrace.cli.selection import Selected, select, wait_ready
from headrace.core.events.http import encode_binary, split_line
from headrace.core.events.model import Event
from headrace.http.sink import Answer, EventSink
from headrace.standalone.client import Client
from headrace.standalone.datadir import DataDir, RunState
from headrace.standalone.process import Child, Launch, last_lines

EXAMPLE = Path(__file__).parents[3] / "examples" / "01-broker-and-triggers"
EXAMPLE_SINK = "http://127.0.0.1:9000"
_START_SECONDS = 300.0
_STOP_SECONDS = 40.0 + 2 * RECORDING_SECONDS
_READY_SECONDS = 90.0
_ARRIVAL_SECONDS = 60.0
_SETTLE_SECONDS = 1.0
_SHOWN = 12

KINDS = (
    # type, source, the subscribers of the example that have to get it
    ("com.example.order.placed", "/shops/eu/paris", ("everything", "orders", "europe")),
    ("com.example.order.placed", "/shops/us/boston", ("everything", "orders")),
    ("com.example.payment.received", "/shops/eu/paris", ("everything", "europe")),
    ("com.example.payment.received", "/shops/us/boston", ("everything",)),
    ("com.example.shop.opened", "/shops/eu/paris", ("everything",)),
)


class Demonstration:
    """One run of the demo."""

    def __init__(self, events: int, rate: float, java: str | None) -> None:
        self._events = events
        self._rate = rate
        self._java = java
        self._ledger = Ledger()
        self._shown = 0
        self._out = console()
        self._stop = threading.Event()
        self._interruptions = 0

    def run(self, *, leave: bool) -> None:
        """Raises `Terminal` when something did not start, or not every event arrived exactly once."""
        log.configure(level="ERROR")
        signals.act_on(signals.STOPPING, lambda number: self._stop.set(), self._interrupted)
        with tempfile.TemporaryDirectory(prefix="headrace-demo-") as name:
            folder = DataDir(Path(name))
            with self._system(folder) as run, self._subscriber() as sink:
                self._apply(run, sink.url)
                address = self._broker_address(run)
                self._title(f"Sending {self._events} events to {address}")
                asyncio.run(self._send(address))
                self._wait()
                self._report()
                bad = [tally.subscriber for tally in self._ledger.tallies() if not tally.exact]
                if not leave:
                    self._what_next(folder)
                    self._stop.wait()
        if bad:
            raise Terminal("did not get every event exactly once", subject=", ".join(bad))

    @contextmanager
    def _system(self, folder: DataDir) -> Iterator[RunState]:
        """A `headrace up` of our own on free ports, until the end."""
        self._title("Starting Kafka, controller, receiver and dispatcher (the first time, jars are fetched)")
        out = folder.path / "up.log"
        options = ("--java", self._java) if self._java else ()
        child = Child(
            Launch((sys.executable, "-m", "headrace", "up", "--free-ports", "--data-dir", str(folder.path), *options)), out
        )
        start = time.monotonic()
        try:
            run = self._running(folder, child, out)
            print_table(
                ("Part", "State", "Address"), [(p.name, p.state, p.address or p.operations) for p in run.parts.values()]
            )
            self._out.print(f"ready after {time.monotonic() - start:.1f} s", markup=False)
            yield run
        finally:
            self._out.print("stopping (the first time takes longer: Java's classes are kept, to start quicker)", markup=False)
            end = Deadline(_STOP_SECONDS)
            child.stop(lambda: end.expired)

    def _running(self, folder: DataDir, child: Child, out: Path) -> RunState:
        deadline = Deadline(_START_SECONDS)
        while not self._stop.wait(0.1):
            run = folder.read_run()
            if run is not None and run.state == "RUNNING":
                return run
            if child.exit_status() is not None or deadline.expired:
                raise Terminal("did not start:\n" + "\n".join(last_lines(out, 40)), subject="headrace up")
        raise KeyboardInterrupt

    @contextmanager
    def _subscriber(self) -> Iterator[EventSink]:
        sink = EventSink(self._take)
        sink.start()
        try:
            yield sink
        finally:
            sink.close()

    def _take(self, path: str, event: Event) -> Answer:
        subscriber = path.strip("/")
        latency = self._ledger.arrived(event.attributes["id"], subscriber, time.monotonic())
        if self._shown < _SHOWN:
            self._shown += 1
            took = f"{latency:6.1f} ms" if latency is not None else ""
            self._out.print(
                f"  {subscriber:<11} got {event.attributes['type']:<29} from {event.attributes['source']:<17} {took}",
                markup=False,
            )
        return Answer()

    def _apply(self, run: RunState, sink_url: str) -> None:
        if not EXAMPLE.is_dir():
            raise Terminal(
                "the examples are not there", subject=str(EXAMPLE), hint="Run the demo from a clone of the repository"
            )
        documents = [
            Document(document.origin, _replaced(document.body, EXAMPLE_SINK, sink_url)) for document in read_all([str(EXAMPLE)])
        ]
        self._title("Applying examples/01-broker-and-triggers")
        with Client(run.address("controller")) as client:
            changes = plan(client, documents, "default")
            for subject, error in check(client, changes):
                raise Terminal(error.message, subject=subject)
            selected: list[Selected] = [applied(client, change).selected for change in changes]
            start = time.monotonic()
            wait_ready(client, selected, _READY_SECONDS)
            self._out.print(
                f"{', '.join(one.word for one in selected)}: Ready after {time.monotonic() - start:.1f} s", markup=False
            )

    def _broker_address(self, run: RunState) -> str:
        with Client(run.address("controller")) as client:
            return str(select(client, ["broker/shop"], "default")[0].fetch(client)["status"]["address"]["url"])

    async def _send(self, address: str) -> None:
        start = time.monotonic()
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=False) as client:
            running: set[asyncio.Task[None]] = set()
            for number in range(self._events):
                await asyncio.sleep(max(0.0, start + number / self._rate - time.monotonic()))
                if self._stop.is_set():
                    break
                task = asyncio.create_task(self._send_one(client, address, number))
                running.add(task)
                task.add_done_callback(running.discard)
            await asyncio.gather(*running)

    async def _send_one(self, client: httpx.AsyncClient, address: str, number: int) -> None:
        kind, source, subscribers = KINDS[number % len(KINDS)]
        event_id = str(uuid.uuid4())
        attributes = {
            "specversion": "1.0",
            "id": event_id,
            "type": kind,
            "source": source,
            "datacontenttype": "application/json",
        }
        lines, body = encode_binary(Event(attributes, b'{"number": %d}' % number))
        headers = [pair for pair in map(split_line, lines) if pair is not None]
        self._ledger.sent(event_id, subscribers, time.monotonic())
        response = await client.post(address, content=body, headers=headers)
        if response.status_code != 202:
            raise Terminal(f"answered {response.status_code}: {response.text[:300]}", subject=address)

    def _wait(self) -> None:
        """Until everything arrived, and a moment more, to see what arrives twice."""
        deadline = Deadline(_ARRIVAL_SECONDS)
        while self._ledger.outstanding() and not deadline.expired and not self._stop.wait(0.05):
            pass
        self._stop.wait(_SETTLE_SECONDS)

    def _report(self) -> None:
        self._title("What each subscriber got")
        rows = [
            (t.subscriber, t.expected, t.received, t.repeated, t.unexpected, round(t.p50_ms, 1), round(t.p99_ms, 1))
            for t in self._ledger.tallies()
        ]
        print_table(("Subscriber", "Expected", "Received", "Repeated", "Unexpected", "p50 ms", "p99 ms"), rows)
        self._out.print(f"latency from sending to arrival, at {self._rate:g} events per second", markup=False)

    def _what_next(self, folder: DataDir) -> None:
        self._title("Still running. In another terminal try")
        place = f"--data-dir {folder.path}"
        command = Path(sys.executable).with_name("headrace")
        for line in (
            f"get triggers {place}",
            f"describe trigger/europe {place}",
            f"tail broker/shop {place}",
            f'send broker/shop -t com.example.order.placed -s /shops/eu/rome -d \'{{"item": "hat"}}\' {place}',
        ):
            self._out.print(f"  {command} {line}", markup=False)
        self._out.print("Ctrl-C stops everything.", markup=False)
        # From here on every event is shown.
        self._shown = -sys.maxsize

    def _title(self, text: str) -> None:
        self._out.print(f"\n{text}", style="bold", markup=False)

    def _interrupted(self, number: int, frame: object) -> None:
        self._interruptions += 1
        if self._interruptions > 1:
            raise KeyboardInterrupt


def _replaced(value: Any, old: str, new: str) -> Any:
    """A JSON value with one text in the place of another in all of its strings."""
    if isinstance(value, dict):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    return value.replace(old, new) if isinstance(value, str) else value
