"""What a run of a topic starts from: its log, its slots, where its lanes stand, and the spec that its workers get."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from headrace.base.clock import Deadline
from headrace.core.progress import ProgressRecord
from headrace.dispatcher.catchup_plan import Place
from headrace.dispatcher.gears import backlog
from headrace.dispatcher.lanes import Lanes, Notices, log_facts
from headrace.dispatcher.positions import LanePosition, LogFacts, fits, start_offsets
from headrace.dispatcher.runs import Runs
from headrace.dispatcher.selection import Lane, TopicPlan
from headrace.dispatcher.services import Services
from headrace.dispatcher.spec import Limits, WorkerSpec
from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings

_CURRENT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class TopicContext:
    """One topic and what serving it takes."""

    services: Services
    topic: str
    settings: KafkaSettings
    admin: Admin
    runs: Runs
    notices: Notices = field(default_factory=Notices)

    @property
    def lanes(self) -> Lanes:
        """Positions of this topic's lanes."""
        return Lanes(self.admin, self.services.table, self.services.clock, self.notices.take)

    def located(
        self, lanes: Mapping[str, Lane], topic_id: str, owned: Collection[Place]
    ) -> tuple[dict[Place, ProgressRecord], dict[int, int]]:
        """What is stored now of `lanes`, and the ends of the log: it may have lost its beginning while nobody read it for them.

        Places that are `owned` by a worker are left as they are.
        """
        records = self.records(lanes, topic_id)
        begins, ends = self.admin.begin_offsets(self.topic), self.admin.end_offsets(self.topic)
        wrong = {
            uid
            for (uid, partition), record in records.items()
            if (uid, partition) not in owned and not fits(record.progress, begins.get(partition, 0), ends.get(partition, 0))
        }
        wrong |= lanes.keys() - {uid for uid, _ in records}
        if wrong:
            facts = log_facts(self.admin, self.topic)
            if facts.topic_id == topic_id:
                self.lanes.locate(self.topic, facts, [lanes[uid] for uid in sorted(wrong)], owned)
                records, ends = self.records(lanes, topic_id), dict(facts.ends)
        return records, ends

    def records(self, uids: Iterable[str], topic_id: str) -> dict[Place, ProgressRecord]:
        """What is stored now of these lanes, by lane uid and partition."""
        self.services.table.wait_current(Deadline(_CURRENT_SECONDS, self.services.clock))
        return {
            (uid, partition): record
            for uid in uids
            for partition, record in self.services.table.lane(uid, topic_id).items()
            if record.concerns(uid, topic_id)
        }


@dataclass(frozen=True, slots=True)
class Preparation:
    """Read once, right before a run begins."""

    context: TopicContext
    facts: LogFacts
    positions: list[LanePosition]

    @property
    def backlog(self) -> int:
        """Events between the best lane and the end."""
        return backlog(
            ({p: one.progress.position for p, one in lane.records.items()} for lane in self.positions), self.facts.ends
        )

    def spec(self, run: str) -> WorkerSpec:
        """For the workers of `run`. Lanes that are further behind than a ring can hold do not take part in where reading starts."""
        services, config = self.context.services, self.context.services.config
        limits = _limits(config.limits, config.budget, services.slots.claimed)
        return WorkerSpec(
            instance=config.instance,
            topic=self.context.topic,
            topic_id=self.facts.topic_id,
            kafka=self.context.settings,
            control=config.kafka,
            run=run,
            workers=self.facts.partitions,
            starts=start_offsets(self.positions, self.facts, reach=limits.ring_events),
            positions={lane.uid: {p: record.encode() for p, record in lane.records.items()} for lane in self.positions},
            grace=config.timing.grace,
            due=services.clock.now() + config.timing.batch,
            limits=limits,
            offset_extensions=config.offset_extensions,
            hop_limit=config.hop_limit,
            tokens=config.tokens,
            contract_topic=config.contract.topic,
            contract=services.contract().of_topic(self.context.topic),
            log_json=config.log_json,
            log_level=config.log_level,
        )


def prepare(context: TopicContext, plan: TopicPlan) -> Preparation:
    """Claim slots, find every lane's place. Raises `InsufficientSlots`, `TopicMissing` and other `Retriable`s."""
    services = context.services
    facts = log_facts(context.admin, context.topic)
    services.slots.claim(context.topic, facts.partitions)
    services.table.wait_current(Deadline(_CURRENT_SECONDS, services.clock))
    return Preparation(context, facts, context.lanes.locate(context.topic, facts, serving(plan.lanes).values()))


def serving(lanes: Mapping[str, Lane]) -> dict[str, Lane]:
    """The lanes that are to get on: paused ones keep their place and get nothing."""
    return {uid: lane for uid, lane in lanes.items() if lane.egress.headrace.get("paused") is not True}


def _limits(limits: Limits, budget: int, workers: int) -> Limits:
    """The dispatcher's budget, divided among all workers that run."""
    share = min(limits.budget_bytes, max(budget // max(1, workers), 2 * limits.response_bytes))
    return replace(limits, budget_bytes=share, ring_bytes=min(limits.ring_bytes, share // 3))
