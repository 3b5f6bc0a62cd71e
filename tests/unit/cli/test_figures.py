"""The flow of events, from what the workers say of themselves."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headrace.cli.figures import flow_of
from headrace.core.heartbeat import DriverReport, LaneReport, WorkerReport


def figures(at: int, *workers: WorkerReport) -> dict[str, Any]:
    return {"at": at, "workers": [asdict(worker) for worker in workers], "receivers": [], "drivers": []}


def worker(index: int, at: int, head: int, run: str = "r1", **lanes: LaneReport) -> WorkerReport:
    return WorkerReport(topic="t", topic_id="id", run=run, index=index, workers=2, at=at, head=head, lanes=lanes)


def test_the_lanes_of_all_workers_are_added_up() -> None:
    flow = flow_of(
        figures(
            1000,
            worker(0, 900, 10, a=LaneReport(rate=5.0, lag=2, in_flight=1, p99_ms=3.0), b=LaneReport(rate=1.0, failed=4)),
            worker(1, 900, 10, a=LaneReport(rate=7.0, retrying=3, p99_ms=9.0)),
        )
    )
    assert (flow.topics, flow.subscriptions) == (1, 2)
    assert flow.deliveries_per_second == 13.0
    assert (flow.lag, flow.in_flight, flow.retrying, flow.failed, flow.p99_ms) == (2, 1, 3, 4, 9.0)


def test_events_per_second_come_from_two_reports_of_one_run() -> None:
    before = figures(1000, worker(0, 1000, 100), worker(1, 1000, 50))
    assert flow_of(figures(2000, worker(0, 2000, 160), worker(1, 2000, 90)), before).events_per_second == 100.0
    # A new run begins anew, and one report says nothing.
    assert flow_of(figures(2000, worker(0, 2000, 160, run="r2")), before).events_per_second == 0.0
    assert flow_of(figures(2000, worker(0, 2000, 160))).events_per_second == 0.0


def test_reports_that_are_old_do_not_count() -> None:
    assert flow_of(figures(20_000, worker(0, 1000, 10, a=LaneReport(lag=5)))).lag == 0


def test_what_waits_for_a_worker_is_part_of_the_lag() -> None:
    told = figures(10_000, worker(0, 9_900, 10, a=LaneReport(lag=2)))
    told["drivers"] = [
        asdict(DriverReport("d", 9_000, waiting={"a": 3, "b": 4})),
        asdict(DriverReport("e", 0, waiting={"a": 9})),
    ]
    assert flow_of(told).lag == 9
