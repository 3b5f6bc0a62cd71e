"""The consumer group of each subscription as a mirror of its progress, for lag tools, autoscalers and people.

The progress topic is the truth; nobody of ours reads the group. Commits are costly (one request per group), so they have a budget: lanes
that moved come first, in the order in which they did, and every lane is committed at least hourly, since Kafka forgets the offsets of
groups without members. A group that somebody consumes with refuses; that is reported and tried again later, not fought.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.base.clock import Clock
from headrace.base.log import get_logger
from headrace.core.progress import ProgressRecord
from headrace.dispatcher.progress_table import ProgressTable
from headrace.dispatcher.services import Admins
from headrace.kafka.admin import Refusal
from headrace.kafka.settings import KafkaSettings

log = get_logger(__name__)

GROUP_HAS_MEMBERS = "GroupHasMembers"
COMMIT_REFUSED = "CommitRefused"

_REFRESH = 3_000.0
_RETRY = 30.0
_TICK = 0.5


@dataclass(frozen=True, slots=True)
class Target:
    """Where a lane is mirrored to."""

    uid: str
    group: str
    topic: str
    topic_id: str
    settings: KafkaSettings


class Agenda:
    """Which lanes are due, and when. Pure; times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._moved: dict[str, None] = {}
        self._due: dict[str, float] = {}
        self._held: dict[str, float] = {}

    def keep(self, uids: Iterable[str], now: float) -> None:
        """These are the lanes there are: new ones are due at once, others are forgotten."""
        wanted = set(uids)
        for uid in set(self._due) - wanted:
            del self._due[uid]
            self._moved.pop(uid, None)
            self._held.pop(uid, None)
        for uid in wanted - set(self._due):
            self._due[uid] = now

    def moved(self, uid: str) -> None:
        """The lane got on."""
        if uid in self._due:
            self._moved.setdefault(uid)

    def take(self, count: int, now: float) -> list[str]:
        """At most `count` lanes to commit now; they are due again in an hour, or when they move."""
        chosen = [uid for uid in self._moved if self._held.get(uid, now) <= now][:count]
        if len(chosen) < count:
            rest = sorted((at, uid) for uid, at in self._due.items() if at <= now and uid not in self._moved)
            chosen += [uid for _, uid in rest[: count - len(chosen)]]
        for uid in chosen:
            self._moved.pop(uid, None)
            self._held.pop(uid, None)
            self._due[uid] = now + _REFRESH
        return chosen

    def again(self, uid: str, now: float) -> None:
        """It was refused: not before half a minute, however much it moves."""
        if uid in self._due:
            self._due[uid] = self._held[uid] = now + _RETRY


class Mirror:
    """Commits in a thread from `start` to `close`; `keep` gives it the lanes, `moved` says that one got on.

    `applied`: the contract offset that was last given with the lanes, once nothing is under way for lanes that were there before.
    """

    def __init__(self, table: ProgressTable, admins: Admins, clock: Clock, rate: float) -> None:
        self._table = table
        self._admins = admins
        self._clock = clock
        self._budget = max(1, int(rate * _TICK))
        self._agenda = Agenda()
        self._targets: dict[str, Target] = {}
        self._refused: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._in_round = False
        self._kept = -1
        self.applied = -1
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)

    def start(self) -> None:
        """Begin to commit."""
        self._thread.start()

    def keep(self, targets: Mapping[str, Target], contract_offset: int) -> None:
        """These are the lanes there are, by uid, as of this offset of the contract."""
        with self._lock:
            changed = [uid for uid, target in targets.items() if uid in self._targets and self._targets[uid] != target]
            self._targets = dict(targets)
            self._agenda.keep(targets, self._clock.monotonic())
            for uid in changed:
                self._agenda.moved(uid)
            self._refused = {uid: why for uid, why in self._refused.items() if uid in targets}
            self._kept = contract_offset
            if not self._in_round:
                self.applied = contract_offset

    def moved(self, uid: str, partition: int) -> None:
        """Progress of a lane was stored."""
        with self._lock:
            self._agenda.moved(uid)

    @property
    def conditions(self) -> dict[str, dict[str, str]]:
        """Lane uid -> condition -> message, for groups that refuse."""
        with self._lock:
            return dict(self._refused)

    def close(self) -> None:
        """Commit what has moved, as far as one round goes, and stop."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(_TICK):
            self._round(self._budget)
        self._round(max(self._budget, 1_000))

    def _round(self, budget: int) -> None:
        """One round of commits. A lane that is dropped meanwhile may still be committed by it, but by none after it."""
        with self._lock:
            self._in_round = True
        try:
            self._commit_due(budget)
        finally:
            with self._lock:
                self._in_round = False
                self.applied = self._kept

    def _commit_due(self, budget: int) -> None:
        with self._lock:
            uids = self._agenda.take(budget, self._clock.monotonic())
            targets = [self._targets[uid] for uid in uids]
        by_kafka: dict[KafkaSettings, list[Target]] = defaultdict(list)
        for target in targets:
            by_kafka[target.settings].append(target)
        for settings, some in by_kafka.items():
            try:
                self._commit(settings, some)
            except Exception as error:
                log.warning("Groups could not be mirrored", kafka=settings.bootstrap_servers, error=str(error) or repr(error))
                with self._lock:
                    for target in some:
                        self._agenda.again(target.uid, self._clock.monotonic())

    def _commit(self, settings: KafkaSettings, targets: list[Target]) -> None:
        """One group may serve several lanes only by mistake; the last one then wins."""
        commits: dict[str, dict[tuple[str, int], int]] = {}
        for target in targets:
            offsets = positions(self._table.lane(target.uid, target.topic_id), target)
            if offsets:
                commits[target.group] = {(target.topic, partition): offset for partition, offset in offsets.items()}
        refused = self._admins.of(settings).commit_many(commits) if commits else {}
        now = self._clock.monotonic()
        with self._lock:
            for target in targets:
                self._note(target, list(refused.get(target.group, {}).values()), now)

    def _note(self, target: Target, refusals: list[Refusal], now: float) -> None:
        if not refusals:
            self._refused.pop(target.uid, None)
            return
        self._agenda.again(target.uid, now)
        condition = GROUP_HAS_MEMBERS if any(one.has_members for one in refusals) else COMMIT_REFUSED
        if condition not in self._refused.get(target.uid, {}):
            log.warning("A group does not take offsets", group=target.group, condition=condition, reason=refusals[0].text)
        self._refused[target.uid] = {condition: f"group {target.group}: {refusals[0].text}"}


def positions(records: Mapping[int, ProgressRecord], target: Target) -> dict[int, int]:
    """What the group should say: the lowest unfinished offset of each partition."""
    return {
        partition: record.progress.low for partition, record in records.items() if record.concerns(target.uid, target.topic_id)
    }
