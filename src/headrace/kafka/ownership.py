"""Which consumer groups are Headrace's own mirrors of lanes, and how far those lanes are.

The truth is two compacted topics: `<instance>.contract` names the groups, `<instance>.progress` says what is finished
(`core.contractlog`, `core.progress`). Both are read as they are at the moment; a Kafka that has not got them has no groups of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.base.errors import HeadraceError
from headrace.core.contractlog import ContractState
from headrace.core.names import Internal
from headrace.core.progress import ProgressRecord
from headrace.kafka.admin import Admin
from headrace.kafka.console.consuming import Reader, Start, Where
from headrace.kafka.settings import KafkaSettings


@dataclass(frozen=True, slots=True)
class OwnGroup:
    """A group that Headrace commits for a Trigger or Subscription (`kind`, `namespace`, `name`), whose lanes have `uid`."""

    group: str
    uid: str
    topic: str
    kind: str
    namespace: str
    name: str

    @property
    def subject(self) -> str:
        """As other commands take it: `trigger/orders`."""
        return f"{self.kind.lower()}/{self.name}" if self.name else f"egress {self.uid}"


def own_groups(settings: KafkaSettings, instance: str) -> dict[str, OwnGroup]:
    """Every group that is the mirror of a lane, by its name."""
    state = ContractState()
    for key, (value, offset) in compacted(settings, Internal(instance).contract).items():
        state.apply(key, value, offset)
    found = {}
    for resource in state.resources.values():
        for egress in resource.egresses:
            about = egress.reference if egress.reference.name else resource.reference
            found[egress.consumer_group] = OwnGroup(
                egress.consumer_group,
                egress.uid,
                resource.topics[0] if resource.topics else "",
                about.kind or "trigger",
                about.namespace,
                about.name,
            )
    return found


def lane_progress(settings: KafkaSettings, instance: str, uid: str) -> dict[int, ProgressRecord]:
    """Progress of the lanes of a Trigger or Subscription, by partition; records that can't be read are left out."""
    found = {}
    for key, (value, _) in compacted(settings, Internal(instance).progress).items():
        lane, _, partition = key.rpartition("/")
        if lane == uid and partition.isdigit() and value is not None:
            try:
                found[int(partition)] = ProgressRecord.decode(value)
            except HeadraceError:
                continue
    return found


def compacted(settings: KafkaSettings, topic: str) -> Mapping[str, tuple[bytes | None, int]]:
    """A compacted topic as it is now: key -> (value, offset), tombstones included; empty when there is no such topic."""
    if Admin(settings).describe(topic) is None:
        return {}
    reader = Reader(settings, [topic], start=Start(Where.BEGINNING), until_end=True)
    return {
        record.key.decode("utf-8", "replace"): (record.value, record.offset)
        for record in reader.records()
        if record.key is not None
    }
