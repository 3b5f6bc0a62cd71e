"""What the driver's parts work with, in memory: a log, its progress topic, Spark's jobs. Time is virtual."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from headrace.base.clock import Deadline, VirtualClock
from headrace.base.errors import Retriable
from headrace.core.contract import DeliveryOrder, Egress, EgressConfig, Resource
from headrace.core.contractlog import ContractState
from headrace.core.heartbeat import LaneReport, WorkerReport
from headrace.core.names import Internal
from headrace.core.progress import Progress, ProgressRecord
from headrace.dispatcher.catchup_plan import Place
from headrace.dispatcher.config import ContractSource, DispatcherConfig
from headrace.dispatcher.preparation import Preparation, TopicContext, prepare
from headrace.dispatcher.runs import Runs, job_name
from headrace.dispatcher.selection import Lane, TopicPlan
from headrace.dispatcher.services import Admins, Services
from headrace.dispatcher.slots import SlotBook
from headrace.dispatcher.spec import LaneOrders, catchup_row
from headrace.kafka.settings import KafkaSettings

TOPIC = "orders"
KAFKA = KafkaSettings("127.0.0.1:9092")


@dataclass
class FakeLog:
    """The topic as an `Admin` sees it."""

    begins: dict[int, int]
    ends: dict[int, int]
    topic_id: str = "id-1"
    groups: dict[str, dict[int, int]] = field(default_factory=dict)

    def describe(self, topic: str) -> Any:
        return SimpleNamespace(topic_id=self.topic_id, partitions=len(self.ends))

    def begin_offsets(self, topic: str) -> dict[int, int]:
        return dict(self.begins)

    def end_offsets(self, topic: str) -> dict[int, int]:
        return dict(self.ends)

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        return dict(self.groups.get(group, {}))


class FakeTable:
    """The progress topic. `written`: each place that the driver wrote. `away`: it can't be read to its end."""

    def __init__(self) -> None:
        self.lanes: dict[str, dict[int, ProgressRecord]] = {}
        self.written: list[Place] = []
        self.away = False

    def put(self, uid: str, partition: int, progress: Progress, topic_id: str = "id-1") -> None:
        """As a worker, or the control plane, writes it."""
        self.lanes.setdefault(uid, {})[partition] = ProgressRecord(progress, uid=uid, topic_id=topic_id)

    def lane(self, uid: str, topic_id: str) -> dict[int, ProgressRecord]:
        return dict(self.lanes.get(uid, {}))

    def write(self, records: list[tuple[int, ProgressRecord]]) -> None:
        for partition, record in records:
            self.lanes.setdefault(record.uid, {})[partition] = record
            self.written.append((record.uid, partition))

    def wait_current(self, deadline: Deadline) -> None:
        if self.away:
            raise Retriable("was not read to its end", subject="topic progress", after=60.0)


class FakeRuns:
    """Runs that nobody else sees."""

    def __init__(self) -> None:
        self.run = ""
        self.jobs = 0
        self.orders: list[LaneOrders] = []
        self.drained: list[str] = []

    def begin(self) -> str:
        self.run, self.jobs = "0000000001-aaaaaaaa-bbbbbbbb", 0
        return self.run

    def new_job(self) -> str:
        self.jobs += 1
        return job_name(self.run, self.jobs)

    def drain(self, owner: str, reason: str) -> None:
        self.drained.append(owner)

    def take_over(self, known: Callable[[], ContractState]) -> None:
        """Nobody was there before."""

    def check(self, runs: Mapping[str, str]) -> None:
        """Nobody comes after."""

    def close(self) -> None:
        """Nothing to let go."""


class FakeRangeJob:
    """A job of Spark's, which ends as the test says."""

    def __init__(self, session: object, source: object, name: str, ranges: Mapping[int, tuple[int, int]]) -> None:
        self.name = name
        self.ranges = dict(ranges)
        self.rows: list[bytes] = []
        self.failure = ""
        self.done = False
        self.at_once = 0
        self.begun: list[int] = []
        self._waiting = list(ranges)
        self.cancelled = 0
        self.handed_over = True
        """Whether tasks that it was cancelled with are known to Spark: others it does not end."""

    def partitions(self) -> tuple[int, ...]:
        return tuple(self.ranges)

    def start(self, function: object, on_done: Callable[[], None], at_once: int) -> None:
        """It runs until `end` or `fail`."""
        self.more(at_once)

    def more(self, tasks: int) -> None:
        self.at_once += tasks
        while self._waiting and len(self.begun) < self.at_once:
            self.begun.append(self._waiting.pop(0))

    @property
    def under_way(self) -> frozenset[int]:
        return frozenset() if self.done and self.handed_over else frozenset(self.begun)

    def begin_no_more(self) -> None:
        self._waiting.clear()

    def end(self, records: Mapping[Place, ProgressRecord]) -> None:
        self.rows = [catchup_row(uid, partition, record.encode()) for (uid, partition), record in records.items()]
        self.done = True

    def fail(self, failure: str) -> None:
        self.failure, self.done = failure, True

    def cancel(self) -> None:
        self.cancelled += 1
        self.done = True


class FakeLive:
    """A live run as `CatchUp` sees it: what its workers report, and the orders it was given."""

    def __init__(self, topic_id: str, partitions: tuple[int, ...]) -> None:
        self.spec = SimpleNamespace(topic_id=topic_id)
        self.partitions = partitions
        self.reports: dict[int, WorkerReport] = {}
        self.orders: list[LaneOrders] = []

    def report(self, index: int, **states: str) -> None:
        """Task `index` reports its lanes in these states."""
        lanes = {uid: LaneReport(state=state) for uid, state in states.items()}
        read = len(self.orders)
        self.reports[index] = WorkerReport(TOPIC, self.spec.topic_id, "r", index, 1, 0, lanes=lanes, contract_offset=read)

    def order(self, orders: LaneOrders) -> int:
        self.orders.append(orders)
        return len(self.orders)


class World:
    """One topic with a dispatcher around it that has neither Kafka nor Spark."""

    def __init__(self, log: FakeLog, slots: int = 64, **config: Any) -> None:
        self.clock = VirtualClock()
        self.log = log
        self.table = FakeTable()
        self.slots = SlotBook(slots)
        self.idle_share = 0.0
        self.looks_at_idle = 0
        self.jobs: list[FakeRangeJob] = []
        self.runs = FakeRuns()
        self.config = DispatcherConfig(
            kafka=KAFKA,
            contract=ContractSource("contract"),
            work=Path("work"),
            logs=Path("logs"),
            java_home=Path("java"),
            connector=(),
            **config,
        )
        self.services = Services(
            config=self.config,
            clock=self.clock,
            names=Internal("h"),
            spark=cast(Any, SimpleNamespace(bulk_session=lambda rows, size: None, executors=0)),
            admins=cast(Admins, SimpleNamespace(of=lambda settings: log)),
            slots=self.slots,
            table=cast(Any, self.table),
            dataplane=cast(Any, SimpleNamespace(beat=lambda: None)),
            contract=ContractState,
            contract_now=ContractState,
            failed=self._failed,
        )
        self.context = TopicContext(self.services, TOPIC, KAFKA, cast(Any, log), cast(Runs, self.runs))

    def range_job(self, session: object, source: object, name: str, ranges: Mapping[int, tuple[int, int]]) -> FakeRangeJob:
        """In place of `RangeJob`; all are in `jobs`."""
        job = FakeRangeJob(session, source, name, ranges)
        self.jobs.append(job)
        return job

    def idle(self) -> float:
        """The share of idle processors since the last call: all of it, for the first of a job."""
        self.looks_at_idle += 1
        return self.idle_share

    def prepared(self, lanes: Mapping[str, Lane]) -> Preparation:
        return prepare(self.context, TopicPlan(TOPIC, KAFKA, lanes))

    @staticmethod
    def _failed(error: BaseException) -> None:
        raise error


def lanes(*uids: str, delivery_order: DeliveryOrder = DeliveryOrder.UNORDERED, **config: Any) -> dict[str, Lane]:
    """Lanes with initial positions. `config`: fields of their `EgressConfig`."""
    return {
        uid: Lane(
            Resource(uid=f"resource-{uid}", topics=(TOPIC,)),
            Egress(
                uid=uid,
                delivery_order=delivery_order,
                egress_config=EgressConfig(**config),
                headrace={"initialised": True},
            ),
        )
        for uid in uids
    }
