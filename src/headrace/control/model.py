"""What a home shows the control plane, and what the control plane wants in return. Values only.

    observe -> Observed -> reconcile() -> Plan -> apply -> observe again ...

A home (standalone or Kubernetes) keeps `Observed` up to date, calls `headrace.control.reconcile.reconcile`, writes the statuses
and contract records that differ from what is there, runs the steps, and calls again whenever something it observes has changed or
`Plan.again_at` is reached. The plan converges: on an unchanged world it repeats itself and holds no steps that are done.

Three rules for a home:
 1. It observes everything before the first call: an object that is merely not loaded yet looks deleted.
 2. The steps of one `Steps` run in order, and stop at the first that fails; the failure is shown in `Observed.failures` until the
    same action succeeds. Different `Steps` are independent.
 3. Statuses are written before steps, contract records before statuses are reported as applied (the reports decide).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NewType

from headrace.core.contract import Resource

if TYPE_CHECKING:
    from headrace.control.settings import Settings
    from headrace.core.heartbeat import DriverReport, ReceiverReport, WorkerReport

Json = dict[str, Any]
Uid = NewType("Uid", str)


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """An object by name. `group` is empty for v1 (`Secret`, `ConfigMap`, `Service`); versions do not matter here."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class KafkaRef:
    """A Kafka connection: where, and the v1 Secret that opens it.

    Without a secret: when `bootstrap` is that of the home's own Kafka, the home's own credentials; else none.
    """

    bootstrap: str
    secret: ObjectKey | None = None


@dataclass(frozen=True, slots=True, order=True)
class TopicKey:
    """A topic of one Kafka."""

    kafka: KafkaRef
    topic: str


# -- what is observed -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic that exists. `topic_id` is Kafka's own id: a deleted and re-made topic has another one."""

    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class TopicAbsent:
    """Kafka answered that there is no such topic."""


@dataclass(frozen=True, slots=True)
class KafkaProblem:
    """Kafka could not be asked: unreachable, refused, a Secret that cannot be used. `message` is for the user, without secrets."""

    message: str


TopicState = TopicFacts | TopicAbsent | KafkaProblem


@dataclass(frozen=True, slots=True)
class ContractRecord:
    """A contract Resource as it is written, and the mark that a report's `contract_offset` reaches once it is applied."""

    resource: Resource
    offset: int


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of an action: what to tell the user, how often in a row it failed, when (Unix seconds)."""

    message: str
    attempts: int
    at: float


@dataclass(frozen=True, slots=True)
class Observed:
    """All that a reconcile sees.

    `objects`: every object by key, as JSON in its stored version (`metadata.uid`, `generation`, `creationTimestamp`,
    `resourceVersion` set), also foreign ones that are referred to (Addressables, Services, Secrets, ConfigMaps).
    `looked_up`: keys that were looked up and are not there; `None` = `objects` is all there is (standalone).
    `topics`: what Kafka said about each topic of `Plan.topics`; missing = not asked yet.
    `positions`: lane uid -> partition -> topic id of the lane's record in the progress topic.
    `contract`: uid -> what is written now; `dropped`: uid -> mark of its tombstone, as far as known; `contract_end`: mark of the
    last record of all. `runs`: topic -> id of its current run. Reports: the latest of each instance, however old.
    """

    now: float
    settings: Settings
    objects: Mapping[ObjectKey, Json]
    looked_up: frozenset[ObjectKey] | None = None
    topics: Mapping[TopicKey, TopicState] = field(default_factory=dict)
    positions: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    contract: Mapping[str, ContractRecord] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    contract_end: int = -1
    runs: Mapping[str, str] = field(default_factory=dict)
    receivers: Iterable[ReceiverReport] = ()
    workers: Iterable[WorkerReport] = ()
    drivers: Iterable[DriverReport] = ()
    failures: Mapping[Action, Failure] = field(default_factory=dict)


# -- what is wanted ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Latest:
    """Start at the end of each partition, as it is when the position is written."""


@dataclass(frozen=True, slots=True)
class Earliest:
    """Start at the oldest event that is kept."""


@dataclass(frozen=True, slots=True)
class AtTime:
    """Start at the first event of `at_ms` (Unix milliseconds) or later; at the end where there is none."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Start at these offsets (partition, offset), within what is kept; at the end of partitions that are not named."""

    offsets: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class FromGroup:
    """Start where the consumer group stands; `otherwise` for partitions on which the group has no offset."""

    otherwise: Latest | Earliest | AtTime | AtOffsets


Start = Latest | Earliest | AtTime | AtOffsets | FromGroup


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create the topic; that it exists already counts as success. `replication` -1 = the Kafka's default."""

    topic: TopicKey
    partitions: int
    replication: int
    config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete the topic; that it is absent counts as success. Only a topic with this id, if one is given."""

    topic: TopicKey
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class WriteInitialPositions:
    """Write the progress records (run "") of a lane for these partitions, where there is none of this topic id yet.

    The offsets are committed to `group`, too, so that lag tools see it from the start.
    """

    lane: str
    topic: TopicKey
    topic_id: str
    group: str
    where: Start
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SettleGroup:
    """Commit the lane's last progress to its group, before the progress is dropped and the group is kept."""

    lane: str
    topic: TopicKey
    group: str


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Delete the consumer group; that it is absent counts as success."""

    kafka: KafkaRef
    group: str


@dataclass(frozen=True, slots=True)
class DropPositions:
    """Write tombstones for all progress records of a lane."""

    lane: str


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add a finalizer to the object with this uid. Nothing outside is made for an object before it has one."""

    key: ObjectKey
    uid: str
    finalizer: str


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove a finalizer. An object that is being deleted is forgotten when its last finalizer goes."""

    key: ObjectKey
    uid: str
    finalizer: str


@dataclass(frozen=True, slots=True)
class CreateObject:
    """Create an object that belongs to another (`metadata.ownerReferences`). `manifest` is canonical JSON text."""

    key: ObjectKey
    manifest: str


@dataclass(frozen=True, slots=True)
class PatchObject:
    """Merge-patch fields that are the controller's own (`spec.subscribers`) in the object with this uid. `patch` is JSON text.

    Not tied to a resourceVersion: nobody else writes these fields, and each write of the status would make it stale.
    """

    key: ObjectKey
    uid: str
    patch: str


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete an object with this uid (it goes through its own finalization)."""

    key: ObjectKey
    uid: str


Action = (
    CreateTopic
    | DeleteTopic
    | WriteInitialPositions
    | SettleGroup
    | DeleteGroup
    | DropPositions
    | AddFinalizer
    | RemoveFinalizer
    | CreateObject
    | PatchObject
    | DeleteObject
)


@dataclass(frozen=True, slots=True)
class Steps:
    """Actions for one object, to run in order up to the first failure."""

    key: ObjectKey
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to tell the user about an object once (a Kubernetes Event, a line in the log)."""

    key: ObjectKey
    uid: str
    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What should be, as far as it can be told now.

    `statuses`: the whole `.status` of each object whose status differs from the observed one.
    `contract`: every wanted record by uid; a record that is not in it is to be dropped.
    `trust_bundles`: PEM texts for the contract as a whole.
    `topics`, `references`: what the home has to keep observing (a topic: look again at least every 30 s).
    `again_at`: Unix seconds at which to call again though nothing changed (a lease ends, an action is due again), or None.
    """

    statuses: Mapping[ObjectKey, Json] = field(default_factory=dict)
    contract: Mapping[str, Resource] = field(default_factory=dict)
    trust_bundles: tuple[str, ...] = ()
    steps: tuple[Steps, ...] = ()
    notices: tuple[Notice, ...] = ()
    topics: frozenset[TopicKey] = frozenset()
    references: frozenset[ObjectKey] = frozenset()
    again_at: float | None = None
