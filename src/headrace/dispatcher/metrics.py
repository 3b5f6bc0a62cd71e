"""The driver's metrics, in the peer's names (reference A5) and with the gauge that KafkaChannel dispatchers have always had.

Workers can't be scraped: their heartbeats carry totals since their run began, and the totals of runs that are over are kept here, so that a
counter never falls because a query was restarted.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.core.heartbeat import LaneReport, TopicReport, WorkerReport

LaneKey = tuple[str, str]
"""Topic and lane uid."""


@dataclass(frozen=True, slots=True)
class LaneLabels:
    """How metrics name a lane."""

    kind: str
    namespace: str
    name: str
    group: str


@dataclass(slots=True)
class _Worker:
    """One task's totals: of the runs before, and of the one that reports."""

    report: WorkerReport
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """What a lane has done, in events."""

    delivered: int = 0
    failed: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    lost: int = 0

    def plus(self, report: LaneReport) -> Totals:
        return Totals(
            self.delivered + report.delivered,
            self.failed + report.failed,
            self.dead_lettered + report.dead_lettered,
            self.dropped + report.dropped,
            self.lost + report.lost,
        )


class DriverMetrics(Collector):
    """Collects from reports. `labels_of`: lane uid -> labels; `topics`: what the driver says of its topics."""

    def __init__(
        self,
        instance: str,
        labels_of: Callable[[], Mapping[str, LaneLabels]],
        topics: Callable[[], Mapping[str, TopicReport]],
    ) -> None:
        self._instance = instance
        self._labels_of = labels_of
        self._topics = topics
        self._lock = threading.Lock()
        self._workers: dict[tuple[str, str, int], _Worker] = {}
        self._consumed: dict[tuple[str, int], int] = defaultdict(int)
        self._discarded: dict[tuple[str, int], int] = defaultdict(int)
        self._before: dict[LaneKey, Totals] = defaultdict(Totals)

    def registry(self) -> CollectorRegistry:
        """A registry with these metrics alone."""
        registry = CollectorRegistry()
        registry.register(self)
        return registry

    def take(self, report: WorkerReport, partition: int | None) -> None:
        """A worker's report. `partition`: the Kafka partition it serves, when known."""
        key = (report.topic, report.mode, report.index)
        with self._lock:
            known = self._workers.get(key)
            if known is not None and known.report.run != report.run:
                self._retire(known)
                known = None
            before = partition if partition is not None or known is None else known.partition
            self._workers[key] = _Worker(report, before)

    def forget(self, topic: str) -> None:
        """The topic is served no longer."""
        with self._lock:
            self._workers = {key: worker for key, worker in self._workers.items() if key[0] != topic}

    def _retire(self, worker: _Worker) -> None:
        report = worker.report
        if worker.partition is not None:
            self._consumed[report.topic, worker.partition] += report.events
            self._discarded[report.topic, worker.partition] += report.discarded
        for uid, lane in report.lanes.items():
            self._before[report.topic, uid] = self._before[report.topic, uid].plus(lane)

    def collect(self) -> Iterable[Metric]:
        """All families, as Prometheus asks for them."""
        labels = self._labels_of()
        with self._lock:
            workers = list(self._workers.values())
            consumed, discarded, totals = dict(self._consumed), dict(self._discarded), dict(self._before)
        yield from self._partitions(workers, consumed, discarded)
        yield from _lanes(workers, totals, labels)
        yield from self._states()

    def _partitions(
        self, workers: list[_Worker], consumed: dict[tuple[str, int], int], discarded: dict[tuple[str, int], int]
    ) -> Iterator[Metric]:
        for worker in workers:
            if worker.partition is not None:
                key = worker.report.topic, worker.partition
                consumed[key] = consumed.get(key, 0) + worker.report.events
                discarded[key] = discarded.get(key, 0) + worker.report.discarded
        read = GaugeMetricFamily(
            "eventing_kafka_consumed_msg_count", "Consumed Message Count", labels=["consumer", "partition", "topic"]
        )
        bad = CounterMetricFamily(
            "kn_eventing_kafka_discarded_events",
            "Records that hold no event",
            labels=["messaging_destination_name", "messaging_destination_partition_id"],
        )
        for (topic, partition), count in sorted(consumed.items()):
            read.add_metric([f"{self._instance}#{partition}", str(partition), topic], count)
        for (topic, partition), count in sorted(discarded.items()):
            bad.add_metric([topic, str(partition)], count)
        yield read
        yield bad

    def _states(self) -> Iterator[Metric]:
        ready = GaugeMetricFamily(
            "headrace_topic_running", "Whether the topic's query runs", labels=["topic", "state", "problem"]
        )
        restarts = CounterMetricFamily("headrace_topic_restarts", "Unplanned restarts of the topic's query", labels=["topic"])
        for topic, report in sorted(self._topics().items()):
            ready.add_metric([topic, report.state, report.problem], float(report.state == "RUNNING"))
            restarts.add_metric([topic], report.restarts)
        yield ready
        yield restarts


_OUTCOMES = ("delivered", "failed", "dead_lettered", "dropped", "lost")
_LANE = ["messaging_destination_name", "messaging_consumer_group_name", "kind", "name", "namespace"]


def _lanes(workers: list[_Worker], totals: dict[LaneKey, Totals], labels: Mapping[str, LaneLabels]) -> Iterator[Metric]:
    """Counters and gauges of each lane, its partitions added up; latencies are those of the slowest partition."""
    current: dict[LaneKey, list[LaneReport]] = defaultdict(list)
    for worker in workers:
        for uid, lane in worker.report.lanes.items():
            key = worker.report.topic, uid
            totals[key] = totals.get(key, Totals()).plus(lane)
            current[key].append(lane)
    events = CounterMetricFamily(
        "headrace_events", "Events that a lane is through with, by outcome", labels=[*_LANE, "outcome"]
    )
    flying = GaugeMetricFamily("kn_eventing_dispatch_in_flight_requests", "Requests under way", labels=_LANE)
    lag = GaugeMetricFamily("headrace_lag_events", "Events that wait for a lane", labels=_LANE)
    retrying = GaugeMetricFamily("headrace_retrying_events", "Failed events that wait for their next attempt", labels=_LANE)
    latency = GaugeMetricFamily(
        "kn_eventing_dispatch_latency_milliseconds", "Time a delivery takes, in the last seconds", labels=[*_LANE, "quantile"]
    )
    for key, total in sorted(totals.items()):
        if key[1] not in labels:
            continue
        names, lanes = _names(key, labels[key[1]]), current[key]
        for outcome in _OUTCOMES:
            events.add_metric([*names, outcome], getattr(total, outcome))
        flying.add_metric(names, sum(lane.in_flight for lane in lanes))
        lag.add_metric(names, sum(lane.lag for lane in lanes))
        retrying.add_metric(names, sum(lane.retrying for lane in lanes))
        latency.add_metric([*names, "0.5"], max((lane.p50_ms for lane in lanes), default=0.0))
        latency.add_metric([*names, "0.99"], max((lane.p99_ms for lane in lanes), default=0.0))
    return iter((events, flying, lag, retrying, latency))


def _names(key: LaneKey, labels: LaneLabels) -> list[str]:
    return [key[0], labels.group, labels.kind, labels.name, labels.namespace]
