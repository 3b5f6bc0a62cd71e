"""What a receiver counts, under the peer's names (reference A5: `kn.eventing.dispatch.latency` and its tags)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.receiver.latencies import BUCKETS_MS, Histogram, Labels, Latencies
from headrace.receiver.producer import KafkaProducer

_TAGS = ["kind", "namespace", "name", "cloudevents_type", "http_response_status_code"]


class Metrics(Collector):
    """All requests of a receiver, and what its `producers` hold."""

    def __init__(self, registry: CollectorRegistry, producers: Callable[[], Iterable[KafkaProducer]]) -> None:
        self.nobody = Latencies(Labels())
        """Requests for which there is no ingress."""
        self._latencies: dict[Labels, Latencies] = {}
        self._producers = producers
        registry.register(self)

    def latencies(self, labels: Labels) -> Latencies:
        """The counters of an ingress; the same ones for the same labels."""
        return self._latencies.setdefault(labels, Latencies(labels))

    def keep(self, living: set[Labels]) -> None:
        """Drop the counters of all other ingresses."""
        self._latencies = {labels: kept for labels, kept in self._latencies.items() if labels in living}

    def collect(self) -> Iterator[Metric]:
        """The metrics of this moment."""
        metric = HistogramMetricFamily(
            "kn_eventing_dispatch_latency_milliseconds", "Time from the arrival of a request to its answer", labels=_TAGS
        )
        for latencies in (self.nobody, *self._latencies.values()):
            labels = latencies.labels
            for (event_type, status), histogram in latencies.snapshot().items():
                tags = [labels.kind, labels.namespace, labels.name, event_type, str(status)]
                metric.add_metric(tags, _cumulated(histogram), histogram[-1])
        yield metric
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
            events.add_metric(kafka, producer.held_events)
            size.add_metric(kafka, producer.held_bytes)
            up.add_metric(kafka, float(bool(producer.reachable) and not producer.failing))
            replaced.add_metric(kafka, producer.replaced)
        yield from (events, size, up, replaced)


def _cumulated(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = (*(str(float(bound)) for bound in BUCKETS_MS), "+Inf")
    return list(zip(bounds, accumulate(histogram[:-1]), strict=True))
