"""The control plane's part, played by the test: topics, positions, contract, events; and what the data plane reports."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.base.clock import Deadline
from headrace.base.errors import Retriable
from headrace.core.contract import Egress, EgressConfig, Reference, Resource, dump
from headrace.core.heartbeat import DriverReport, WorkerReport, decode_report
from headrace.core.internaltopics import PARTITIONS, internal_topics
from headrace.core.names import Internal
from headrace.core.progress import Progress, ProgressRecord, progress_key
from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table import TableReader, TableWriter
from tests.support.waiting import eventually


class Plane:
    """One Headrace instance on the test's Kafka, without a home."""

    def __init__(self, kafka: KafkaSettings, instance: str | None = None) -> None:
        self.kafka = kafka
        self.instance = instance or f"h{uuid.uuid4().hex[:8]}"
        self.names = Internal(self.instance)
        self.admin = Admin(kafka)
        for made in internal_topics(self.names):
            self.admin.create_topic(made.name, PARTITIONS, config=made.config)
        self._contract = TableWriter(kafka, self.names.contract)
        self._progress = TableWriter(kafka, self.names.progress)
        self._producer = Producer(kafka.client(linger_ms=0, acks="all", log_level=2))
        self.workers: dict[str, WorkerReport] = {}
        self.driver: DriverReport | None = None
        self.offsets: dict[str, int] = {}
        self._stored: dict[str, ProgressRecord] = {}
        self._readers = [
            TableReader(kafka, self.names.dataplane, self._report),
            TableReader(kafka, self.names.progress, self._stored_progress),
        ]
        for reader in self._readers:
            reader.start()

    def close(self) -> None:
        for reader in self._readers:
            reader.close()
        self._contract.close()
        self._progress.close()

    # Contract

    def subscribe(
        self,
        topic: str,
        url: str,
        *,
        uid: str | None = None,
        at: Mapping[int, int] | str | None = "end",
        config: EgressConfig | None = None,
        **egress: Any,
    ) -> str:
        """A trigger of `topic` at `url`, as the control plane writes it: positions first. `at` None writes none. Returns the uid."""
        uid = uid or str(uuid.uuid4())
        if at is not None:
            self.set_positions(topic, uid, at)
        headrace = {"initialised": at is not None, **egress.pop("headrace", {})}
        resource = Resource(
            uid=uid,
            topics=(topic,),
            bootstrap_servers=self.kafka.bootstrap_servers,
            absent_auth=True,
            reference=Reference(uuid=uid, namespace="default", name=uid, kind="Trigger"),
            egresses=(
                Egress(
                    uid=uid,
                    destination=url,
                    consumer_group=f"group-{uid}",
                    reference=Reference(uuid=uid, namespace="default", name=uid, kind="Trigger"),
                    egress_config=config or EgressConfig(retry=10, backoff_delay=200),
                    headrace=headrace,
                    **egress,
                ),
            ),
        )
        self.offsets[uid] = self._contract.put(uid, dump(resource))
        return uid

    def set_positions(self, topic: str, uid: str, at: Mapping[int, int] | str) -> None:
        """Initial positions of a lane: `begin`, `end`, or offsets."""
        facts = self.admin.describe(topic)
        assert facts is not None
        if isinstance(at, str):
            at = eventually(lambda: self._bounds(topic, at == "end"), 10, "leaders of a new topic")
        self._progress.put_all(
            (progress_key(uid, partition), ProgressRecord(Progress.initial(offset), uid=uid, topic_id=facts.topic_id).encode())
            for partition, offset in at.items()
        )

    def _bounds(self, topic: str, end: bool) -> dict[int, int]:
        try:
            return self.admin.end_offsets(topic) if end else self.admin.begin_offsets(topic)
        except Retriable:
            return {}

    def unsubscribe(self, uid: str) -> None:
        """Remove the trigger."""
        self._contract.put(uid, None)

    def expire(self, topic: str, before: Mapping[int, int]) -> None:
        """Have Kafka drop what lies below `before`, as retention would."""
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        client = AdminClient(self.kafka.client(log_level=2))
        for future in client.delete_records(wanted).values():
            future.result()

    # What is reported

    def _report(self, key: str, value: bytes | None, offset: int) -> None:
        if value is None:
            return
        report = decode_report(key, value)
        if isinstance(report, WorkerReport):
            self.workers[key] = report
        elif isinstance(report, DriverReport):
            self.driver = report

    def _stored_progress(self, key: str, value: bytes | None, offset: int) -> None:
        if value is not None:
            self._stored[key] = ProgressRecord.decode(value)

    def stored(self, uid: str) -> dict[int, ProgressRecord]:
        """Partition -> last stored progress of a lane."""
        self._readers[1].wait_applied(self.admin.end_offsets(self.names.progress)[0] - 1, Deadline(10))
        return {int(key.rpartition("/")[2]): record for key, record in self._stored.items() if key.startswith(f"{uid}/")}

    def run(self, topic: str) -> str:
        """The topic's run in force, as the driver reports it; empty when it has none."""
        return self.driver.topics[topic].run if self.driver and topic in self.driver.topics else ""

    def live(self, topic: str) -> list[WorkerReport]:
        """Fresh reports of the live workers of the topic's run in force, by index."""
        now = time.time() * 1000
        run = self.run(topic)
        reports = [one for one in list(self.workers.values()) if one.topic == topic and one.mode == "live"]
        return sorted(
            (one for one in reports if one.run == run and not one.goodbye and now - one.at < 3_000), key=lambda one: one.index
        )

    def ready(self, uid: str, topic: str) -> bool:
        """Whether every worker of the topic's run has applied the trigger's record: the gate of its condition Ready."""
        reports = self.live(topic)
        return bool(reports) and {one.index for one in reports if one.contract_offset >= self.offsets[uid]} == set(
            range(reports[0].workers)
        )

    def wait_ready(self, *uids: str, topic: str, timeout: float = 300.0) -> None:
        """Wait for that gate."""
        eventually(lambda: all(self.ready(uid, topic) for uid in uids), timeout, f"ready: {self.driver}")

    # Events

    def send(
        self, topic: str, ids: Iterable[str], *, partition: int | None = None, data: bytes = b"{}", kind: str = "t"
    ) -> None:
        """One event per id, in binary mode, to one partition or to all in turn; returns when Kafka has them."""
        facts = self.admin.describe(topic)
        assert facts is not None
        eventually(
            lambda: len(self._producer.list_topics(topic, timeout=10).topics[topic].partitions) >= facts.partitions,
            30,
            "the producer knows all partitions",
        )
        for number, one in enumerate(ids):
            headers: list[tuple[str, str | bytes | None]] = [
                ("ce_specversion", b"1.0"),
                ("ce_id", one.encode()),
                ("ce_source", b"/test"),
                ("ce_type", kind.encode()),
                ("content-type", b"application/json"),
            ]
            place = partition if partition is not None else number % facts.partitions
            self._producer.produce(topic, value=data, headers=headers, partition=place)
            self._producer.poll(0)
        assert self._producer.flush(30) == 0


def ids(count: int, prefix: str = "e") -> list[str]:
    """`count` event ids."""
    return [f"{prefix}-{number}" for number in range(count)]


def repeated(received: Iterable[str]) -> dict[str, int]:
    """Ids that came more than once, and how often."""
    return {one: count for one, count in Counter(received).items() if count > 1}
