"""Metrics of the controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.home.loop import ControlLoop
from headrace.standalone.store import Store


class ControllerMetrics(Collector):
    """Counted where the things are, read when somebody asks."""

    def __init__(self, store: Store, loop: ControlLoop) -> None:
        self._store = store
        self._loop = loop
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        objects = GaugeMetricFamily(
            "headrace_objects", "Objects in the store, and how many of them are Ready.", labels=["kind", "ready"]
        )
        for (kind, ready), count in sorted(Counter(_state(obj) for obj in self._store.all().values()).items()):
            objects.add_metric([kind, ready], count)
        yield objects
        yield CounterMetricFamily("headrace_reconcile_rounds", "Rounds of the control loop.", value=self._loop.rounds)
        steps = CounterMetricFamily(
            "headrace_reconcile_steps", "Steps done, by kind of step and result.", labels=["step", "result"]
        )
        for (step, result), count in sorted(self._loop.steps_done().items()):
            steps.add_metric([step, result], count)
        yield steps


def _state(obj: dict[str, object]) -> tuple[str, str]:
    status = obj.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    ready = next((str(c["status"]) for c in conditions or () if c.get("type") == "Ready"), "none")
    return str(obj["kind"]), ready
