"""What we ask of a Kafka besides producing and consuming: topics, offsets, consumer groups.

Every call blocks until Kafka answered, at most `timeout` seconds, and raises `Retriable` or `Terminal` (`kafka.failures`) when
it did not do what was asked. Instances may be shared by threads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._metadata import ClusterMetadata
from confluent_kafka.cimpl import NewPartitions, NewTopic

from headrace.base.clock import Deadline
from headrace.base.errors import Retriable, Terminal
from headrace.kafka.failures import kafka_error
from headrace.kafka.groups import GroupClient, Refusal
from headrace.kafka.settings import KafkaSettings

__all__ = ["Admin", "ClusterInfo", "PartitionFacts", "Refusal", "TopicFacts"]

T = TypeVar("T")

_SERVE_SECONDS = 0.1


ADMIN_CLIENT: Mapping[str, Any] = {
    "log_level": 2,
    # Requests go to the broker that the metadata name as controller. Without a topic of its own the library would look again after
    # five minutes only, and ask a broker that has died until then.
    "topic.metadata.refresh.interval.ms": 2000,
}
"""What every administrative client is set to."""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition: broker ids; `leader` is -1 while there is none."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic. `topic_id` differs when a topic was deleted and made again; `details` in order of partition."""

    name: str
    topic_id: str
    partitions: int
    replication: int
    internal: bool
    details: tuple[PartitionFacts, ...]


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster: its id and its brokers as id -> `host:port`; `controller` is a broker id or -1."""

    cluster_id: str
    controller: int
    brokers: Mapping[int, str]


class Admin:
    """The administrative side of one Kafka."""

    def __init__(self, settings: KafkaSettings, timeout: float = 10.0) -> None:
        self._timeout = timeout
        self._groups = GroupClient(settings, timeout)
        self._where = f"Kafka at {settings.bootstrap_servers}"
        self._refused: KafkaError | None = None
        self._settings = settings
        self._client = self._connect()
        self._retired: tuple[float, AdminClient | None] = (time.monotonic(), None)

    # Topics

    def topics(self) -> list[str]:
        """Names of all topics, sorted, with Kafka's internal ones."""
        return sorted(self.metadata().topics)

    def describe(self, topic: str) -> TopicFacts | None:
        """The topic as it is now, or None when there is none of that name."""
        futures = self._client.describe_topics(TopicCollection([topic]), request_timeout=self._timeout)
        found = self._result(futures[topic], self._topic(topic), unless=KafkaError.UNKNOWN_TOPIC_OR_PART)
        if found is None:
            return None
        details = tuple(
            PartitionFacts(
                leader=-1 if partition.leader is None else partition.leader.id,
                replicas=tuple(node.id for node in partition.replicas),
                in_sync=tuple(node.id for node in partition.isr),
            )
            for partition in sorted(found.partitions, key=lambda partition: partition.id)
        )
        replication = max((len(partition.replicas) for partition in details), default=0)
        return TopicFacts(found.name, str(found.topic_id), len(details), replication, found.is_internal, details)

    def create_topic(
        self, name: str, partitions: int, replication: int = -1, config: Mapping[str, str] | None = None
    ) -> TopicFacts:
        """Create a topic and wait until its partitions have leaders; a topic that exists is left as it is.

        `replication` -1 is the Kafka's own default. Returns the topic as it is, which may have other partitions than asked for.
        """
        new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(config or {}))
        futures = self._client.create_topics([new], request_timeout=self._timeout, operation_timeout=self._timeout)
        self._result(futures[name], self._topic(name), unless=KafkaError.TOPIC_ALREADY_EXISTS)
        return self._led(name, 1)

    def add_partitions(self, topic: str, total: int) -> TopicFacts:
        """Raise the number of partitions to `total`; fewer or as many as there are is an error of Kafka's."""
        futures = self._client.create_partitions(
            [NewPartitions(topic, total)], request_timeout=self._timeout, operation_timeout=self._timeout
        )
        self._result(futures[topic], self._topic(topic))
        return self._led(topic, total)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic; one that does not exist is as good as deleted."""
        futures = self._client.delete_topics([topic], request_timeout=self._timeout, operation_timeout=self._timeout)
        self._result(futures[topic], self._topic(topic), unless=KafkaError.UNKNOWN_TOPIC_OR_PART)

    # Offsets

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Partition -> the offset that the next record will get. Raises `Terminal` for a topic that does not exist."""
        return self._offsets(topic, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def begin_offsets(self, topic: str) -> dict[int, int]:
        """Partition -> the lowest offset still kept."""
        return self._offsets(topic, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def offsets_for_time(self, topic: str, at_ms: int) -> dict[int, int]:
        """Partition -> offset of the first record at or after `at_ms` (Unix milliseconds); the end where there is none."""
        found = self._offsets(topic, OffsetSpec.for_timestamp(at_ms))
        if all(offset >= 0 for offset in found.values()):
            return found
        ends = self.end_offsets(topic)
        return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}

    # Groups

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        """Partition -> committed offset; partitions without one are absent, as are all if the group does not exist."""
        committed = self._groups.offsets(group)
        return {partition: offset for (name, partition), offset in committed.items() if name == topic}

    def commit_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> dict[int, Refusal]:
        """Set the offsets of a group that has no members. Returns what Kafka refused, by partition: empty means all is set."""
        refused = self.commit_many({group: {(topic, partition): offset for partition, offset in offsets.items()}})[group]
        return {partition: refusal for (_, partition), refusal in refused.items()}

    def commit_many(self, commits: Mapping[str, Mapping[tuple[str, int], int]]) -> dict[str, dict[tuple[str, int], Refusal]]:
        """`commit_group_offsets` for many groups: group -> (topic, partition) -> offset.

        A group that can't be reached appears with a refusal for each of its partitions; nothing is raised for it.
        """
        return self._groups.commit_many(commits)

    def delete_group(self, group: str) -> None:
        """Delete a group with its offsets; one that does not exist is as good as deleted. One with members is `Terminal`."""
        self._groups.delete(group)

    def cluster_info(self) -> ClusterInfo:
        """Id and brokers; also the quickest way to see whether Kafka answers."""
        found = self.metadata()
        brokers = {node.id: f"{node.host}:{node.port}" for node in found.brokers.values()}
        return ClusterInfo(found.cluster_id or "", found.controller_id, brokers)

    def metadata(self) -> ClusterMetadata:
        """Brokers and topics, as the library has them.

        Asked in growing slices of time, so that a Kafka that does not let us in is told early. The library's own request to describe
        a cluster is no choice: it waits for a controller, and can end the process while brokers come and go.
        """
        deadline = Deadline(self._timeout)
        seconds = _SERVE_SECONDS
        while True:
            seconds *= 2
            try:
                return self._client.list_topics(timeout=max(_SERVE_SECONDS, min(seconds, deadline.remaining())))
            except KafkaException as error:
                self._client.poll(0)
                if self._refused is not None:
                    raise kafka_error(self._refused, self._where) from error
                if deadline.expired:
                    raise kafka_error(error, self._where) from error

    def _led(self, topic: str, partitions: int) -> TopicFacts:
        """The topic, once at least `partitions` of its partitions are visible and each has a leader."""
        deadline = Deadline(self._timeout)
        while not deadline.expired:
            facts = self.describe(topic)
            if facts and facts.partitions >= partitions and all(partition.leader >= 0 for partition in facts.details):
                return facts
            time.sleep(0.05)
        raise Retriable("not all partitions have a leader yet", subject=self._topic(topic), hint="Are all brokers up?")

    def _offsets(self, topic: str, spec: OffsetSpec) -> dict[int, int]:
        facts = self.describe(topic)
        if facts is None:
            raise Terminal("does not exist", subject=self._topic(topic))
        wanted = {TopicPartition(topic, partition): spec for partition in range(facts.partitions)}
        futures = self._client.list_offsets(wanted, request_timeout=self._timeout)
        return {entry.partition: self._result(future, self._topic(topic)).offset for entry, future in futures.items()}

    def _result(self, future: Future[T], subject: str, unless: int | None = None) -> T | Any:
        """What a call brings. A Kafka that does not let us in (login, certificate) is told at once, not after the timeout."""
        while not wait([future], _SERVE_SECONDS).done:
            self._client.poll(0)
            if self._refused is not None:
                raise kafka_error(self._refused, self._where)
        try:
            return future.result()
        except KafkaException as error:
            if unless is not None and _code(error) == unless:
                return None
            if _code(error) == KafkaError._TIMED_OUT:
                self._retire()
            raise kafka_error(error, subject) from error

    def _connect(self) -> AdminClient:
        return AdminClient(self._settings.client(**ADMIN_CLIENT, error_cb=self._note))

    def _retire(self) -> None:
        """Go on with a new client: one that has seen its Kafka start may wait for a controller for ever.

        The old one is kept for a while, for those who still wait for its answers.
        """
        since, _ = self._retired
        if time.monotonic() - since > 3 * self._timeout:
            self._retired = time.monotonic(), self._client
            self._client = self._connect()

    def _note(self, error: KafkaError) -> None:
        """What the library reports of its connections; a refusal stands until the connection is made after all."""
        self._refused = error if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL) else None

    def _topic(self, topic: str) -> str:
        return f"topic {topic}"


def _code(error: BaseException | None) -> int | None:
    cause = error.args[0] if isinstance(error, KafkaException) else None
    return int(cause.code()) if isinstance(cause, KafkaError) else None
