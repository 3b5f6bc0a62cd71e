"""Positions of a topic's lanes, with everything that has to be asked for them and written before a lane may start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.base.clock import Clock
from headrace.base.errors import Retriable
from headrace.base.log import get_logger
from headrace.dispatcher.positions import LaneFacts, LanePosition, LogFacts, locate, needs_group
from headrace.dispatcher.progress_table import ProgressTable
from headrace.dispatcher.selection import Lane
from headrace.kafka.admin import Admin

log = get_logger(__name__)


class TopicMissing(Retriable):
    """The topic of a contract does not exist (yet)."""


def log_facts(admin: Admin, topic: str) -> LogFacts:
    """The topic's id and the bounds of each partition. Raises `TopicMissing`, or what Kafka's answer makes of it."""
    facts = admin.describe(topic)
    if facts is None:
        raise TopicMissing("does not exist", subject=f"topic {topic}", hint="Its Broker or KafkaChannel creates it", after=1.0)
    begins, ends = admin.begin_offsets(topic), admin.end_offsets(topic)
    if not set(begins) == set(ends) == set(range(facts.partitions)):
        raise Retriable("its partitions are changing", subject=f"topic {topic}")
    return LogFacts(facts.topic_id, begins, ends)


@dataclass(frozen=True, slots=True)
class Lanes:
    """Locates lanes: `admin` belongs to the Kafka of their topic."""

    admin: Admin
    table: ProgressTable
    clock: Clock

    def locate(self, topic: str, facts: LogFacts, lanes: Iterable[Lane]) -> list[LanePosition]:
        """Where each lane stands. What was decided here, rather than read, is stored before this returns."""
        positions = [self._one(topic, facts, lane) for lane in lanes]
        fresh = [(partition, lane.records[partition]) for lane in positions for partition in lane.fresh]
        if fresh:
            self.table.write(fresh)
        for lane in positions:
            for condition, message in lane.problems.items():
                log.warning("A lane lost its place", topic=topic, lane=lane.uid, condition=condition, reason=message)
        return positions

    def _one(self, topic: str, facts: LogFacts, lane: Lane) -> LanePosition:
        known = LaneFacts(lane.uid, lane.initialised, self.table.lane(lane.uid, facts.topic_id))
        if needs_group(known, facts) and lane.egress.consumer_group:
            group = self.admin.group_offsets(lane.egress.consumer_group, topic)
            known = LaneFacts(known.uid, known.initialised, known.records, group)
        return locate(known, facts, int(self.clock.now() * 1000))
