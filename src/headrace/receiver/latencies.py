"""How long the requests of one ingress took, by event type and answer: plain lists, less than a microsecond for an observation."""

from __future__ import annotations

import threading
from bisect import bisect_left
from dataclasses import dataclass

from headrace.receiver.answers import ACCEPTED

BUCKETS_MS = (1, 2.5, 5, 10, 25, 50, 100, 500, 1000, 5000, 10000)
"""The peer's bounds (50 to 10000), and finer ones where a receiver lives."""
OTHER = "_other"
_TYPES = 200
_LONGEST_TYPE = 256

Histogram = list[float]
"""How many observations were up to each bound, how many beyond, the sum of all in milliseconds."""


@dataclass(frozen=True, slots=True)
class Labels:
    """How metrics name an ingress: the kind in lower case, namespace and name of its resource."""

    kind: str = ""
    namespace: str = ""
    name: str = ""


class Latencies:
    """The requests of one ingress. The number of event types is bounded; what comes beyond is counted under `_other`."""

    __slots__ = ("_accepted", "_all", "_lock", "_types", "labels")

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self._accepted: dict[str, Histogram] = {}
        self._all: dict[tuple[str, int], Histogram] = {}
        self._types: set[str] = {""}
        self._lock = threading.Lock()

    def accepted(self, event_type: str, seconds: float) -> None:
        """Count an event that was answered 202. Only for delivery reports, which come one at a time."""
        histogram = self._accepted.get(event_type)
        if histogram is None:
            histogram = self._accepted.setdefault(self._known(event_type), empty())
        milliseconds = seconds * 1000
        histogram[bisect_left(BUCKETS_MS, milliseconds)] += 1
        histogram[-1] += milliseconds

    def observe(self, event_type: str, status: int, seconds: float) -> None:
        """Count any request; `event_type` is empty where no event was read. From any thread."""
        milliseconds = seconds * 1000
        known = self._known(event_type)
        with self._lock:
            histogram = self._all.setdefault((known, status), empty())
            histogram[bisect_left(BUCKETS_MS, milliseconds)] += 1
            histogram[-1] += milliseconds

    def snapshot(self) -> dict[tuple[str, int], Histogram]:
        """The histogram of each event type and status."""
        with self._lock:
            series = {key: list(histogram) for key, histogram in self._all.items()}
        for event_type, histogram in list(self._accepted.items()):
            before = series.get((event_type, ACCEPTED)) or empty()
            series[event_type, ACCEPTED] = [one + other for one, other in zip(before, histogram, strict=True)]
        return series

    def _known(self, event_type: str) -> str:
        if event_type in self._types:
            return event_type
        with self._lock:
            if len(self._types) > _TYPES or len(event_type) > _LONGEST_TYPE:
                return OTHER
            self._types.add(event_type)
        return event_type


def empty() -> Histogram:
    """A histogram without observations."""
    return [0.0] * (len(BUCKETS_MS) + 2)
