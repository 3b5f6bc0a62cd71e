"""Who got what, and when: every event that was accepted against every delivery that arrived. Pure but for its lock."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tally:
    """One subscriber: how many events it should have got, how many of those came, how many copies too many, how many of others."""

    subscriber: str
    expected: int
    received: int
    repeated: int
    unexpected: int
    p50_ms: float
    p99_ms: float

    @property
    def exact(self) -> bool:
        """Every event once, no other."""
        return self.expected == self.received and not self.repeated and not self.unexpected


class Ledger:
    """Times are seconds on one clock, from `sent` to `arrived`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: dict[str, float] = {}
        self._wanted: dict[str, set[str]] = defaultdict(set)
        self._arrived: dict[str, dict[str, float]] = defaultdict(dict)
        self._copies: Counter[tuple[str, str]] = Counter()

    def sent(self, event_id: str, subscribers: Iterable[str], at: float) -> None:
        """An event goes out that these subscribers have to get."""
        with self._lock:
            self._sent[event_id] = at
            for subscriber in subscribers:
                self._wanted[subscriber].add(event_id)

    def arrived(self, event_id: str, subscriber: str, at: float) -> float | None:
        """A delivery arrived: its latency in milliseconds, None for an event that nobody sent."""
        with self._lock:
            self._copies[subscriber, event_id] += 1
            self._arrived[subscriber].setdefault(event_id, at)
            sent = self._sent.get(event_id)
            return None if sent is None else (at - sent) * 1000

    def outstanding(self) -> int:
        """Deliveries that are still missing."""
        with self._lock:
            return sum(len(wanted - self._arrived[subscriber].keys()) for subscriber, wanted in self._wanted.items())

    def tallies(self) -> list[Tally]:
        """One per subscriber, in the order in which they first appeared."""
        with self._lock:
            names = list(dict.fromkeys([*self._wanted, *self._arrived]))
            return [self._tally(name) for name in names]

    def _tally(self, subscriber: str) -> Tally:
        wanted, arrived = self._wanted[subscriber], self._arrived[subscriber]
        latencies = sorted((arrived[one] - self._sent[one]) * 1000 for one in wanted & arrived.keys())
        copies = sum(count - 1 for (name, _), count in self._copies.items() if name == subscriber)
        return Tally(
            subscriber=subscriber,
            expected=len(wanted),
            received=len(wanted & arrived.keys()),
            repeated=copies,
            unexpected=len(arrived.keys() - wanted),
            p50_ms=quantile(latencies, 0.50),
            p99_ms=quantile(latencies, 0.99),
        )


def quantile(ordered: list[float], share: float) -> float:
    """The value below which `share` of the ordered values lie; 0 for none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
