"""Positions of a topic's lanes, with everything that has to be asked for them and written before a lane may start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from headrace.base.clock import Clock
from headrace.base.errors import Retriable
from headrace.base.log import get_logger
from headrace.dispatcher.catchup_plan import Place
from headrace.dispatcher.positions import OFFSETS_EXPIRED, LaneFacts, LanePosition, LogFacts, expired, locate, needs_group
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


class Notices:
    """What has happened to the positions of a topic's lanes, kept while the lanes are there: it is news to whoever looks later, too."""

    def __init__(self) -> None:
        self._lost: dict[str, int] = defaultdict(int)
        self._conditions: dict[str, dict[str, str]] = {}

    def take(self, lane: LanePosition) -> None:
        """Note what is to be said of a lane that was located."""
        if not lane.problems:
            return
        self._lost[lane.uid] += lane.lost
        known = {**self._conditions.get(lane.uid, {}), **lane.problems}
        if self._lost[lane.uid]:
            known[OFFSETS_EXPIRED] = expired(self._lost[lane.uid])
        self._conditions[lane.uid] = known

    def of(self, uids: Iterable[str]) -> dict[str, dict[str, str]]:
        """Lane uid -> condition -> message, of these lanes."""
        return {uid: dict(self._conditions[uid]) for uid in uids if uid in self._conditions}


def _untold(lane: LanePosition) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Locates lanes: `admin` belongs to the Kafka of their topic. `told` gets each decision."""

    admin: Admin
    table: ProgressTable
    clock: Clock
    told: Callable[[LanePosition], None] = _untold

    def locate(
        self, topic: str, facts: LogFacts, lanes: Iterable[Lane], owned: Collection[Place] = frozenset()
    ) -> list[LanePosition]:
        """Where each lane stands, but for the places that are `owned` by a worker.

        What was decided here, rather than read, is stored before this returns.
        """
        positions = [self._one(topic, facts, lane, owned) for lane in lanes]
        fresh = [(partition, lane.records[partition]) for lane in positions for partition in sorted(lane.fresh)]
        if fresh:
            self.table.write(fresh)
        for lane in positions:
            self.told(lane)
            for condition, message in lane.problems.items():
                log.warning("A lane lost its place", topic=topic, lane=lane.uid, condition=condition, reason=message)
        return positions

    def _one(self, topic: str, facts: LogFacts, lane: Lane, owned: Collection[Place]) -> LanePosition:
        known = LaneFacts(lane.uid, lane.initialised, self.table.lane(lane.uid, facts.topic_id))
        if needs_group(known, facts) and lane.egress.consumer_group:
            group = self.admin.group_offsets(lane.egress.consumer_group, topic)
            known = LaneFacts(known.uid, known.initialised, known.records, group)
        partitions = [partition for partition in facts.ends if (lane.uid, partition) in owned]
        return locate(known, facts, int(self.clock.now() * 1000), partitions)
