"""Random faults, from a seed, while events flow; then everything that was accepted is accounted for.

One fault at a time, in an order that the seed gives: kill -9 of a process of the system, or a subscriber that misbehaves. The last
line printed is a JSON object; the exit status is 1 when an event was lost, an order broken, or a repeat has no crash that explains it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
from tests.support import processes
from tests.support.subscriber import Answer, Request, Subscriber

from bench.system import System, broker, system, triggers, wait_for
from headrace.base.errors import HeadraceError
from headrace.cli.output import error_console, print_table

BROKER = "faults"
ORDERS = ("ordered", "unordered", "key")
KEYS = 12
RATE = 120.0
"""Events a second, all keys together."""
WRITTEN_EVERY = 1.5
"""Seconds: progress is written once a second, and the write takes its time."""
CUT_SECONDS = 0.5
"""Answers so near to a cut of all connections may not have reached us."""
RECOVERY_SECONDS = 180
SETTLE_SECONDS = 420

Fault = Callable[["Stage"], None]


@dataclass
class Ledger:
    """Every arrival, by path and event: when it came, and when the answer that it was taken had been sent (None: it was not)."""

    arrivals: dict[str, dict[str, list[list[float | None]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    firsts: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Ids in order of the first arrival, by path."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def arrived(self, path: str, event: str, at: float) -> list[float | None]:
        """Note an arrival; the entry's second place is for the time of the answer."""
        with self.lock:
            copies = self.arrivals[path][event]
            if not copies:
                self.firsts[path].append(event)
            entry: list[float | None] = [at, None]
            copies.append(entry)
            return entry

    def taken(self, path: str) -> set[str]:
        """Events that were answered with 2xx at least once."""
        with self.lock:
            return {event for event, copies in self.arrivals[path].items() if any(done for _, done in copies)}

    def repeats(self, path: str) -> Iterator[tuple[float, float]]:
        """Times of the answer and of the next arrival, for each arrival after an answer of 2xx."""
        with self.lock:
            for copies in self.arrivals[path].values():
                for (_, done), (again, _) in pairwise(copies):
                    if done is not None and again is not None:
                        yield done, again

    def violations(self, path: str, accepted: dict[str, list[str]]) -> int:
        """Events that came for the first time after a later one of their key."""
        with self.lock:
            place = {event: number for number, event in enumerate(self.firsts[path])}
        ordered = ([place[event] for event in events if event in place] for events in accepted.values())
        return sum(later < earlier for places in ordered for earlier, later in pairwise(places))


class Target:
    """The subscriber of all three Triggers. `behave` says how it answers; None: as it should."""

    def __init__(self, ledger: Ledger) -> None:
        self.behave: Callable[[Request], Answer] | None = None
        self._ledger = ledger
        self._server = Subscriber(self._answer)
        self._port = self._server.port

    @property
    def url(self) -> str:
        return self._server.url("")

    def down(self, seconds: float) -> None:
        """Nobody listens for a while."""
        self._server.close()
        time.sleep(seconds)
        self._server = Subscriber(self._answer, port=self._port)

    def close(self) -> None:
        self._server.close()

    def _answer(self, request: Request) -> Answer:
        entry = self._ledger.arrived(request.path.rsplit("/", 1)[0], request.id, time.monotonic())
        behave = self.behave
        answer = behave(request) if behave is not None else Answer(202)
        if answer.raw is None and answer.status < 300:
            if answer.delay:
                time.sleep(answer.delay)
            entry[1] = time.monotonic()
            return Answer(answer.status)
        return answer


class Load:
    """Events at a steady rate, one key after the other, each sent once; `accepted`: the ids of each key that got 202, in order."""

    def __init__(self, url: str) -> None:
        self.accepted: dict[str, list[str]] = {f"key-{number}": [] for number in range(KEYS)}
        self.refused: Counter[str] = Counter()
        self._url = url
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(key,), daemon=True) for key in self.accepted]
        for thread in self._threads:
            thread.start()

    @property
    def count(self) -> int:
        return sum(map(len, self.accepted.values()))

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, key: str) -> None:
        with httpx.Client(timeout=30, trust_env=False) as client:
            start = time.monotonic()
            number = 0
            while not self._over.wait(max(0.0, start + number * KEYS / RATE - time.monotonic())):
                self._send(client, key, f"{key}-{number:06}")
                number += 1

    def _send(self, client: httpx.Client, key: str, event: str) -> None:
        attributes = {"specversion": "1.0", "id": event, "source": "/faults", "type": "com.example.1", "partitionkey": key}
        headers = {f"ce-{name}": value for name, value in attributes.items()} | {"content-type": "application/json"}
        try:
            status = client.post(self._url, content=b"{}", headers=headers).status_code
        except httpx.TransportError as error:
            self.refused[type(error).__name__] += 1
            return
        if status == 202:
            self.accepted[key].append(event)
        else:
            self.refused[str(status)] += 1


@dataclass
class Stage:
    """What faults act on. `crashes`: begin and end (all parts ready again) of each, on the monotonic clock."""

    one: System
    target: Target
    load: Load
    ledger: Ledger
    chance: random.Random
    crashes: list[tuple[float, float]] = field(default_factory=list)
    broken: list[float] = field(default_factory=list)
    """When all connections to the subscriber were cut."""

    def kill(self, part: str, pid: int, *, restarts: bool = True) -> None:
        """Kill a process at once and wait until everything is ready and events are taken again.

        `restarts`: the part ends with it, and is started again.
        """
        before, begin = self.one.run["parts"][part]["pid"], time.monotonic()
        os.kill(pid, signal.SIGKILL)
        if restarts:
            wait_for(lambda: self.one.run["parts"][part]["pid"] not in (0, before), RECOVERY_SECONDS, f"{part} is back")
        wait_for(self._ready, RECOVERY_SECONDS, f"all parts are ready after {part} was killed")
        self.flows()
        self.crashes.append((begin, time.monotonic()))

    def flows(self) -> None:
        """Wait until what is sent from now on arrives."""
        newest = {key: events[-1] if events else "" for key, events in self.load.accepted.items()}
        wait_for(lambda: all(events and events[-1] > newest[key] for key, events in self.load.accepted.items()), 120, "202")
        wanted = {events[-1] for events in self.load.accepted.values()}
        for order in ORDERS:
            wait_for(lambda path=path_of(order): wanted <= self.ledger.taken(path), RECOVERY_SECONDS, f"{order} flows")  # type: ignore[misc]

    def misbehave(self, seconds: float, behave: Callable[[Request], Answer]) -> None:
        """Let the subscriber answer so for a while."""
        self.target.behave = behave
        time.sleep(seconds)
        self.target.behave = None
        self.flows()

    def explains(self, done: float, again: float) -> bool:
        """Whether something that happened makes a repeat right: an event was answered at `done`, and came once more at `again`."""
        crashed = any(begin - WRITTEN_EVERY <= done <= end and again >= begin for begin, end in self.crashes)
        return crashed or any(abs(done - moment) < CUT_SECONDS for moment in self.broken)

    def _ready(self) -> bool:
        return all(part["state"] == "READY" for part in self.one.run["parts"].values())


def path_of(order: str) -> str:
    """Path of a Trigger's subscriber, without the number that the benchmarks' Triggers have."""
    return f"/{BROKER}-{order}"


# The faults


def kill_worker(stage: Stage) -> None:
    """One of Spark's Python workers."""
    stage.kill("dispatcher", stage.chance.choice(processes.workers(stage.one.processes("dispatcher"))), restarts=False)


def kill_jvm(stage: Stage) -> None:
    """Spark's JVM; the driver follows it, the supervisor starts both again."""
    stage.kill("dispatcher", processes.jvm(stage.one.processes("dispatcher")))


def kill_driver(stage: Stage) -> None:
    """The dispatcher's own process."""
    stage.kill("dispatcher", stage.one.run["parts"]["dispatcher"]["pid"])


def kill_receiver(stage: Stage) -> None:
    """The receiver."""
    stage.kill("receiver", stage.one.run["parts"]["receiver"]["pid"])


def kill_controller(stage: Stage) -> None:
    """The controller."""
    stage.kill("controller", stage.one.run["parts"]["controller"]["pid"])


def kill_kafka(stage: Stage) -> None:
    """Kafka."""
    stage.kill("kafka", stage.one.run["parts"]["kafka"]["pid"])


def subscriber_down(stage: Stage) -> None:
    """Nobody listens. What was being answered when the connections broke may have been taken or not."""
    begin = time.monotonic()
    stage.target.down(stage.chance.uniform(2, 8))
    stage.broken.append(begin)
    stage.flows()


def subscriber_slow(stage: Stage) -> None:
    """Two seconds before each answer."""
    stage.misbehave(stage.chance.uniform(3, 8), lambda _: Answer(202, delay=2.0))


def subscriber_resets(stage: Stage) -> None:
    """Every other connection is closed without an answer."""
    chance = random.Random(stage.chance.random())
    stage.misbehave(stage.chance.uniform(3, 8), lambda _: Answer(raw=_nothing) if chance.random() < 0.5 else Answer(202))


def subscriber_endless(stage: Stage) -> None:
    """Every tenth answer is a body that does not end (until the client hangs up, or half a minute is over)."""
    chance = random.Random(stage.chance.random())
    stage.misbehave(stage.chance.uniform(3, 8), lambda _: Answer(raw=_endless) if chance.random() < 0.1 else Answer(202))


def subscriber_fails(stage: Stage) -> None:
    """Bursts of 500: half a second of errors, half a second of none."""
    stage.misbehave(stage.chance.uniform(3, 8), lambda _: Answer(500 if time.monotonic() % 1 < 0.5 else 202))


FAULTS: tuple[Fault, ...] = (
    kill_worker,
    kill_jvm,
    kill_driver,
    kill_receiver,
    kill_controller,
    kill_kafka,
    subscriber_down,
    subscriber_slow,
    subscriber_resets,
    subscriber_endless,
    subscriber_fails,
)


def _nothing(handler: Any) -> None:
    """The connection is closed by the caller."""


def _endless(handler: Any) -> None:
    handler.send_response_only(500)
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    end = time.monotonic() + 30
    try:
        while time.monotonic() < end:
            handler.wfile.write(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")
    except OSError:
        return


def run(minutes: float, seed: int) -> dict[str, Any]:
    """One run; what came of it."""
    ledger, chance = Ledger(), random.Random(seed)
    done: Counter[str] = Counter()
    target = Target(ledger)
    try:
        with system() as one:
            one.apply(*broker(BROKER, partitions=3))
            for order in ORDERS:
                one.apply(*triggers(BROKER, target.url, 1, order=order, name=path_of(order)[1:]))
            load = Load(f"{one.receiver}/default/{BROKER}")
            stage = Stage(one, target, load, ledger, chance)
            stage.flows()
            end = time.monotonic() + minutes * 60
            while time.monotonic() < end:
                for fault in chance.sample(FAULTS, len(FAULTS)):
                    if time.monotonic() >= end:
                        break
                    begin = time.monotonic()
                    fault(stage)
                    done[fault.__name__] += 1
                    error_console().print(f"{fault.__name__}: flows again after {time.monotonic() - begin:.1f} s", style="dim")
                    time.sleep(chance.uniform(0.5, 3))
            load.stop()
            return {"seed": seed, "minutes": minutes, "faults": dict(done), **account(stage)}
    finally:
        target.close()


def account(stage: Stage) -> dict[str, Any]:
    """Wait until all is delivered, or nothing more will come, and count."""
    accepted = {event for events in stage.load.accepted.values() for event in events}
    lost = set()
    for path in map(path_of, ORDERS):
        try:
            wait_for(lambda path=path: accepted <= stage.ledger.taken(path), SETTLE_SECONDS, f"all of {path}")  # type: ignore[misc]
        except HeadraceError:
            lost |= {f"{path} {event}" for event in accepted - stage.ledger.taken(path)}
    repeats = [pair for path in map(path_of, ORDERS) for pair in stage.ledger.repeats(path)]
    unexplained = [pair for pair in repeats if not stage.explains(*pair)]
    return {
        "accepted": len(accepted),
        "refused": dict(stage.load.refused),
        "deliveries": sum(len(copies) for path in map(path_of, ORDERS) for copies in stage.ledger.arrivals[path].values()),
        "lost": len(lost),
        "lost_events": sorted(lost)[:20],
        "repeated": len(repeats),
        "repeated_without_crash": len(unexplained),
        "order_violations": sum(
            stage.ledger.violations(path_of(order), stage.load.accepted) for order in ORDERS if order != "unordered"
        ),
    }


def main() -> int:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(prog="bench/faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long faults go on (10)")
    parser.add_argument("--seed", type=int, default=1, help="decides which faults come when (1)")
    options = parser.parse_args()
    found = run(options.minutes, options.seed)
    print_table(["what", "value"], [[name, str(value)] for name, value in found.items()])
    print(json.dumps(found))
    return 1 if found["lost"] or found["order_violations"] or found["repeated_without_crash"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HeadraceError as error:
        error_console().print(f"error: {error}", markup=False)
        sys.exit(error.exit_code)
