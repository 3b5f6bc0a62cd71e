"""The table of lanes from heartbeats; a fake transport stands for the controller."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import httpx
import pytest

from headrace.base.errors import UsageError
from headrace.cli.lanes import HEAD, lanes_of, rows
from headrace.core.heartbeat import DriverReport, LaneReport, WorkerReport
from headrace.standalone import discovery
from headrace.standalone.client import Client

NOW = 1_000_000


def trigger(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"}}


def worker(index: int, at: int = NOW, *, goodbye: bool = False, **lane: Any) -> WorkerReport:
    return WorkerReport("topic", "id", "run", index, 2, at, lanes={"uid-busy": LaneReport(**lane)}, goodbye=goodbye)


def client_of(*workers: WorkerReport, drivers: tuple[DriverReport, ...] = ()) -> Client:
    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/figures":
            told = {"workers": [asdict(one) for one in workers], "drivers": [asdict(one) for one in drivers]}
            return httpx.Response(200, json={"at": NOW, **json.loads(json.dumps(told))})
        if path == "/apis":
            return httpx.Response(200, json=discovery.group_list())
        if path == "/api/v1":
            return httpx.Response(200, json=discovery.resource_list("", "v1"))
        if path.endswith("/triggers"):
            return httpx.Response(200, json={"items": [trigger("quiet"), trigger("busy")]})
        if path.endswith("/subscriptions"):
            return httpx.Response(200, json={"items": []})
        _, _, group, version = path.split("/")
        return httpx.Response(200, json=discovery.resource_list(group, version))

    return Client("http://controller", httpx.MockTransport(answer))


def test_the_partitions_of_a_lane_are_one_row_with_the_worst_latency_and_the_sum_of_the_rest() -> None:
    client = client_of(
        worker(0, lag=5, rate=2.0, in_flight=1, p50_ms=1.0, p99_ms=9.0, oldest_ms=500, delivered=10, dead_lettered=1),
        worker(1, state="PARKED", lag=7, rate=3.0, p50_ms=2.0, p99_ms=4.0, oldest_ms=1500, delivered=20, dropped=2),
    )
    busy, quiet = rows(client, None, None)
    assert busy.cells() == ["shop/trigger/busy", "topic", "LIVE 1 PARKED 1", 12, 5.0, 1, 0, 2.0, 9.0, 1.5, 30, 3]
    assert quiet.cells()[:4] == ["shop/trigger/quiet", "", "not running", 0]
    assert len(HEAD) == len(busy.cells())


def test_events_in_partitions_that_wait_for_a_worker_are_part_of_the_lag() -> None:
    driver = DriverReport("d", NOW - 1_000, waiting={"uid-busy": 40, "uid-other": 2})
    old = DriverReport("e", NOW - 60_000, waiting={"uid-busy": 1_000})
    busy, quiet = rows(client_of(worker(0, lag=5), drivers=(driver, old)), None, None)
    assert (busy.lag, quiet.lag) == (45, 0)


def test_old_reports_and_goodbyes_do_not_count() -> None:
    client = client_of(worker(0, at=NOW - 60_000, lag=5), worker(1, goodbye=True, lag=7))
    assert [row.partitions for row in rows(client, None, None)] == [0, 0]


def test_only_what_was_named_is_shown() -> None:
    assert [row.name for row in rows(client_of(), "shop", {"trigger/quiet"})] == ["trigger/quiet"]


@pytest.mark.parametrize("word", ["broker/x", "trigger"])
def test_what_has_no_lane_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="expected trigger/NAME or subscription/NAME"):
        lanes_of(client_of(), [word], "default")
