"""What a receiver counts, under the peer's names (reference A5: `kn.eventing.dispatch.latency` and its tags).

Requests are counted in plain dictionaries and turned into metrics only when they are asked for: an observation costs less than a
microsecond. The number of distinct event types is bounded; what comes beyond is counted under `_other`.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.receiver.producer import KafkaProducer
from headrace.receiver.table import Labels

BUCKETS_MS = (1, 2.5, 5, 10, 25, 50, 100, 500, 1000, 5000, 10000)
"""The peer's bounds (50 to 10000), and finer ones where a receiver lives."""
OTHER = "_other"
_TYPES = 200
_TAGS = ["kind", "namespace", "name", "cloudevents_type", "http_response_status_code"]
_NOBODY = Labels()
_Key = tuple[Labels, str, int]


class Metrics(Collector):
    """Counts requests by ingress, event type and answer; asks `producers` for the rest when it is scraped."""

    def __init__(self, registry: CollectorRegistry, producers: Callable[[], Iterable[KafkaProducer]]) -> None:
        self._series: dict[_Key, list[float]] = {}
        self._types: dict[str, str] = {}
        self._lock = threading.Lock()
        self._producers = producers
        registry.register(self)

    def observe(self, labels: Labels | None, event_type: str, status: int, seconds: float) -> None:
        """Count one request; `labels` is None where no ingress was found, `event_type` empty where no event was read."""
        milliseconds = seconds * 1000
        key = (labels or _NOBODY, self._types.get(event_type) or self._type(event_type), status)
        series = self._series.get(key)
        with self._lock:
            if series is None:
                series = self._series.setdefault(key, [0.0] * (len(BUCKETS_MS) + 2))
            series[bisect_left(BUCKETS_MS, milliseconds)] += 1
            series[-1] += milliseconds

    def count(self, status: int) -> int:
        """Requests answered with `status` so far."""
        with self._lock:
            return int(sum(sum(series[:-1]) for key, series in self._series.items() if key[2] == status))

    def forget(self, living: set[Labels]) -> None:
        """Drop the series of ingresses that are gone."""
        with self._lock:
            for key in [key for key in self._series if key[0] is not _NOBODY and key[0] not in living]:
                del self._series[key]

    def collect(self) -> Iterator[Metric]:
        """The metrics of this moment."""
        latency = HistogramMetricFamily(
            "kn_eventing_dispatch_latency_milliseconds", "Time from the arrival of a request to its answer", labels=_TAGS
        )
        with self._lock:
            snapshot = [(key, list(series)) for key, series in self._series.items()]
        for (labels, event_type, status), series in snapshot:
            latency.add_metric(
                [labels.kind, labels.namespace, labels.name, event_type, str(status)], _cumulated(series), series[-1]
            )
        yield latency
        yield from self._kafka()

    def _kafka(self) -> Iterator[Metric]:
        events = GaugeMetricFamily(
            "headrace_receiver_events_waiting", "Events being read or not confirmed yet", labels=["kafka"]
        )
        size = GaugeMetricFamily("headrace_receiver_bytes_waiting", "Bytes of these events", labels=["kafka"])
        up = GaugeMetricFamily("headrace_receiver_kafka_up", "1 while Kafka takes events", labels=["kafka"])
        replaced = CounterMetricFamily(
            "headrace_receiver_producers_replaced", "Producers that failed for good", labels=["kafka"]
        )
        for producer in self._producers():
            kafka = [producer.settings.bootstrap_servers]
            events.add_metric(kafka, producer.events)
            size.add_metric(kafka, producer.bytes)
            up.add_metric(kafka, float(bool(producer.reachable) and not producer.failing))
            replaced.add_metric(kafka, producer.replaced)
        yield from (events, size, up, replaced)

    def _type(self, event_type: str) -> str:
        with self._lock:
            if len(self._types) >= _TYPES or len(event_type) > 256:
                return OTHER
            return self._types.setdefault(event_type, event_type)


def _cumulated(series: list[float]) -> list[tuple[str, float]]:
    bounds = (*(str(float(bound)) for bound in BUCKETS_MS), "+Inf")
    return list(zip(bounds, accumulate(series[:-1]), strict=True))
