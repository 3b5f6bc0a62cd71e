"""What the processes of the data plane say of themselves, once a second and at each change, in the topic `headrace.dataplane`.

The control plane gates Ready and deletion on these, the driver watches its workers by them, `headrace top` shows them. Times are
milliseconds since the epoch (`at`) or plain milliseconds (`*_ms`); offsets are Kafka offsets; -1 stands for "none yet".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

from headrace.base.errors import Terminal

LEASE_MS = 3_000
"""A process that was silent for longer is not counted as present (three missed beats)."""


@dataclass(frozen=True, slots=True)
class ReceiverReport:
    """One receiver process. `ingresses` are the uids that it serves, `closed` those it refuses, with the reason. `tls`: it serves with
    TLS (as well).
    """

    instance: str
    at: int
    contract_offset: int = -1
    ingresses: tuple[str, ...] = ()
    closed: Mapping[str, str] = field(default_factory=dict)
    stopping: bool = False
    tls: bool = False

    @property
    def key(self) -> str:
        return f"receiver/{self.instance}"


@dataclass(frozen=True, slots=True)
class LaneReport:
    """One subscription in one partition.

    `state`: LIVE, JOINING, CATCHING_UP, PARKED, PAUSED. `position`: lowest offset that is neither finished nor a straggler. `lag`:
    events from there to the end that the worker knows of. `kept`: undeliverable, in a topic instead of dropped. `lost`: stragglers that
    retention took. `rate`: finished events per second. `oldest_ms`: age of the oldest unfinished event. `blocked`: what
    events wait for that is not the subscriber (a token).
    """

    state: str = "LIVE"
    position: int = -1
    lag: int = 0
    in_flight: int = 0
    retrying: int = 0
    delivered: int = 0
    failed: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    kept: int = 0
    lost: int = 0
    rate: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    oldest_ms: int = 0
    last_error: str = ""
    blocked: str = ""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """One Python worker: partition `index` (0 to `workers` - 1) of a run over `topic`.

    `head`: offset after the last event read. `lanes` by uid; `closed`: lanes not started, with the reason. `goodbye`: the last report of a
    worker that has stopped sending and written its progress.
    """

    topic: str
    topic_id: str
    run: str
    index: int
    workers: int
    at: int
    mode: str = "live"
    contract_offset: int = -1
    head: int = -1
    events: int = 0
    discarded: int = 0
    ring_events: int = 0
    ring_bytes: int = 0
    lanes: Mapping[str, LaneReport] = field(default_factory=dict)
    closed: Mapping[str, str] = field(default_factory=dict)
    goodbye: bool = False

    @property
    def key(self) -> str:
        return f"worker/{self.topic}/{self.mode}/{self.index}"


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic at the driver. `state`: STARTING, RUNNING, DRAINING, BULK, STOPPED, FAILED; `problem`: a CamelCase reason or empty.

    The problem of a topic that is served (RUNNING, BULK) is one of its lanes that are behind.
    """

    run: str = ""
    state: str = "STARTING"
    problem: str = ""
    message: str = ""
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class DriverReport:
    """The dispatcher's driver. `lanes`: conditions of single lanes by uid (`PositionLost`, `OffsetsExpired`, `GroupHasMembers`), with a
    message each. `waiting`: events that lanes miss, by uid, in partitions that no worker tells of: they wait for their turn.
    """

    instance: str
    at: int
    contract_offset: int = -1
    topics: Mapping[str, TopicReport] = field(default_factory=dict)
    lanes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    stopping: bool = False

    @property
    def key(self) -> str:
        return f"driver/{self.instance}"


Report = ReceiverReport | WorkerReport | DriverReport
_KINDS: dict[str, type[Any]] = {"receiver": ReceiverReport, "worker": WorkerReport, "driver": DriverReport}
_NESTED: dict[tuple[type[Any], str], type[Any]] = {(WorkerReport, "lanes"): LaneReport, (DriverReport, "topics"): TopicReport}
R = TypeVar("R")


def _default_of(spec: Any) -> Any:
    if spec.default_factory is not MISSING:
        return spec.default_factory()
    return spec.default


_DEFAULTS: dict[type[Any], list[tuple[str, Any]]] = {
    kind: [(spec.name, _default_of(spec)) for spec in fields(kind)]
    for kind in (ReceiverReport, LaneReport, WorkerReport, TopicReport, DriverReport)
}


def encode_report(report: Report) -> tuple[str, bytes]:
    """Key and value of the record. What has its default is left out: with a thousand lanes most of it has."""
    return report.key, json.dumps(_plain(report), separators=(",", ":")).encode()


def decode_report(key: str, value: bytes) -> Report:
    """The report of a record. Fields that this version does not know are ignored; anything else that is wrong raises `Terminal`."""
    kind = _KINDS.get(key.partition("/")[0])
    if kind is None:
        raise Terminal("not a heartbeat", subject=f"record {key}")
    try:
        report: Report = _build(kind, json.loads(value))
    except (TypeError, ValueError, AttributeError) as error:
        raise Terminal(f"unreadable: {error}", subject=f"heartbeat {key}") from None
    return report


def _plain(report: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, default in _DEFAULTS[type(report)]:
        value = getattr(report, name)
        if value == default:
            continue
        if isinstance(value, Mapping):
            value = {key: _plain(item) if is_dataclass(item) else item for key, item in value.items()}
        out[name] = value
    return out


def _build(kind: type[R], raw: Mapping[str, Any]) -> R:
    values: dict[str, Any] = {}
    for spec in fields(kind):  # type: ignore[arg-type]
        if spec.name not in raw:
            continue
        value = raw[spec.name]
        nested = _NESTED.get((kind, spec.name))
        if nested is not None:
            value = {name: _build(nested, item) for name, item in value.items()}
        values[spec.name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)
