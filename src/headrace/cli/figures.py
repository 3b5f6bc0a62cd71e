"""The flow of events in a few figures, from what the data plane says of itself."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from headrace.base.errors import HeadraceError
from headrace.standalone.client import Client

Json = dict[str, Any]
_FRESH_MS = 5_000
_EVERY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Flow:
    """All topics and subscriptions together. `lag`: deliveries that wait. `failed`: deliveries given up since the workers started."""

    topics: int
    subscriptions: int
    events_per_second: float
    deliveries_per_second: float
    in_flight: int
    lag: int
    retrying: int
    failed: int
    p50_ms: float
    p99_ms: float


def flow_of(figures: Json, before: Json | None = None) -> Flow:
    """The flow between two answers of `/figures` (events per second need two). Reports that are old do not count."""
    workers = [worker for worker in figures["workers"] if figures["at"] - worker["at"] < _FRESH_MS]
    lanes = [(uid, lane) for worker in workers for uid, lane in worker["lanes"].items()]
    return Flow(
        topics=len({worker["topic"] for worker in workers}),
        subscriptions=len({uid for uid, _ in lanes}),
        events_per_second=_rate(workers, before),
        deliveries_per_second=sum(lane["rate"] for _, lane in lanes),
        in_flight=sum(lane["in_flight"] for _, lane in lanes),
        lag=sum(lane["lag"] for _, lane in lanes) + waiting(figures),
        retrying=sum(lane["retrying"] for _, lane in lanes),
        failed=sum(lane["failed"] for _, lane in lanes),
        p50_ms=max((lane["p50_ms"] for _, lane in lanes), default=0.0),
        p99_ms=max((lane["p99_ms"] for _, lane in lanes), default=0.0),
    )


def waiting(figures: Json, uid: str | None = None) -> int:
    """Events that a lane (None: all of them) misses in partitions that wait for a worker."""
    told = (driver.get("waiting", {}) for driver in figures["drivers"] if figures["at"] - driver["at"] < _FRESH_MS)
    return sum(events for one in told for lane, events in one.items() if uid is None or lane == uid)


def _rate(workers: list[Json], before: Json | None) -> float:
    """Events read per second, from the heads of the partitions in two reports of the same run."""
    old = {(worker["run"], worker["index"]): worker for worker in (before or {}).get("workers", ())}
    total = 0.0
    for worker in workers:
        last = old.get((worker["run"], worker["index"]))
        if last and worker["at"] > last["at"] and last["head"] >= 0:
            total += (worker["head"] - last["head"]) * 1000 / (worker["at"] - last["at"])
    return total


class FlowWatch:
    """Asks the controller once a second, in a thread, until it is closed."""

    def __init__(self, server: str) -> None:
        self._client = Client(server)
        self._flow: Flow | None = None
        self._over = threading.Event()
        threading.Thread(target=self._run, name="figures", daemon=True).start()

    def latest(self) -> Flow | None:
        """The last figures; None before the first, or while the controller does not answer."""
        return self._flow

    def close(self) -> None:
        """Stop asking."""
        self._over.set()

    def _run(self) -> None:
        before: Json | None = None
        while not self._over.wait(_EVERY_SECONDS):
            try:
                figures = self._client.figures()
                self._flow = flow_of(figures, before)
                before = figures
            except (HeadraceError, KeyError, TypeError):
                self._flow = None
        self._client.close()
