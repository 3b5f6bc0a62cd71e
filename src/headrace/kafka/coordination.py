"""Which partition of an internal topic a group or a transactional id belongs to, and which broker therefore coordinates it.

Source: Kafka, `GroupCoordinatorService.partitionFor` and `TransactionStateManager.partitionFor`: Java's hash of the name, made
positive, modulo the number of partitions.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.kafka.admin import Admin
from headrace.kafka.inspection import Inspector
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.wire import KeyType, Node, connect_any

DEFAULT_PARTITIONS = 50
"""Kafka's default for both internal topics."""
_INT_MIN = -(2**31)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of coordination: the topic that holds its state, and the broker setting that says how many partitions that will have."""

    word: str
    topic: str
    setting: str
    key_type: KeyType


GROUP = Kind("group", "__consumer_offsets", "offsets.topic.num.partitions", KeyType.GROUP)
TRANSACTION = Kind("transactional id", "__transaction_state", "transaction.state.log.num.partitions", KeyType.TRANSACTION)


@dataclass(frozen=True, slots=True)
class Coordination:
    """What a cluster says. `leader` leads the partition (None: the topic does not exist yet), `coordinator` is who says it coordinates."""

    topic: str
    partition: int
    partitions: int
    leader: int | None
    coordinator: Node | None

    @property
    def agrees(self) -> bool:
        """Whether computation and cluster come to the same broker, as far as the cluster said."""
        return self.leader is None or self.coordinator is None or self.leader == self.coordinator.id


def java_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 units, in 32 bits, signed."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[at : at + 2], "big")) & 0xFFFF_FFFF
    return value - (value >> 31 << 32)


def partition_for(key: str, partitions: int) -> int:
    """The partition, of `partitions` (> 0), that holds what is known of `key`."""
    value = java_hash(key)
    return (0 if value == _INT_MIN else abs(value)) % partitions


def coordination(settings: KafkaSettings, key: str, kind: Kind) -> Coordination:
    """Ask the cluster. A topic that does not exist yet is not made by asking. Raises `Retriable` when the cluster does not answer."""
    admin = Admin(settings)
    facts = admin.describe(kind.topic)
    if facts is None:
        broker = min(admin.cluster_info().brokers)
        partitions = int(Inspector(settings).broker_setting(kind.setting, broker) or DEFAULT_PARTITIONS)
        return Coordination(kind.topic, partition_for(key, partitions), partitions, None, None)
    partition = partition_for(key, facts.partitions)
    with connect_any(settings) as connection:
        coordinator = connection.find_coordinator(key, kind.key_type)
    return Coordination(kind.topic, partition, facts.partitions, facts.details[partition].leader, coordinator)
