"""Where each lane of a topic stands when a run starts, and from where the topic is read. Pure: facts in, decisions out.

The truth is the progress topic. For a lane without a usable record there (interfaces, "Offsets"):

    other partitions of the lane have records    the partition was added: from its beginning
    the topic was made anew since                a new lane: from the beginning, all in the topic is newer than the lane
    its group has an offset                      from there (PositionLost when the control plane had initialised the lane)
    it was initialised, and nothing is left      from the earliest kept, PositionLost; never from the latest
    it was never initialised (contract files)    from the end

Every position is then clamped to the log: what retention removed is counted as lost, and what a log that got shorter holds no more is
forgotten, since other events will come at those offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from headrace.core.progress import Progress, ProgressRecord

POSITION_LOST = "PositionLost"
OFFSETS_EXPIRED = "OffsetsExpired"


@dataclass(frozen=True, slots=True)
class LogFacts:
    """A topic's log as Kafka has it: partition -> offset. `begins`: lowest kept; `ends`: of the next record."""

    topic_id: str
    begins: Mapping[int, int]
    ends: Mapping[int, int]

    @property
    def partitions(self) -> int:
        return len(self.ends)


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """What is known of a lane. `records`: partition -> its record, whatever topic it is about. `group`: partition -> committed offset."""

    uid: str
    initialised: bool
    records: Mapping[int, ProgressRecord] = field(default_factory=dict)
    group: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LanePosition:
    """The decision. `fresh`: partitions whose record has to be written before the lane starts. `lost`: events that retention took.

    `problems`: condition -> message.
    """

    uid: str
    records: Mapping[int, ProgressRecord]
    fresh: frozenset[int] = frozenset()
    lost: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)


def needs_group(lane: LaneFacts, log: LogFacts) -> bool:
    """Whether the group's offsets matter: some partition has no record of this lane and topic, and no other explanation."""
    return any(not _current(lane, log, partition) for partition in log.ends) and not _known(lane)


def fits(progress: Progress, begin: int, end: int) -> bool:
    """Whether the log, which has `begin` to before `end`, holds all that is unfinished, and all that is known."""
    return progress.low >= begin and progress.reach <= end


def locate(lane: LaneFacts, log: LogFacts, at_ms: int, owned: Collection[int] = ()) -> LanePosition:
    """Where `lane` stands in every partition of the topic but those `owned` by a worker, whose records are the worker's to change.

    `at_ms`: now, for the records that are made.
    """
    records: dict[int, ProgressRecord] = {}
    fresh: set[int] = set()
    lost = 0
    problems: dict[str, str] = {}
    for partition, end in log.ends.items():
        if partition in owned:
            continue
        begin = log.begins[partition]
        record = lane.records.get(partition) if _current(lane, log, partition) else None
        if record is None:
            offset, gone = _absent(lane, partition, begin, end)
            record = ProgressRecord(Progress.initial(offset), uid=lane.uid, topic_id=log.topic_id, at=at_ms)
            fresh.add(partition)
            if gone:
                problems[POSITION_LOST] = gone
        progress = record.progress
        if not fits(progress, begin, end):
            if progress.reach > end:
                problems[POSITION_LOST] = f"partition {partition} ends at {end}, before the lane's position: it goes on there"
            progress = progress.cut_at(end)
            lost += progress.unfinished_below(begin)
            record = record.with_progress(progress.moved_to(begin))
            fresh.add(partition)
        records[partition] = record
    if lost:
        problems[OFFSETS_EXPIRED] = expired(lost)
    return LanePosition(lane.uid, records, frozenset(fresh), lost, problems)


def expired(lost: int) -> str:
    """What is said of a lane that retention has overtaken."""
    return f"retention removed {lost} offsets before they were delivered"


def start_offsets(lanes: list[LanePosition], log: LogFacts, reach: int | None = None) -> dict[int, int]:
    """Per partition, the lowest position of the lanes that are at most `reach` events behind the end (None: of all), else the end."""
    starts = dict(log.ends)
    for lane in lanes:
        for partition, record in lane.records.items():
            position = record.progress.position
            if reach is None or log.ends[partition] - position <= reach:
                starts[partition] = min(starts[partition], position)
    return starts


def _current(lane: LaneFacts, log: LogFacts, partition: int) -> bool:
    record = lane.records.get(partition)
    return record is not None and record.concerns(lane.uid, log.topic_id)


def _known(lane: LaneFacts) -> bool:
    return any(record.uid == lane.uid for record in lane.records.values())


def _absent(lane: LaneFacts, partition: int, begin: int, end: int) -> tuple[int, str]:
    """The offset of a lane without a record in `partition`, and what to say when its place was lost."""
    if _known(lane):
        return begin, ""
    if partition in lane.group:
        lost = f"no progress is stored for partition {partition}: the group's offset is taken" if lane.initialised else ""
        return lane.group[partition], lost
    if lane.initialised:
        return begin, f"no progress is stored for partition {partition}: the lane goes on from the earliest event kept"
    return end, ""
