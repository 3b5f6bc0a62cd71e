"""What is counted, and that it stays bounded."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from headrace.receiver.latencies import OTHER, Labels, Latencies
from headrace.receiver.metrics import Metrics


def test_requests_are_counted_by_type_and_answer() -> None:
    latencies = Latencies(Labels("broker", "ns", "a"))
    latencies.accepted("t", 0.003)
    latencies.accepted("t", 0.2)
    latencies.observe("t", 202, 0.003)
    latencies.observe("", 400, 0.001)
    found = latencies.snapshot()
    assert sum(found["t", 202][:-1]) == 3
    assert round(found["t", 202][-1]) == 206
    assert sum(found["", 400][:-1]) == 1


def test_an_observation_counts_in_the_bucket_of_its_bound() -> None:
    latencies = Latencies(Labels())
    for seconds in (0.001, 0.0025, 0.0026, 10.0, 10.1):
        latencies.accepted("t", seconds)
    assert latencies.snapshot()["t", 202][:-1] == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1]


def test_the_number_of_event_types_is_bounded() -> None:
    latencies = Latencies(Labels())
    for number in range(1000):
        latencies.accepted(f"t{number}", 0.1)
        latencies.observe(f"u{number}", 400, 0.1)
    latencies.accepted("x" * 1000, 0.1)
    found = latencies.snapshot()
    assert len(found) < 300
    assert sum(found[OTHER, 202][:-1]) > 700
    assert sum(sum(histogram[:-1]) for histogram in found.values()) == 2001


def test_the_page_has_cumulated_buckets_and_forgets_ingresses_that_are_gone() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, list)
    labels = Labels("broker", "ns", "a")
    metrics.latencies(labels).accepted("t", 0.003)
    metrics.latencies(labels).accepted("t", 0.03)
    page = generate_latest(registry).decode()
    of = 'cloudevents_type="t",http_response_status_code="202",kind="broker"'
    name = "kn_eventing_dispatch_latency_milliseconds"
    assert f'{name}_bucket{{{of},le="5.0",name="a",namespace="ns"}} 1.0' in page
    assert f'{name}_bucket{{{of},le="+Inf",name="a",namespace="ns"}} 2.0' in page
    assert f'{name}_sum{{{of},name="a",namespace="ns"}} 33.0' in page
    metrics.keep(set())
    assert 'name="a"' not in generate_latest(registry).decode()
