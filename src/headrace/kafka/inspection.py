"""What people want to know of a Kafka, beyond what Headrace itself needs (`kafka.admin`): configurations, groups, sizes.

Every call blocks until Kafka answered, at most `timeout` seconds, and raises `Retriable` or `Terminal` like `kafka.admin`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType

from headrace.base.clock import Deadline
from headrace.base.errors import Retriable
from headrace.kafka.admin import ADMIN_CLIENT, Admin, PartitionFacts, TopicFacts
from headrace.kafka.failures import kafka_error
from headrace.kafka.groups import GroupClient
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.wire import connect

T = TypeVar("T")

_ASK_SECONDS = 3.0


class Origin(IntEnum):
    """Where a value in force comes from: `ConfigSource` of Kafka's admin client."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    CLUSTER = 3
    FILE = 4
    DEFAULT = 5
    GROUP = 8


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One setting. `value` is None where Kafka keeps it to itself."""

    name: str
    value: str | None
    origin: Origin


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One consumer group; `state` and `kind` in Kafka's own words."""

    name: str
    state: str
    kind: str


@dataclass(frozen=True, slots=True)
class Metadata:
    """The cluster at a glance, in one answer: brokers as id -> `host:port`, topics with their partitions in order.

    `controller` is a broker id or -1.
    """

    cluster_id: str
    controller: int
    brokers: Mapping[int, str]
    topics: Mapping[str, Sequence[PartitionFacts]]

    def facts(self) -> list[TopicFacts]:
        """The topics as `sizes` takes them; ids, and which are internal, are not in the answer."""
        return [
            TopicFacts(name, "", len(parts), max((len(part.replicas) for part in parts), default=0), False, tuple(parts))
            for name, parts in self.topics.items()
        ]


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer in a group, with the partitions it has now."""

    id: str
    client: str
    host: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One group; `coordinator` is a broker id, -1 where there is none. `state` DEAD: Kafka knows no such group."""

    name: str
    state: str
    kind: str
    assignor: str
    coordinator: int
    members: tuple[Member, ...]


class Inspector:
    """Looks at one Kafka."""

    def __init__(self, settings: KafkaSettings, timeout: float = 10.0) -> None:
        self._settings = settings
        self._timeout = timeout
        self._client = AdminClient(settings.client(**ADMIN_CLIENT))

    def metadata(self) -> Metadata:
        """Brokers, topics, leaders and replicas as the first broker that answers knows them."""
        found = Admin(self._settings, self._timeout).metadata()
        topics = {
            name: [
                PartitionFacts(part.leader, tuple(part.replicas), tuple(part.isrs))
                for _, part in sorted(topic.partitions.items())
            ]
            for name, topic in sorted(found.topics.items())
        }
        brokers = {number: f"{broker.host}:{broker.port}" for number, broker in found.brokers.items()}
        return Metadata(found.cluster_id or "", found.controller_id, brokers, topics)

    def offsets(self, metadata: Metadata, *, begin: bool = False) -> dict[tuple[str, int], int]:
        """The end (or beginning) of every partition that has a leader and tells it."""
        spec = OffsetSpec.earliest() if begin else OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {
            TopicPartition(topic, number): spec
            for topic, parts in metadata.topics.items()
            for number, part in enumerate(parts)
            if part.leader in metadata.brokers
        }
        found = {}
        futures = self._client.list_offsets(wanted, request_timeout=self._timeout) if wanted else {}
        for part, future in futures.items():
            try:
                offset = future.result().offset
            except KafkaException:
                continue
            # Of a leader that is gone the library tells an offset below zero.
            if offset >= 0:
                found[part.topic, part.partition] = offset
        return found

    def topic_configs(self, topics: Iterable[str]) -> dict[str, list[ConfigValue]]:
        """The settings of each topic that are not Kafka's defaults. Raises `Terminal` for a topic that does not exist."""
        wanted = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        # The library refuses to ask for nothing.
        found = self._configs(wanted) if wanted else {}
        return {name: [value for value in values if value.origin is not Origin.DEFAULT] for name, values in found.items()}

    def broker_setting(self, name: str, broker: int) -> str | None:
        """The value in force of a broker's setting; None for one that it has not."""
        values = self._configs([ConfigResource(ResourceType.BROKER, str(broker))])[str(broker)]
        return next((value.value for value in values if value.name == name), None)

    def alter_topic(self, topic: str, values: Mapping[str, str], reset: Iterable[str] = ()) -> None:
        """Set some settings of a topic and bring others back to their defaults; the rest stays."""
        entries = [
            *(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in values.items()),
            *(ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in reset),
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        futures = self._client.incremental_alter_configs([resource], request_timeout=self._timeout)
        settled(futures[resource], f"topic {topic}")

    def groups(self) -> list[GroupSummary]:
        """All consumer groups, by name."""
        listed = settled(self._client.list_consumer_groups(request_timeout=self._timeout), "consumer groups")
        if listed.errors and not listed.valid:
            raise kafka_error(listed.errors[0], "consumer groups")
        found = (GroupSummary(one.group_id, one.state.name, one.type.name) for one in listed.valid)
        return sorted(found, key=lambda one: one.name)

    def group(self, name: str) -> GroupFacts:
        """One group as it is now."""
        found = settled(self._client.describe_consumer_groups([name], request_timeout=self._timeout)[name], f"group {name}")
        members = (
            Member(
                one.member_id,
                one.client_id,
                one.host.removeprefix("/"),
                tuple((part.topic, part.partition) for part in (one.assignment.topic_partitions if one.assignment else ())),
            )
            for one in found.members
        )
        coordinator = -1 if found.coordinator is None else found.coordinator.id
        return GroupFacts(name, found.state.name, found.type.name, found.partition_assignor, coordinator, tuple(members))

    def group_offsets(self, name: str) -> dict[tuple[str, int], int]:
        """Everything that the group has committed: (topic, partition) -> offset; empty for a group that does not exist."""
        return GroupClient(self._settings, self._timeout).offsets(name)

    def sizes(self, topics: Iterable[TopicFacts]) -> dict[tuple[str, int], int]:
        """Bytes on disk of each partition, at its leader; partitions without a leader are absent."""
        wanted: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for topic in topics:
            for partition, facts in enumerate(topic.details):
                if facts.leader >= 0:
                    wanted[facts.leader][topic.name].append(partition)
        brokers = Admin(self._settings, self._timeout).cluster_info().brokers
        sizes: dict[tuple[str, int], int] = {}
        for broker, partitions in wanted.items():
            if broker in brokers:
                host, _, port = brokers[broker].rpartition(":")
                with connect(self._settings, host, int(port), self._timeout) as connection:
                    sizes |= connection.partition_sizes(partitions)
        return sizes

    def _configs(self, resources: Sequence[ConfigResource]) -> dict[str, list[ConfigValue]]:
        """Asked again while the broker that was taken for the controller is gone."""
        deadline = Deadline(self._timeout)
        while True:
            futures = self._client.describe_configs(list(resources), request_timeout=min(_ASK_SECONDS, self._timeout))
            try:
                return {
                    resource.name: [
                        _value(entry) for entry in settled(future, f"{resource.restype.name.lower()} {resource.name}").values()
                    ]
                    for resource, future in futures.items()
                }
            except Retriable:
                if deadline.expired:
                    raise


def settled(future: Future[T], subject: str) -> T | Any:
    """What came of a request. Raises as `kafka_error` says."""
    try:
        return future.result()
    except KafkaException as error:
        raise kafka_error(error, subject) from error


def _value(entry: ConfigEntry) -> ConfigValue:
    number: Any = entry.source
    return ConfigValue(entry.name, entry.value, Origin(int(number)) if number in set(Origin) else Origin.UNKNOWN)
