"""A worker without Spark: real Kafka topics for contract, progress and heartbeats, frames fed by the test."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.base.clock import Deadline
from headrace.core.contract import BackoffPolicy, DeliveryOrder, Egress, EgressConfig, Reference, Resource, dump
from headrace.core.contractlog import drain_record, run_record
from headrace.core.frame import parse_frame
from headrace.core.heartbeat import WorkerReport, decode_report
from headrace.core.names import Internal
from headrace.core.progress import Progress, ProgressRecord, progress_key
from headrace.dispatcher.spec import Limits, Task, WorkerSpec, parse_catchup_row
from headrace.dispatcher.worker.run import work
from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table import TableReader, TableWriter
from tests.support.frames import event_frame
from tests.support.waiting import eventually

TOPIC_ID = "topic-id"


def egress(url: str, uid: str = "lane", **more: Any) -> Egress:
    """An egress to `url`; `retry`, `delay` (ms), `linear`, `dead_letter`, `timeout` (ms) and `config` go to its `EgressConfig`."""
    config = EgressConfig(
        retry=more.pop("retry", 0),
        backoff_delay=more.pop("delay", 0),
        backoff_policy=BackoffPolicy.LINEAR if more.pop("linear", True) else BackoffPolicy.EXPONENTIAL,
        dead_letter=more.pop("dead_letter", ""),
        timeout=more.pop("timeout", 0),
        format=more.pop("format", ""),
        headrace=more.pop("config", {}),
    )
    order = DeliveryOrder.ORDERED if more.pop("ordered", False) else DeliveryOrder.UNORDERED
    reference = Reference(uuid=uid, namespace="ns", name=uid)
    return Egress(destination=url, uid=uid, egress_config=config, delivery_order=order, reference=reference, **more)


class Workbench:
    """The topics of one Headrace of its own, and the driver's and control plane's side of them."""

    def __init__(self, kafka: KafkaSettings, admin: Admin) -> None:
        self.kafka = kafka
        self.instance = f"w{uuid.uuid4().hex[:10]}"
        self.names = Internal(self.instance)
        self.topic = f"{self.instance}-events"
        self._admin = admin
        self.topics = [self.topic, self.names.contract, self.names.progress, self.names.dataplane]
        for name in self.topics:
            admin.create_topic(
                name, 1, config={"cleanup.policy": "compact"} if name.endswith((".contract", ".progress")) else None
            )
        self.contract = TableWriter(kafka, self.names.contract)
        self.progress_writer = TableWriter(kafka, self.names.progress)
        self.progress: dict[str, ProgressRecord] = {}
        self.progress_history: list[tuple[str, ProgressRecord]] = []
        self.reports: list[WorkerReport] = []
        self._readers = [
            TableReader(kafka, self.names.progress, self._on_progress),
            TableReader(kafka, self.names.dataplane, self._on_report),
        ]
        for reader in self._readers:
            reader.start()
        self.run = ""
        self._runs = 0
        self.workers: list[Worker] = []
        self.processes: list[WorkerProcess] = []

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        for worker in self.workers:
            worker.stop()
        for reader in self._readers:
            reader.close()
        self.contract.close()
        self.progress_writer.close()
        for name in self.topics:
            self._admin.delete_topic(name)

    # -- the control plane ----------------------------------------------------------------------------------------

    def subscribe(self, *egresses: Egress, **resource: Any) -> int:
        """Write one contract resource per egress; the offset of the last record."""
        offset = -1
        for one in egresses:
            made = Resource(
                uid=one.uid, topics=(self.topic,), bootstrap_servers=self.kafka.bootstrap_servers, egresses=(one,), **resource
            )
            offset = self.contract.put(one.uid, dump(made))
        return offset

    def unsubscribe(self, uid: str) -> int:
        return self.contract.put(uid, None)

    def initial(self, uid: str, offset: int = 0, partition: int = 0) -> ProgressRecord:
        """Write an initial position, as the control plane does before a lane exists."""
        record = ProgressRecord(Progress.initial(offset), uid, TOPIC_ID)
        self.progress_writer.put(progress_key(uid, partition), record.encode())
        return record

    def produce(self, count: int, at: int, headers: list[tuple[str, bytes]], value: bytes) -> None:
        """Write `count` records to the topic: the given one at offset `at`, empty ones elsewhere."""
        producer = Producer(self.kafka.client())
        for offset in range(count):
            producer.produce(self.topic, value=value if offset == at else b"", headers=list(headers) if offset == at else [])
            producer.flush(20)

    def produce_markers(self, count: int) -> None:
        """Write as many events of `count` transactions that overlap, and then their markers: offsets that hold no event."""
        producers = []
        for number in range(count):
            producer = Producer(self.kafka.client(**{"transactional.id": f"{self.instance}-{number}"}))
            producer.init_transactions()
            producer.begin_transaction()
            producer.produce(self.topic, value=b"", partition=0)
            producer.flush(20)
            producers.append(producer)
        for producer in producers:
            producer.commit_transaction()
        eventually(lambda: self._admin.end_offsets(self.topic)[0] == 2 * count, what="markers of the transactions")

    def expire(self, before: int) -> None:
        """Have Kafka drop what lies below `before`, as retention would."""
        client = AdminClient(self.kafka.client())
        for future in client.delete_records([TopicPartition(self.topic, 0, before)]).values():
            future.result()

    def produce_events(self, count: int) -> None:
        """Write to the topic what `Worker.events` feeds for the first `count` offsets."""
        producer = Producer(self.kafka.client())
        for offset in range(count):
            frame = parse_frame(event_frame(0, offset))
            headers: Any = [(name.decode(), value) for name, value in frame.headers]
            producer.produce(self.topic, key=b"k", value=frame.value, headers=headers, partition=0)
        producer.flush(20)

    # -- the driver -----------------------------------------------------------------------------------------------

    def begin_run(self) -> str:
        self._runs += 1
        self.run = f"run-{self._runs:04d}"
        self.contract.put(*run_record(self.topic, self.run, 0))
        return self.run

    def drain(self, owner: str = "") -> None:
        self.contract.put(*drain_record(owner or self.run, 0, "test"))

    def spec(self, positions: dict[str, ProgressRecord | int] | None = None, *, start: int = 0, **more: Any) -> WorkerSpec:
        """The spec of a worker for partition 0; positions are records or initial offsets by lane uid."""
        records: dict[str, dict[int, bytes]] = {}
        for uid, value in (positions or {}).items():
            record = ProgressRecord(Progress.initial(value), uid, TOPIC_ID) if isinstance(value, int) else value
            records[uid] = {0: record.encode()}
        values: dict[str, Any] = {"partitions": (0,), "grace": 1.0, "limits": Limits(), **more}
        return WorkerSpec(
            instance=self.instance,
            topic=self.topic,
            topic_id=TOPIC_ID,
            kafka=self.kafka,
            control=self.kafka,
            run=self.run,
            workers=1,
            starts={0: start},
            positions=records,
            **values,
        )

    def start(self, positions: dict[str, ProgressRecord | int] | None = None, **more: Any) -> Worker:
        """Begin a run with one worker."""
        self.begin_run()
        return self.start_with(self.spec(positions, **more))

    def start_with(self, spec: WorkerSpec) -> Worker:
        worker = Worker(spec)
        self.workers.append(worker)
        return worker

    def spawn(self, spec: WorkerSpec, folder: Path) -> WorkerProcess:
        """A worker in a process of its own; `folder` gets its spec."""
        process = WorkerProcess(spec, folder)
        self.processes.append(process)
        return process

    # -- what the worker says -------------------------------------------------------------------------------------

    def report(self, owner: str = "") -> WorkerReport | None:
        """The last report of the run (or job)."""
        return next((report for report in reversed(self.reports) if report.run == (owner or self.run)), None)

    def read_progress(self) -> None:
        """Wait until all progress that is stored now is in `progress`."""
        self._readers[0].wait_applied(self._admin.end_offsets(self.names.progress)[0] - 1, Deadline(20))

    def applied(self, offset: int) -> None:
        """Wait until the worker says that it has applied the contract record at `offset`."""
        eventually(lambda: (report := self.report()) is not None and report.contract_offset >= offset, what="contract applied")

    def records(self, topic: str = "") -> list[tuple[bytes | None, list[tuple[str, bytes]], bytes | None]]:
        """All records of a topic: key, headers, value."""
        topic = topic or self.topic
        end = self._admin.end_offsets(topic)[0]
        consumer = Consumer(self.kafka.client(**{"group.id": "test", "enable.auto.commit": False}))
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Any] = []
        deadline = Deadline(20)
        while len(found) < end:
            assert not deadline.expired
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append((message.key(), message.headers() or [], message.value()))
        consumer.close()
        return found

    def _on_progress(self, key: str, value: bytes | None, offset: int) -> None:
        if value is not None:
            record = ProgressRecord.decode(value)
            self.progress[key.rpartition("/")[0]] = record
            self.progress_history.append((key, record))

    def _on_report(self, key: str, value: bytes | None, offset: int) -> None:
        assert value is not None
        report = decode_report(key, value)
        assert isinstance(report, WorkerReport)
        self.reports.append(report)


class Worker:
    """A worker in a thread. `exited`: the code that it would have ended the process with."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.exited: int | None = None
        self.error: BaseException | None = None
        self.rows: list[tuple[str, int, bytes]] = []
        self._batches: queue.Queue[pa.RecordBatch | None] = queue.Queue()
        self._next = spec.starts[0]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def feed(self, frames: Iterable[bytes | None], together: bool = True) -> None:
        """Hand frames over, in one batch or one batch each."""
        listed = list(frames)
        for part in [listed] if together else [[frame] for frame in listed]:
            self._batches.put(pa.RecordBatch.from_arrays([pa.array(part, pa.binary())], names=["frame"]))

    def events(self, count: int, together: bool = True, **attributes: Any) -> list[int]:
        """Feed the next `count` events, whose ids are their offsets; the offsets. `key` and `data` are those of the records."""
        offsets = list(range(self._next, self._next + count))
        self._next += count
        now = int(time.time() * 1000)
        made = [event_frame(0, offset, timestamp=now, **attributes) for offset in offsets]
        self.feed(made, together)
        return offsets

    def end_input(self) -> None:
        self._batches.put(None)

    def join(self, seconds: float = 20.0) -> None:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the worker did not end"
        if self.error is not None:
            raise self.error

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """End the input and wait (also after a failed test)."""
        self.end_input()
        self._thread.join(20.0)

    def _input(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._batches.get()) is not None:
            yield batch

    def _run(self) -> None:
        def leave(code: int) -> None:
            self.exited = code
            raise SystemExit(code)

        try:
            for batch in work(self.spec, self._input(), Task(0), leave):
                self.rows += [parse_catchup_row(row) for row in batch.column(0).to_pylist() if row is not None]
        except BaseException as error:
            self.error = error


class WorkerProcess:
    """`run_partition` in a process, as Spark would call it; frames go in by a pipe."""

    def __init__(self, spec: WorkerSpec, folder: Path) -> None:
        path = folder / f"spec-{spec.run}.pickle"
        path.write_bytes(pickle.dumps(spec))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.worker_process", str(path)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": "src:."},
        )
        self.errors = ""

    def feed(self, *frames: bytes) -> None:
        assert self._process.stdin is not None
        for one in frames:
            self._process.stdin.write(struct.pack(">i", len(one)) + one)
        self._process.stdin.flush()

    def end_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self, seconds: float = 30.0) -> int:
        code = self._process.wait(seconds)
        self._close()
        return code

    def _close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        self._process.stdin.close()
        self.errors = self._process.stderr.read().decode()
        self._process.stderr.close()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def hang(self) -> None:
        """Have it stand still until `wake`."""
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it, if it still runs."""
        if self.running:
            self._process.kill()
            self.wait()

    def peak_memory(self) -> int:
        """Bytes that were resident at most."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def niceness(self) -> int:
        """That of its main thread, which all that it has started inherit."""
        return os.getpriority(os.PRIO_PROCESS, self._process.pid)

    def cpu_seconds(self) -> float:
        """Processor time used so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
