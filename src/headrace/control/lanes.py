"""One subscription of one topic (a Trigger's, or an entry of a channel): its positions, its contract record, its way out.

    nothing -> placing (a record in the status, before anything is written) -> positions of every partition written
            -> record in the contract -> the worker of every partition has it -> Ready

What was placed is remembered in the status (`LaneRecord`), so that the lane can be found and removed when everything that it came
from is gone. Progress that is missing later was lost: then the group's position counts, else the oldest event kept, never the
latest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from headrace.control import gates
from headrace.control.conditions import TRUE, Conditions, Verdict, false, true, unknown
from headrace.control.model import (
    Action,
    AtOffsets,
    AtTime,
    DeleteGroup,
    DropPositions,
    Earliest,
    FromGroup,
    KafkaProblem,
    KafkaRef,
    Latest,
    Notice,
    ObjectKey,
    SettleGroup,
    Start,
    TopicAbsent,
    TopicKey,
    WriteInitialPositions,
)
from headrace.control.world import World
from headrace.core.contract import DeliveryOrder
from headrace.core.reasons import ConditionType, Reason
from headrace.core.resources.annotations import From, InitialOffset, LaneOptions
from headrace.core.resources.timestamps import parse_time

Json = dict[str, Any]
_STALLED_MS = 60_000
_BEHIND = ("PARKED", "CATCHING_UP")
_LOST = (ConditionType.POSITION_LOST, "OffsetsExpired")
"""What drivers say of a lane whose place is not where it was: by an accident, or because retention has overtaken it."""


@dataclass(frozen=True, slots=True)
class LaneRecord:
    """What a status keeps of a lane. `partitions`: how many had positions at the last look; 0 = none was placed yet.

    `keep`: the position outlives the lane. For the lanes of channels, `removed_at`: Unix seconds at which its removal was first seen;
    `leaving`: its last steps were asked for.
    """

    bootstrap: str
    topic: str
    topic_id: str
    group: str
    secret: str = ""
    partitions: int = 0
    keep: bool = False
    removed_at: float = 0.0
    leaving: bool = False

    @property
    def key(self) -> TopicKey:
        """The topic."""
        namespace, _, name = self.secret.partition("/")
        secret = ObjectKey("", "Secret", namespace, name) if self.secret else None
        return TopicKey(KafkaRef(self.bootstrap, secret), self.topic)

    def dump(self) -> str:
        """As the text of an annotation."""
        values = {name: getattr(self, name) for name in _FIELDS}
        return json.dumps({name: value for name, value in values.items() if value}, sort_keys=True)


_FIELDS = frozenset(item.name for item in fields(LaneRecord))


@lru_cache(maxsize=16_384)
def load_record(text: str | None) -> LaneRecord | None:
    """The record in an annotation; fields of a newer version are left out; one that can't be read counts as none."""
    try:
        known = {item.name for item in fields(LaneRecord)}
        return (
            None if text is None else LaneRecord(**{name: value for name, value in json.loads(text).items() if name in known})
        )
    except (ValueError, TypeError, AttributeError):
        return None


@dataclass(frozen=True, slots=True)
class Lane:
    """A wanted lane. `created`: RFC 3339, when its object was made. `may_act`: its object has our finalizer."""

    uid: str
    owner: ObjectKey
    topic: TopicKey
    group: str
    options: LaneOptions
    created: str | None
    may_act: bool = True


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a lane stands: its record for the status, and whether every partition has a position."""

    record: LaneRecord
    verdict: Verdict
    partitions: int

    @property
    def done(self) -> bool:
        """Whether it may be delivered from."""
        return self.verdict.ok


def place(world: World, lane: Lane, before: LaneRecord | None, topic_id: str, partitions: int) -> Placed:
    """Ask for the positions that are missing. `topic_id`, `partitions`: what is known of the topic ("" and 0: nothing).

    A lane that was placed stays placed while its topic is the same: what is written again then is repaired on the way.
    """
    fresh = LaneRecord(
        bootstrap=lane.topic.kafka.bootstrap,
        topic=lane.topic.topic,
        topic_id=topic_id,
        group=lane.group,
        secret=_secret(lane.topic.kafka),
        keep=lane.options.keep_position,
    )
    same_topic = before is not None and before.key == lane.topic
    placed = same_topic and before is not None and before.partitions > 0 and before.topic_id == topic_id
    if not topic_id:
        return Placed(fresh, unknown(Reason.POSITIONS_NOT_WRITTEN, "the topic does not exist yet"), 0)
    have = {p for p, written in world.observed.positions.get(lane.uid, {}).items() if written == topic_id and p < partitions}
    missing = tuple(p for p in range(partitions) if p not in have)
    if placed and before is not None:
        _repair(world, lane, topic_id, missing, before.partitions)
        record = replace(fresh, partitions=before.partitions if missing else partitions)
        return Placed(record, TRUE, partitions)
    if not missing:
        return Placed(replace(fresh, partitions=partitions), TRUE, partitions)
    remade = same_topic and before is not None and before.partitions > 0
    start: Start = Earliest() if remade else start_of(lane.options, lane.created)
    if remade:
        # The record keeps saying that the lane was placed on the topic of before, so that "remade" still holds next time.
        fresh = before if before is not None else fresh
    return Placed(fresh, _write(world, lane, topic_id, start, missing), partitions)


def start_of(options: LaneOptions, created: str | None) -> Start:
    """Where a new lane starts. A duration counts back from the time at which its object was made."""
    start = _first(options.initial_offset, created)
    return FromGroup(start) if options.keep_position else start


def lane_condition(world: World, lane: Lane, placed: Placed, partitions: int) -> Verdict:
    """Whether every event from now on reaches the subscriber: positions, contract, workers."""
    if not placed.done:
        return placed.verdict
    wanted, record = world.wanted(lane.uid), world.observed.contract.get(lane.uid)
    if wanted is None:
        return unknown(Reason.NOT_IN_CONTRACT, "its references have to be resolved first")
    if record is None or record.resource != wanted:
        return unknown(Reason.CONTRACT_NOT_WRITTEN, "the contract record is being written")
    return gates.egress_applied(world, lane.topic.topic, partitions, lane.uid, record.offset)


def remove(
    world: World, uid: str, owner: ObjectKey, record: LaneRecord | None, since: float
) -> tuple[tuple[Action, ...], str] | str:
    """One step of the way out of a lane: a text that says what is waited for, or the last actions and what they do.

    `since`: seconds since its removal was asked for. After the home's `give_up_s` the group is left behind.
    """
    mark = gates.drop_mark(world, uid)
    if mark is None:
        return "its contract record is being removed"
    if record is None:
        return (DropPositions(uid),) if uid in world.observed.positions else (), "it is being forgotten"
    if not gates.egress_dropped(world, record.topic, mark):
        return "workers still deliver for it"
    state = world.topic(record.key)
    group: Action = DeleteGroup(record.key.kafka, record.group)
    if record.keep:
        if isinstance(state, TopicAbsent):
            return (DropPositions(uid),), "its topic is gone, and its positions with it"
        group = SettleGroup(uid, record.key, record.group)
    problem = state.message if isinstance(state, KafkaProblem) else world.failure(group)
    if problem is not None:
        if world.hopeless(group, state, since):
            text = f"group {record.group} was left behind: {problem}"
            world.tell(Notice(owner, uid, Reason.GROUP_LEFT_BEHIND, text, warning=True))
            return (DropPositions(uid),), text
        world.again(world.now + max(1.0, world.settings.give_up_s - since))
    doing = f"group {record.group} is being {'settled' if record.keep else 'deleted'}"
    return (group, DropPositions(uid)), f"{doing}{f': {problem}' if problem else ''}"


def inform(world: World, conditions: Conditions, uid: str, topic: str | None, options: LaneOptions) -> None:
    """Conditions for information: what driver and workers say about the lane."""
    if options.paused:
        conditions.inform(
            ConditionType.PAUSED, true(Reason.PAUSED_BY_USER, "deliveries wait; nothing is lost while events are kept")
        )
    _inform_lost(world, conditions, uid)
    for driver in world.data_plane.drivers:
        text = driver.lanes.get(uid, {}).get(ConditionType.GROUP_HAS_MEMBERS)
        if text is not None:
            conditions.inform(ConditionType.GROUP_HAS_MEMBERS, true(Reason.FOREIGN_MEMBERS, text))
    lanes = world.data_plane.lanes.get(uid, ())
    behind = any(lane.state in _BEHIND for lane in lanes)
    if behind:
        conditions.inform(ConditionType.LAGGING, true(Reason.CATCHING_UP, "it is behind, and catching up"))
    problem = gates.driver_problem(world, topic, behind=behind) if topic else None
    errors = sorted(lane.last_error for lane in lanes if lane.retrying and lane.oldest_ms >= _STALLED_MS)
    blocked = sorted({lane.blocked for lane in lanes if lane.blocked})
    if problem is not None:
        conditions.inform(ConditionType.STALLED, true(problem.reason or Reason.DISPATCHER_PROBLEM, problem.message))
    elif blocked:
        conditions.inform(ConditionType.STALLED, true(Reason.NO_TOKEN, f"its events wait: {blocked[0]}"))
    elif errors:
        conditions.inform(ConditionType.STALLED, true(Reason.SUBSCRIBER_FAILING, f"no progress for a minute: {errors[0]}"))


def _inform_lost(world: World, conditions: Conditions, uid: str) -> None:
    told = [driver.lanes.get(uid, {}).get(condition) for driver in world.data_plane.drivers for condition in _LOST]
    texts = [text for text in told if text]
    before = conditions.before(ConditionType.POSITION_LOST)
    if uid in world.lost_positions:
        texts.append("its progress was missing: it goes on from its group's offsets, else from the oldest event kept")
    if texts:
        conditions.inform(ConditionType.POSITION_LOST, true(Reason.RETENTION_OR_LOSS, texts[0]))
    elif before is not None and before.ok:
        conditions.inform(ConditionType.POSITION_LOST, before)


def _repair(world: World, lane: Lane, topic_id: str, missing: tuple[int, ...], known: int) -> None:
    lost = tuple(p for p in missing if p < known)
    added = tuple(p for p in missing if p >= known)
    if lost:
        world.lost_positions.add(lane.uid)
        _write(world, lane, topic_id, FromGroup(Earliest()), lost)
    if added:
        _write(world, lane, topic_id, Earliest(), added)


def _write(world: World, lane: Lane, topic_id: str, start: Start, missing: tuple[int, ...]) -> Verdict:
    action = WriteInitialPositions(lane.uid, lane.topic, topic_id, lane.group, start, missing)
    if lane.may_act:
        world.step(lane.owner, action)
    failure = world.failure(action)
    if failure is not None:
        return false(Reason.POSITIONS_FAILED, f"initial positions in {lane.topic.topic} could not be written: {failure}")
    return unknown(Reason.POSITIONS_NOT_WRITTEN, f"initial positions in {lane.topic.topic} are being written")


def _first(offset: InitialOffset, created: str | None) -> Latest | Earliest | AtTime | AtOffsets:
    match offset.start:
        case From.EARLIEST:
            return Earliest()
        case From.TIME:
            return AtTime(offset.ms)
        case From.AGO:
            return AtTime(parse_time(created or "1970-01-01T00:00:00Z") - offset.ms)
        case From.OFFSETS:
            return AtOffsets(offset.offsets)
        case _:
            return Latest()


def _secret(kafka: KafkaRef) -> str:
    return "" if kafka.secret is None else f"{kafka.secret.namespace}/{kafka.secret.name}"


def peer_order(order: DeliveryOrder) -> DeliveryOrder:
    """The order mode in the peer's own field: what it does not know (by key) is ordered for it."""
    return DeliveryOrder.UNORDERED if order is DeliveryOrder.UNORDERED else DeliveryOrder.ORDERED


def egress_extras(options: LaneOptions, order: DeliveryOrder, hop_limit: int | None) -> Json:
    """The `headrace` object of an egress (see `core.contract.Egress`).

    Besides what is named there: `hopLimit` (how often an event may come back as a reply), `until` (partition -> offset of the first
    event that is not delivered any more).
    """
    extras: Json = {"initialised": True}
    if order is DeliveryOrder.KEY:
        extras["order"] = str(order)
    if options.paused:
        extras["paused"] = True
    if options.max_rate is not None:
        extras["maxRate"] = options.max_rate
    if options.max_in_flight is not None:
        extras["maxInFlight"] = options.max_in_flight
    if options.park_undeliverable:
        extras["onUndeliverable"] = "park"
    if options.until:
        extras["until"] = {str(partition): offset for partition, offset in options.until}
    limit = options.hop_limit or hop_limit
    if limit is not None:
        extras["hopLimit"] = limit
    return extras
