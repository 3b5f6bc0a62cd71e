"""The reports of the data plane, sorted once per pass: who is present, by topic and by lane.

A process counts while its last report is younger than the lease (`Settings.lease_s`).
"""

from __future__ import annotations

from collections import defaultdict

from headrace.control.model import Observed
from headrace.core.heartbeat import DriverReport, LaneReport, ReceiverReport, WorkerReport


class DataPlane:
    """Present receivers, workers by topic, drivers, and lane reports by uid of the subscription."""

    def __init__(self, observed: Observed) -> None:
        def present(at_ms: int) -> bool:
            return at_ms / 1000 + observed.settings.lease_s >= observed.now

        self.receivers: list[ReceiverReport] = [r for r in observed.receivers if not r.stopping and present(r.at)]
        self.drivers: list[DriverReport] = [r for r in observed.drivers if not r.stopping and present(r.at)]
        self.driver_of: dict[str, DriverReport] = {}
        self.workers: dict[str, list[WorkerReport]] = defaultdict(list)
        self.current: dict[str, list[WorkerReport]] = defaultdict(list)
        """Of `workers`, those of the topic's current run."""
        self.lanes: dict[str, list[LaneReport]] = defaultdict(list)
        for driver in self.drivers:
            for topic in driver.topics:
                self.driver_of.setdefault(topic, driver)
        for worker in observed.workers:
            if worker.goodbye or not present(worker.at):
                continue
            self.workers[worker.topic].append(worker)
            if worker.run == observed.runs.get(worker.topic):
                self.current[worker.topic].append(worker)
            for uid, lane in worker.lanes.items():
                self.lanes[uid].append(lane)
