"""Carries out the actions of a plan: on Kafka, on the positions, on the home's objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from headrace.base.clock import Clock, Deadline
from headrace.base.errors import Retriable, Terminal
from headrace.base.log import get_logger
from headrace.control import model
from headrace.core.progress import Progress, ProgressRecord
from headrace.home.connections import Connections
from headrace.home.tables import PositionTable
from headrace.home.topicwatch import TopicWatch
from headrace.kafka.admin import Admin
from headrace.kafka.table import TableReader, TableWriter

log = get_logger(__name__)
_READ_BACK_SECONDS = 10.0


class Objects(Protocol):
    """What the control plane does to objects of its home. Each call raises `HeadraceError` when that failed; again does no harm."""

    def add_finalizer(self, key: model.ObjectKey, uid: str, finalizer: str) -> None: ...
    def remove_finalizer(self, key: model.ObjectKey, uid: str, finalizer: str) -> None: ...
    def create_owned(self, manifest: model.Json) -> None: ...
    def patch_owned(self, key: model.ObjectKey, uid: str, patch: model.Json) -> None: ...
    def delete_owned(self, key: model.ObjectKey, uid: str) -> None: ...


class Actions:
    """`run` does one action; it raises `HeadraceError` when that failed. Any number of threads may call it."""

    def __init__(
        self,
        connections: Connections,
        topics: TopicWatch,
        objects: Objects,
        positions: PositionTable,
        progress: tuple[TableReader, TableWriter],
        clock: Clock,
    ) -> None:
        self._connections = connections
        self._topics = topics
        self._positions = positions
        self._reader, self._writer = progress
        self._clock = clock
        self._how: Mapping[type[Any], Callable[[Any], None]] = {
            model.CreateTopic: self._create_topic,
            model.DeleteTopic: self._delete_topic,
            model.WriteInitialPositions: self._write_positions,
            model.SettleGroup: self._settle_group,
            model.DeleteGroup: self._delete_group,
            model.DropPositions: self._drop_positions,
            model.AddFinalizer: lambda a: objects.add_finalizer(a.key, a.uid, a.finalizer),
            model.RemoveFinalizer: lambda a: objects.remove_finalizer(a.key, a.uid, a.finalizer),
            model.CreateObject: lambda a: objects.create_owned(json.loads(a.manifest)),
            model.PatchObject: lambda a: objects.patch_owned(a.key, a.uid, json.loads(a.patch)),
            model.DeleteObject: lambda a: objects.delete_owned(a.key, a.uid),
        }

    def run(self, action: model.Action) -> None:
        """Do it; doing it again does no harm."""
        self._how[type(action)](action)

    def _admin(self, topic: model.TopicKey) -> Admin:
        return self._connections.admin(topic.kafka)

    def _create_topic(self, action: model.CreateTopic) -> None:
        self._admin(action.topic).create_topic(action.topic.topic, action.partitions, action.replication, dict(action.config))
        self._topics.refresh(action.topic)

    def _delete_topic(self, action: model.DeleteTopic) -> None:
        admin = self._admin(action.topic)
        facts = admin.describe(action.topic.topic)
        if facts is not None and action.topic_id in ("", facts.topic_id):
            admin.delete_topic(action.topic.topic)
        self._topics.refresh(action.topic)

    def _write_positions(self, action: model.WriteInitialPositions) -> None:
        admin = self._admin(action.topic)
        facts = admin.describe(action.topic.topic)
        if facts is None or facts.topic_id != action.topic_id:
            raise Retriable("was deleted or made again meanwhile", subject=f"topic {action.topic.topic}")
        there = self._positions.topic_ids().get(action.lane, {})
        missing = [partition for partition in action.partitions if there.get(partition) != action.topic_id]
        starts = _starts(admin, action)
        offsets = {partition: starts[partition] for partition in missing}
        now = int(self._clock.now() * 1000)
        self._put_positions(
            {
                f"{action.lane}/{partition}": ProgressRecord(
                    Progress.initial(offset), uid=action.lane, topic_id=action.topic_id, at=now
                ).encode()
                for partition, offset in offsets.items()
            }
        )
        self._commit(admin, action.group, action.topic.topic, offsets)

    def _settle_group(self, action: model.SettleGroup) -> None:
        offsets = {partition: record.progress.low for partition, record in self._positions.records(action.lane).items()}
        self._commit(self._admin(action.topic), action.group, action.topic.topic, offsets)

    def _delete_group(self, action: model.DeleteGroup) -> None:
        self._connections.admin(action.kafka).delete_group(action.group)

    def _drop_positions(self, action: model.DropPositions) -> None:
        self._put_positions(
            {f"{action.lane}/{partition}": None for partition in self._positions.topic_ids().get(action.lane, {})}
        )

    def _put_positions(self, records: Mapping[str, bytes | None]) -> None:
        if records:
            last = self._writer.put_all(records.items())
            self._reader.wait_applied(last, Deadline(_READ_BACK_SECONDS))

    def _commit(self, admin: Admin, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        # Only a mirror of the progress topic: what Kafka refuses is told, and the driver tries again.
        if not offsets:
            return
        for partition, refusal in admin.commit_group_offsets(group, topic, offsets).items():
            log.warning(
                "Kafka refused an offset of a group", group=group, topic=topic, partition=partition, reason=refusal.text
            )


def _starts(admin: Admin, action: model.WriteInitialPositions) -> dict[int, int]:
    """Partition -> offset to start at, for all partitions of the topic."""
    topic, where = action.topic.topic, action.where
    if isinstance(where, model.FromGroup):
        kept = admin.begin_offsets(topic)
        ends = admin.end_offsets(topic)
        committed = admin.group_offsets(action.group, topic)
        otherwise = _at(admin, topic, where.otherwise)
        return {p: min(max(committed[p], kept[p]), ends[p]) if p in committed else offset for p, offset in otherwise.items()}
    return _at(admin, topic, where)


def _at(admin: Admin, topic: str, where: model.Latest | model.Earliest | model.AtTime | model.AtOffsets) -> dict[int, int]:
    match where:
        case model.Latest():
            return admin.end_offsets(topic)
        case model.Earliest():
            return admin.begin_offsets(topic)
        case model.AtTime(at_ms):
            return admin.offsets_for_time(topic, at_ms)
        case model.AtOffsets(offsets):
            begins, ends, wanted = admin.begin_offsets(topic), admin.end_offsets(topic), dict(offsets)
            return {p: min(max(wanted.get(p, end), begins[p]), end) for p, end in ends.items()}
    raise Terminal(f"unknown start {where!r}", subject=f"topic {topic}")
