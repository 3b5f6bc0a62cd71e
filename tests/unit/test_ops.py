"""The operations endpoint answers what is true."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter

from headrace.base.errors import Terminal
from headrace.http.ops import OpsServer


@pytest.fixture
def missing() -> list[str]:
    return []


@pytest.fixture
def server(missing: list[str]) -> Iterator[OpsServer]:
    registry = CollectorRegistry()
    Counter("events", "Events", registry=registry).inc(3)
    ops = OpsServer(registry, lambda: missing, pages={"/lanes": lambda: b"[]"})
    ops.start()
    yield ops
    ops.close()


def get(server: OpsServer, path: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{server.port}{path}")


def test_metrics_are_served_in_the_text_format(server: OpsServer) -> None:
    assert "events_total 3.0" in get(server, "/metrics").text


def test_readiness_names_what_is_missing(server: OpsServer, missing: list[str]) -> None:
    assert get(server, "/readyz").status_code == 200
    missing.append("Kafka does not answer")
    answer = get(server, "/readyz")
    assert (answer.status_code, answer.json()["missing"]) == (503, ["Kafka does not answer"])
    assert get(server, "/healthz").status_code == 200


def test_pages_and_unknown_paths(server: OpsServer) -> None:
    assert get(server, "/lanes").json() == []
    assert get(server, "/other").status_code == 404


def test_a_taken_port_is_a_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(Terminal, match="cannot listen: Address already in use"):
            OpsServer(CollectorRegistry(), list, port=taken.getsockname()[1]).start()
