"""What the controller reads besides its store: the contract as it is written, positions of lanes, reports of the data plane.

Each keeps the picture of one topic, fed by a `TableReader` (record by record, in its thread), and calls `on_change` when the control
plane would see a difference.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from headrace.base.errors import Terminal
from headrace.base.log import get_logger
from headrace.control.model import ContractRecord
from headrace.core.contract import Resource
from headrace.core.contractlog import ContractState, What
from headrace.core.heartbeat import DriverReport, ReceiverReport, Report, WorkerReport, decode_report
from headrace.core.progress import ProgressRecord

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Written:
    """The contract topic at one moment: live records, tombstones (uid -> offset), current runs (topic -> run), last offset."""

    records: Mapping[str, ContractRecord]
    dropped: Mapping[str, int]
    runs: Mapping[str, str]
    generation: int
    trust_bundles: tuple[str, ...]
    end: int


class ContractTable:
    """The contract topic."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._state = ContractState()
        self._dropped: dict[str, int] = {}

    def apply(self, key: str, value: bytes | None, offset: int) -> None:
        with self._lock:
            change = self._state.apply(key, value, offset)
            if change.what is What.RESOURCE:
                if change.removed:
                    self._dropped[change.name] = offset
                else:
                    self._dropped.pop(change.name, None)
        if change.error is not None:
            log.error("Skipped a contract record that cannot be read", key=key, offset=offset, error=change.error)
        self._on_change()

    def reset(self) -> None:
        with self._lock:
            self._state = ContractState()
            self._dropped.clear()

    def written(self) -> Written:
        with self._lock:
            state = self._state
            return Written(
                records={uid: ContractRecord(resource, state.applied[uid]) for uid, resource in state.resources.items()},
                dropped=dict(self._dropped),
                runs=dict(state.runs),
                generation=state.generation,
                trust_bundles=state.trust_bundles,
                end=state.offset,
            )

    def resources(self) -> dict[str, Resource]:
        """The live records alone."""
        with self._lock:
            return dict(self._state.resources)


class PositionTable:
    """The progress topic: for each lane and partition the raw record, and the topic id in it."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._raw: dict[str, dict[int, bytes]] = {}
        self._ids: dict[str, dict[int, str]] = {}

    def apply(self, key: str, value: bytes | None, offset: int) -> None:
        lane, _, number = key.rpartition("/")
        partition = int(number)
        with self._lock:
            before = self._ids.get(lane, {}).get(partition)
            after = None if value is None else self._topic_id(value, before, key)
            self._keep(lane, partition, value, after)
        if before != after:
            self._on_change()

    def reset(self) -> None:
        with self._lock:
            self._raw.clear()
            self._ids.clear()

    def topic_ids(self) -> dict[str, dict[int, str]]:
        """Lane uid -> partition -> topic id."""
        with self._lock:
            return {lane: dict(ids) for lane, ids in self._ids.items()}

    def records(self, lane: str) -> dict[int, ProgressRecord]:
        """The lane's progress by partition."""
        with self._lock:
            raw = dict(self._raw.get(lane, {}))
        return {partition: ProgressRecord.decode(value) for partition, value in raw.items()}

    def _topic_id(self, value: bytes, before: str | None, key: str) -> str | None:
        # Every lane writes each second; almost always the topic is the one that is known already.
        if before and f'"topicId":"{before}"'.encode() in value:
            return before
        try:
            return ProgressRecord.decode(value).topic_id
        except Terminal as error:
            log.error("Skipped a progress record that cannot be read", key=key, error=error)
            return before

    def _keep(self, lane: str, partition: int, value: bytes | None, topic_id: str | None) -> None:
        if value is None:
            self._raw.get(lane, {}).pop(partition, None)
            self._ids.get(lane, {}).pop(partition, None)
            if not self._raw.get(lane):
                self._raw.pop(lane, None)
                self._ids.pop(lane, None)
        elif topic_id is not None:
            self._raw.setdefault(lane, {})[partition] = value
            self._ids.setdefault(lane, {})[partition] = topic_id


class ReportTable:
    """The latest report of each receiver, worker and driver.

    The topic holds an hour of them, of which only the last of each counts: until `caught_up` is called they are only kept, not read.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._reports: dict[str, Report] = {}
        self._history: dict[str, bytes] | None = {}

    def apply(self, key: str, value: bytes | None, offset: int) -> None:
        if value is None:
            return
        with self._lock:
            if self._history is not None:
                self._history[key] = value
                return
        report = decode_report(key, value)
        with self._lock:
            before = self._reports.get(key)
            self._reports[key] = report
        if before is None or _gist(before) != _gist(report):
            self._on_change()

    def caught_up(self) -> None:
        """The end of the topic was reached: from now on each report counts as it comes."""
        with self._lock:
            history, self._history = self._history or {}, None
        for key, value in history.items():
            try:
                self.apply(key, value, -1)
            except Terminal as error:
                log.error("Skipped a report that cannot be read", key=key, error=error)

    def reset(self) -> None:
        with self._lock:
            self._reports.clear()

    def forget_older_than(self, at_ms: int) -> None:
        """Drop what nobody has renewed since `at_ms`."""
        with self._lock:
            self._reports = {key: report for key, report in self._reports.items() if report.at >= at_ms}

    def receivers(self) -> list[ReceiverReport]:
        return [report for report in self._all() if isinstance(report, ReceiverReport)]

    def workers(self) -> list[WorkerReport]:
        return [report for report in self._all() if isinstance(report, WorkerReport)]

    def drivers(self) -> list[DriverReport]:
        return [report for report in self._all() if isinstance(report, DriverReport)]

    def _all(self) -> list[Report]:
        with self._lock:
            return list(self._reports.values())


def _gist(report: Report) -> object:
    """What the control plane decides by: all but the time and the running figures."""
    if isinstance(report, WorkerReport):
        return (
            replace(report, at=0, head=0, events=0, discarded=0, ring_events=0, ring_bytes=0, lanes={}),
            {uid: lane.state for uid, lane in report.lanes.items()},
        )
    if isinstance(report, DriverReport):
        return replace(report, at=0, waiting={})
    return replace(report, at=0)
