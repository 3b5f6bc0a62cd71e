"""Counters never fall, whatever becomes of the workers that they come from."""

from __future__ import annotations

from prometheus_client import generate_latest

from headrace.core.heartbeat import LaneReport, TopicReport, WorkerReport
from headrace.dispatcher.metrics import DriverMetrics, LaneLabels


def metrics() -> DriverMetrics:
    labels = {"u1": LaneLabels("Trigger", "ns", "orders", "group-1")}
    topics = {"t": TopicReport(run="r1", state="RUNNING", restarts=2)}
    return DriverMetrics("headrace", lambda: labels, lambda: topics)


def report(index: int, events: int, delivered: int, run: str = "r1", uid: str = "u1") -> WorkerReport:
    lane = LaneReport(position=events, delivered=delivered, in_flight=3, lag=7, p50_ms=2.0, p99_ms=index + 5.0)
    return WorkerReport(
        topic="t", topic_id="id", run=run, index=index, workers=2, at=0, events=events, discarded=1, lanes={uid: lane}
    )


def text(collector: DriverMetrics) -> str:
    return generate_latest(collector.registry()).decode()


CONSUMED = 'eventing_kafka_consumed_msg_count{{consumer="headrace#{0}",partition="{0}",topic="t"}} {1}'
LANE = 'kind="Trigger",messaging_consumer_group_name="group-1",messaging_destination_name="t",name="orders",namespace="ns"'


def test_what_workers_read_is_counted_by_partition() -> None:
    collector = metrics()
    collector.take(report(0, 10, 4), partition=1)
    collector.take(report(1, 20, 6), partition=0)
    shown = text(collector)
    assert CONSUMED.format(1, 10.0) in shown
    assert CONSUMED.format(0, 20.0) in shown


def test_a_new_run_adds_to_what_the_last_one_counted() -> None:
    collector = metrics()
    collector.take(report(0, 10, 4), partition=1)
    collector.take(report(0, 12, 5), partition=None)
    collector.take(report(0, 3, 2, run="r2"), partition=None)
    collector.take(report(0, 4, 3, run="r2"), partition=1)
    shown = text(collector)
    assert CONSUMED.format(1, 16.0) in shown
    assert f'headrace_events_total{{{LANE},outcome="delivered"}} 8.0' in shown


def test_gauges_of_a_lane_add_its_partitions_up_and_show_the_slowest() -> None:
    collector = metrics()
    collector.take(report(0, 10, 4), partition=0)
    collector.take(report(1, 10, 4), partition=1)
    shown = text(collector)
    assert f"kn_eventing_dispatch_in_flight_requests{{{LANE}}} 6.0" in shown
    assert f"headrace_lag_events{{{LANE}}} 14.0" in shown
    assert f'kn_eventing_dispatch_latency_milliseconds{{{LANE},quantile="0.99"}} 6.0' in shown


def test_lanes_that_are_gone_are_not_shown() -> None:
    collector = metrics()
    collector.take(report(0, 10, 4, uid="u2"), partition=0)
    assert "group-1" not in text(collector)
    assert 'outcome="delivered"' not in text(collector)


def test_the_state_of_a_topic_is_shown() -> None:
    shown = text(metrics())
    assert 'headrace_topic_running{problem="",state="RUNNING",topic="t"} 1.0' in shown
    assert 'headrace_topic_restarts_total{topic="t"} 2.0' in shown
