"""What the driver tells a worker: the seam between the Spark side and the Python code of one partition.

The driver makes one `WorkerSpec` per query (or catch-up job) and bakes it into the closure; each task adds its `Task`:

    spec = WorkerSpec(...)
    frames.mapInArrow(lambda batches: run_partition(spec, batches, Task(TaskContext.get().partitionId())), schema)

From then on the two talk through topics only. Driver to worker, in `<instance>.contract` (the worker acts on the records that name its
`run`; a newer `@run/<topic>` ends its process at once):

    @drain/<run or job>   stop sending, finish within the grace, write progress, say goodbye
    @lanes/<run>          `LaneOrders`: which parked lanes to expect (pin) and which to take over (resume)

Worker to driver: progress in `<instance>.progress`, reports in `<instance>.dataplane` (`core.heartbeat`).

A lane (one subscription in one partition) belongs to exactly one worker at a time, and only its owner writes its progress record:

       progress within the ring,                            cursor fell off the tail, or the budget
       or ahead of it                                       is spent on it, or unfinished at a batch end
    start ----------------------> LIVE -------------------------------------------------> PARKED
                                    ^                                                        |  in flight 0: the driver may
                                    |  resume: progress is handed over in LaneOrders         |  take it
                                    |                                                        v
                                 JOINING <---------------------------------------------- CATCHING_UP
                                    |       pin: keep the ring from the job's end offset     |  a job of the driver owns it
                                    |       (at most 5 s, then the lane is PARKED again)     |  (a `catchup` worker)
                                    +--------------------------------------------------------+

A live worker reports PARKED (with `in_flight` until that is 0 and the progress record, marked `parked`, is durable). A catch-up worker
starts its lanes LIVE from `positions`, serves them to the end of the range, writes progress marked `parked`, and returns one row per
lane: `lane uid`, `partition`, progress record (see `catchup_row`). The driver hands the record over with `resume`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.core.contractlog import ContractState
from headrace.http.tokens import TokenServer
from headrace.kafka.settings import KafkaSettings

RESUMED = "r"
"""Marks, after a job's name, the live worker that took a lane over from it."""

FRAME_COLUMN = "frame"
"""The one binary column of input and output batches."""

PIN_SECONDS = 5.0
"""How long a live worker keeps its ring for a lane that is about to be handed back."""


class Mode(StrEnum):
    """`LIVE`: the topic's streaming query. `CATCHUP`: a batch job over a range, for the lanes that `positions` names and no others."""

    LIVE = "live"
    CATCHUP = "catchup"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one worker (the dispatcher's own, divided among its partitions). Bytes count payloads with their headers.

    `ring_events`, `ring_bytes`: events kept for the lanes. `budget_bytes`: ring, waiting retries, replies, together; one larger event
    passes alone. `lane_in_flight`, `host_in_flight`, `in_flight`: requests at once per lane, per destination host, in all.
    `stragglers`: failed events per lane that wait for a retry without holding the lane. `response_bytes`: of one response body.
    """

    ring_events: int = 4096
    ring_bytes: int = 16 * 1024 * 1024
    budget_bytes: int = 48 * 1024 * 1024
    lane_in_flight: int = 64
    host_in_flight: int = 128
    in_flight: int = 512
    stragglers: int = 64
    response_bytes: int = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Task:
    """Which task of the query this worker is."""

    index: int = 0


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """Everything a worker needs besides its input. Picklable.

    `kafka` holds the topic (replies go there), `control` the topics of this Headrace. `run` is the topic's run in force, written to
    the contract topic before the query starts; `job` names a catch-up job (its drain key), else empty. `workers` is the number of tasks.
    `partitions[i]` is the Kafka partition of task `i` where that is known before the first event (else empty: learnt from it).
    `starts` and `ends`: first offset read and, for jobs, the offset after the last, per partition. `positions`: lane uid -> partition
    -> progress record as stored (absent: the lane is not for this partition). `grace`: seconds for what is in flight at a stop. `due`: Unix
    time at which the batch ends: an input that ends earlier was cut off, and a live worker that begins later is of a batch that must not be.
    `contract_topic`: empty is the instance's own. `contract`: what the driver had read of it (of this topic alone): the worker reads on from
    there; None: from the beginning. `patient`: a job that stays, within its time, for the retries of stragglers. `linger`:
    seconds that what a job has in flight when its time is over may still take. `offset_extensions`: send `knativekafkapartition` and
    `knativekafkaoffset`. `hop_limit`: 0 is off.
    `tokens`: where tokens for those that ask for an audience are had; None: nowhere, and their lanes are closed.
    """

    instance: str
    topic: str
    topic_id: str
    kafka: KafkaSettings
    control: KafkaSettings
    run: str
    workers: int
    starts: Mapping[int, int]
    positions: Mapping[str, Mapping[int, bytes]]
    partitions: tuple[int, ...] = ()
    mode: Mode = Mode.LIVE
    job: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)
    grace: float = 1.0
    due: float = 0.0
    patient: bool = False
    linger: float = 0.0
    limits: Limits = field(default_factory=Limits)
    offset_extensions: bool = True
    hop_limit: int = 0
    tokens: TokenServer | None = None
    contract_topic: str = ""
    contract: ContractState | None = None
    log_json: bool = False
    log_level: str = "INFO"

    @property
    def owner(self) -> str:
        """The name that a drain or `LaneOrders` for this worker uses."""
        return self.job or self.run

    def writer(self, before: str) -> str:
        """Whose records those of a lane are whose last one was `before`'s: its own, but not older than that (see `runs`)."""
        if self.job or not before.startswith(f"{self.run}."):
            return self.owner
        return before if before.endswith(RESUMED) else before + RESUMED


@dataclass(frozen=True, slots=True)
class LaneOrders:
    """Orders of the driver to the live workers of one run, complete each time (record `@lanes/<run>`).

    `partitions[i]` is the Kafka partition of task `i` (Spark's own order, known soon after the start; empty: not known yet).
    `pin`: lane uid -> partition -> offset from which the ring is to be kept. `resume`: lane uid -> partition -> progress record (text) of
    a lane whose job is over; a record that was resumed once is not resumed again.
    """

    pin: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    resume: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    partitions: tuple[int, ...] = ()

    def record(self, run: str) -> tuple[str, bytes]:
        """Key and value in the contract topic."""
        raw = {"pin": _text_keys(self.pin), "resume": _text_keys(self.resume), "partitions": self.partitions}
        return lanes_key(run), json.dumps(raw, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, value: bytes) -> LaneOrders:
        """The orders of a record; raises `ValueError`, `TypeError` or `AttributeError` when it is none."""
        raw = json.loads(value)
        return cls(
            pin={uid: {int(p): int(at) for p, at in by.items()} for uid, by in raw.get("pin", {}).items()},
            resume={uid: {int(p): str(rec) for p, rec in by.items()} for uid, by in raw.get("resume", {}).items()},
            partitions=tuple(int(partition) for partition in raw.get("partitions", ())),
        )


def lanes_key(run: str) -> str:
    """Key of the orders to `run` in the contract topic."""
    return f"@lanes/{run}"


def catchup_row(uid: str, partition: int, record: bytes) -> bytes:
    """One output row of a catch-up worker: where a lane stands."""
    return json.dumps({"lane": uid, "partition": partition, "progress": record.decode()}).encode()


def parse_catchup_row(row: bytes) -> tuple[str, int, bytes]:
    """Lane uid, partition and progress record of an output row."""
    raw = json.loads(row)
    return str(raw["lane"]), int(raw["partition"]), str(raw["progress"]).encode()


def _text_keys(value: Mapping[str, Mapping[int, object]]) -> dict[str, dict[str, object]]:
    return {uid: {str(partition): item for partition, item in by.items()} for uid, by in value.items()}
