"""`headrace up` as a user runs it: a process of its own on a folder of its own, and the command line against it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from headrace.base.classarchive import RECORDING_SECONDS
from headrace.cli.selection import Selected, select, wait_ready
from headrace.core.events.http import encode_binary, split_line
from headrace.core.events.model import Event
from headrace.http.sink import Answer, EventSink, Handler
from headrace.standalone.client import Client
from headrace.standalone.datadir import DataDir, PartState, RunState
from headrace.standalone.process import session_members
from tests.support.waiting import eventually

Json = dict[str, Any]
HEADRACE = (sys.executable, "-m", "headrace")
START_SECONDS = 240.0
PARTS = ("kafka", "controller", "receiver", "dispatcher")


def headrace(
    *words: str,
    data_dir: Path | None = None,
    stdin: str | None = None,
    timeout: float = 120,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """One command to its end."""
    place = {"HEADRACE_DATA_DIR": str(data_dir)} if data_dir else {}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_SERVER")}
    return subprocess.run(
        [*HEADRACE, *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**clean, **place, **(env or {})},
        check=False,
    )


class System:
    """One `headrace up`."""

    def __init__(self, folder: Path, *options: str, env: Mapping[str, str] | None = None) -> None:
        self.folder = DataDir(folder)
        self.output = folder.with_name(f"{folder.name}.out")
        self._options = options
        self._env = env or {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> System:
        """Start it and wait until everything is ready."""
        with self.output.open("ab") as out:
            self._process = subprocess.Popen(
                [*HEADRACE, "up", "--free-ports", "--data-dir", str(self.folder.path), *self._options],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self._env},
                start_new_session=True,
            )
        eventually(self._ready, START_SECONDS, "headrace up is ready", interval=0.2)
        return self

    def stop(self, number: int = signal.SIGINT, seconds: float = 60 + 2 * RECORDING_SECONDS) -> int:
        """Stop it as Ctrl-C does; its exit status."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)
        status = self._process.wait(seconds)
        self._process = None
        return status

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def run(self) -> RunState:
        """What `run.json` says now."""
        found = self.folder.read_run()
        assert found is not None
        return found

    def part(self, name: str) -> PartState:
        return self.run.parts[name]

    def pids(self, name: str) -> list[int]:
        """All processes of a part."""
        return session_members(self.part(name).pid)

    def cli(self, *words: str, stdin: str | None = None, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """One command on this system's folder."""
        return headrace(*words, data_dir=self.folder.path, stdin=stdin, timeout=timeout)

    def client(self) -> Client:
        """The REST API."""
        return Client(self.run.address("controller"))

    def apply(self, *objects: Json, seconds: float = 180) -> None:
        """Create objects and wait until they are Ready."""
        with self.client() as client:
            types = {(one.api_version, one.kind): one for one in client.types()}
            made = []
            for obj in objects:
                kind = types[obj["apiVersion"], obj["kind"]]
                namespace = obj["metadata"].get("namespace", "default")
                client.create(kind, namespace, obj)
                if kind.has_status:
                    made.append(Selected(kind, namespace, obj["metadata"]["name"]))
            wait_ready(client, made, seconds)

    def tidy(self) -> None:
        """Delete all Brokers, Triggers, channels and Subscriptions: what runs for them would slow down the tests to come."""
        with self.client() as client:
            types = [one for one in client.types() if one.has_status and one.version == "v1"]
            for kind in sorted(types, key=lambda one: one.kind not in ("Trigger", "Subscription")):
                for obj in client.select(kind, None)["items"]:
                    if not obj["metadata"].get("ownerReferences"):
                        client.delete(kind, obj["metadata"]["namespace"], obj["metadata"]["name"])

    def get(self, word: str, namespace: str = "default") -> Json:
        """One object: `trigger/NAME`."""
        with self.client() as client:
            return select(client, [word], namespace)[0].fetch(client)

    def address(self, word: str, namespace: str = "default") -> str:
        """Where a Broker or channel takes events."""
        return str(self.get(word, namespace)["status"]["address"]["url"])

    def recovered(self, name: str, old_pid: int) -> None:
        """Wait until a killed part is back with all others."""

        def back() -> bool:
            part = self.part(name)
            return part.pid not in (0, old_pid) and all(one.state == "READY" for one in self.run.parts.values())

        eventually(back, 180, f"{name} recovered: {self.output.read_text()[-1500:]}", interval=0.1)

    def _ready(self) -> bool:
        assert self._process is not None
        text = self.output.read_text(errors="replace")
        assert self._process.poll() is None, f"headrace up ended with {self._process.returncode}:\n{text}"
        run = self.folder.read_run()
        return run is not None and run.pid == self._process.pid and run.state == "RUNNING"


class Inbox:
    """A subscriber that remembers every event, by path. `behave(path, handler)` changes how one path answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[str, list[Event]] = defaultdict(list)
        self._handlers: dict[str, Handler] = {}
        self._sink = EventSink(self._take)
        self._sink.start()

    def url(self, path: str) -> str:
        return f"{self._sink.url}/{path}"

    def behave(self, path: str, handler: Handler) -> None:
        """Answer requests to `path` with what `handler` says."""
        self._handlers[f"/{path}"] = handler

    def events(self, path: str) -> list[Event]:
        with self._lock:
            return list(self._events[f"/{path}"])

    def ids(self, path: str) -> list[str]:
        """Ids in order of arrival, copies included."""
        return [event.attributes["id"] for event in self.events(path)]

    def counts(self, path: str) -> Counter[str]:
        return Counter(self.ids(path))

    def close(self) -> None:
        self._sink.close()

    def _take(self, path: str, event: Event) -> Answer:
        with self._lock:
            self._events[path].append(event)
            handler = self._handlers.get(path)
        return handler(path, event) if handler else Answer()


class Producer:
    """Sends events, and knows which were accepted."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._http = httpx.Client(timeout=30, trust_env=False, verify=False)
        self.accepted: list[str] = []

    def send(self, **attributes: str) -> int:
        """One event; the status of the answer, 0 for none."""
        full = {"specversion": "1.0", "id": str(uuid.uuid4()), "source": "/test", "type": "test", **attributes}
        lines, body = encode_binary(Event(full, b'{"a": 1}'))
        headers = [pair for pair in map(split_line, lines) if pair is not None]
        try:
            status = self._http.post(self._address, content=body, headers=headers).status_code
        except httpx.TransportError:
            return 0
        if status == 202:
            self.accepted.append(full["id"])
        return status

    def close(self) -> None:
        self._http.close()


class Load:
    """Sends events in a thread, `rate` a second, until `stop`; those that are not accepted are not sent again."""

    def __init__(self, address: str, rate: float, attributes: Sequence[Mapping[str, str]] = ({},)) -> None:
        self._producer = Producer(address)
        self._rate = rate
        self._attributes = attributes
        self._over = threading.Event()
        self.refused: Counter[int] = Counter()
        self.accepted: dict[int, list[str]] = defaultdict(list)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> list[str]:
        """The ids that were accepted."""
        self._over.set()
        self._thread.join(60)
        self._producer.close()
        return list(self._producer.accepted)

    def sent(self) -> int:
        return len(self._producer.accepted)

    def _run(self) -> None:
        start, number = time.monotonic(), 0
        while not self._over.wait(max(0.0, start + number / self._rate - time.monotonic())):
            which = number % len(self._attributes)
            event_id = f"{number:06}-{uuid.uuid4().hex[:8]}"
            status = self._producer.send(id=event_id, **self._attributes[which])
            if status == 202:
                self.accepted[which].append(event_id)
            else:
                self.refused[status] += 1
            number += 1


def broker(name: str, **spec: Any) -> Json:
    return {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": {"name": name}, "spec": spec}


def trigger(name: str, on: str, uri: str, *, annotations: Mapping[str, str] | None = None, **spec: Any) -> Json:
    metadata = {"name": name, "annotations": dict(annotations or {})}
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": metadata,
        "spec": {"broker": on, "subscriber": {"uri": uri}, **spec},
    }


def new_name(prefix: str) -> str:
    """A name that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:6]}"
