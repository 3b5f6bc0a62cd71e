"""The workers of one run or job, as their heartbeats show them. Pure: reports in, facts out; times are seconds of one monotonic clock.

A worker is silent when none of its reports came for `silence` seconds although reports could come: while Kafka is away nobody is heard, so
the driver's own report, read back, is the measure of that (`Ear`).
"""

from __future__ import annotations

from headrace.core.heartbeat import WorkerReport


class Ear:
    """Whether heartbeats reach us at all: our own comes back each second while they do."""

    def __init__(self, now: float, gap: float = 3.0) -> None:
        self._gap = gap
        self._last = now
        self.since = now
        """Since when, without a gap, they do."""

    def heard(self, now: float) -> None:
        """Our own report was read."""
        if now - self._last > self._gap:
            self.since = now
        self._last = now

    def open(self, now: float) -> bool:
        """Whether our last report is recent."""
        return now - self._last <= self._gap


class Watch:
    """The tasks 0 to `workers` - 1 of `owner` (a run or job). `patience`: seconds that the first report may take."""

    def __init__(self, owner: str, workers: int, now: float, silence: float = 5.0, patience: float = 60.0) -> None:
        self.owner = owner
        self.workers = workers
        self._silence = silence
        self._patience = patience
        self._started = now
        self._heard: dict[int, float] = {}
        self._reports: dict[int, WorkerReport] = {}

    def take(self, report: WorkerReport, now: float) -> bool:
        """Take a report in; False when it is another owner's."""
        if report.run != self.owner or not 0 <= report.index < self.workers:
            return False
        self._heard[report.index] = now
        self._reports[report.index] = report
        return True

    @property
    def reports(self) -> dict[int, WorkerReport]:
        """The last report of each task that was heard; a copy."""
        return dict(self._reports)

    @property
    def complete(self) -> bool:
        """Whether every task was heard."""
        return len(self._reports) == self.workers

    @property
    def goodbyes(self) -> int:
        """Tasks that have said goodbye."""
        return sum(report.goodbye for report in self._reports.values())

    @property
    def all_gone(self) -> bool:
        """Whether every task has said goodbye."""
        return self.goodbyes == self.workers

    @property
    def all_known_gone(self) -> bool:
        """Whether every task that was ever heard has said goodbye."""
        return self.goodbyes == len(self._reports)

    def silent(self, now: float, ear: Ear) -> list[int]:
        """Tasks that should have been heard and were not."""
        if not ear.open(now):
            return []
        return [index for index in range(self.workers) if self._overdue(index, now, ear.since)]

    def _overdue(self, index: int, now: float, since: float) -> bool:
        report = self._reports.get(index)
        if report is None:
            return now - max(self._started, since) > self._patience
        return not report.goodbye and now - max(self._heard[index], since) > self._silence
