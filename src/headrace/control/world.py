"""One reconcile's view of the world, and the plan that grows in it.

Reconcilers of single kinds read from here and write here; objects that were reconciled earlier in the same pass are seen with their
new status. Nothing outside changes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import cached_property
from typing import Any, TypeVar, cast

from headrace.control.dataplane import DataPlane
from headrace.control.model import (
    Action,
    KafkaProblem,
    Notice,
    ObjectKey,
    Observed,
    Plan,
    Steps,
    TopicKey,
    TopicState,
)
from headrace.core.contract import Reference, Resource
from headrace.core.resources.base import read_known
from headrace.core.resources.config import ConfigMap
from headrace.core.resources.duck import DeliverySpec
from headrace.core.resources.invalid import Invalid
from headrace.core.resources.kinds import Kind
from headrace.core.resources.timestamps import parse_time

Json = dict[str, Any]
K = TypeVar("K", bound=Kind)
V = TypeVar("V")
TRUST_BUNDLE = "networking.knative.dev/trust-bundle"
FINALIZER = "headrace.dev/finalizer"
_LONGEST_WAIT = 60.0


class ModelCache:
    """Parsed objects, and what is worked out from one object alone, kept from one pass to the next.

    An object is parsed again when it is another (uid) or was written (resourceVersion).
    """

    def __init__(self) -> None:
        self._parsed: dict[ObjectKey, tuple[Json, Kind | Invalid]] = {}
        self._derived: dict[ObjectKey, tuple[Kind, object]] = {}

    def parse(self, kind: type[Kind], key: ObjectKey, raw: Json) -> Kind | Invalid:
        """`raw` as a model of its kind, or what is wrong with it."""
        known = self._parsed.get(key)
        if known is not None and (known[0] is raw or _same(known[0], raw)):
            return known[1]
        parsed: Kind | Invalid
        try:
            parsed = read_known(kind, raw)
        except Invalid as error:
            parsed = error
        self._parsed[key] = (raw, parsed)
        return parsed

    def derived(self, model: K, work_out: Callable[[K], V]) -> V:
        """`work_out(model)`, remembered for this very model; one function per kind."""
        key = key_of(model)
        known = self._derived.get(key)
        if known is None or known[0] is not model:
            known = self._derived[key] = (model, work_out(model))
        return cast(V, known[1])

    def keep_only(self, keys: Container[ObjectKey]) -> None:
        """Forget objects that are gone."""
        for cache in (self._parsed, self._derived):
            for key in [key for key in cache if key not in keys]:
                del cache[key]


def _same(known: Json, raw: Json) -> bool:
    before, now = known.get("metadata") or {}, raw.get("metadata") or {}
    version = now.get("resourceVersion")
    return bool(version) and version == before.get("resourceVersion") and now.get("uid") == before.get("uid")


class World:
    """See the module's text."""

    def __init__(self, observed: Observed, cache: ModelCache) -> None:
        self.observed = observed
        self.settings = observed.settings
        self.now = observed.now
        self.cache = cache
        self._by_kind: dict[tuple[str, str], list[tuple[ObjectKey, Json]]] = {}
        for key, raw in observed.objects.items():
            self._by_kind.setdefault((key.group, key.kind), []).append((key, raw))
        self._statuses: dict[ObjectKey, Json] = {}
        self._contract: dict[str, Resource] = {}
        self._steps: list[Steps] = []
        self._notices: list[Notice] = []
        self._topics: set[TopicKey] = set()
        self._references: set[ObjectKey] = set()
        self._again: list[float] = []
        self.lost_positions: set[str] = set()
        """uids of lanes whose progress was found missing in this pass."""
        self.data_plane = DataPlane(observed)

    # -- reading ------------------------------------------------------------------------------------------------------

    def all(self, kind: type[K]) -> tuple[list[K], list[tuple[ObjectKey, Json, Invalid]]]:
        """The objects of a kind, oldest first, and those that can't be read, with the reason."""
        good: list[K] = []
        bad: list[tuple[ObjectKey, Json, Invalid]] = []
        for key, raw in self._by_kind.get((kind.GROUP, kind.KIND), ()):
            parsed = self.cache.parse(kind, key, raw)
            if isinstance(parsed, kind):
                good.append(parsed)
            elif isinstance(parsed, Invalid):
                bad.append((key, raw, parsed))
        good.sort(key=lambda model: (model.metadata.creation_timestamp or "", model.metadata.uid or ""))
        return good, bad

    def look(self, key: ObjectKey) -> Json | None:
        """The object with its newest status, or None; it is observed from now on. See `is_looked_up` for what None means."""
        self._references.add(key)
        raw = self.observed.objects.get(key)
        if raw is not None and key in self._statuses:
            return {**raw, "status": self._statuses[key]}
        return raw

    @cached_property
    def default_delivery(self) -> DeliverySpec | None:
        """The home's DeliverySpec."""
        return None if self.settings.delivery is None else read_known(DeliverySpec, dict(self.settings.delivery))

    def is_looked_up(self, key: ObjectKey) -> bool:
        """Whether an object that is not there is known not to exist."""
        return self.observed.looked_up is None or key in self.observed.looked_up

    def status(self, key: ObjectKey) -> Json:
        """The newest status of an object, empty if it has none."""
        if key in self._statuses:
            return self._statuses[key]
        status = (self.observed.objects.get(key) or {}).get("status")
        return status if isinstance(status, dict) else {}

    def observed_status(self, key: ObjectKey) -> Json:
        """The status as it was at the start of this pass."""
        status = (self.observed.objects.get(key) or {}).get("status")
        return status if isinstance(status, dict) else {}

    def topic(self, key: TopicKey) -> TopicState | None:
        """What is known of a topic; None: not asked yet. It is observed from now on."""
        self._topics.add(key)
        return self.observed.topics.get(key)

    def failure(self, action: Action) -> str | None:
        """What went wrong when this action was tried last."""
        failure = self.observed.failures.get(action)
        return None if failure is None else failure.message

    def due_at(self, action: Action) -> float:
        """When an action may be tried (again): Unix seconds; 0 if it did not fail."""
        failure = self.observed.failures.get(action)
        return 0.0 if failure is None else failure.at + min(_LONGEST_WAIT, 2.0 ** min(failure.attempts, 6))

    def hopeless(self, action: Action, state: TopicState | None, since: float) -> bool:
        """Whether to give up on a last action: Kafka was out of reach, or refused, for `give_up_s`, a moment ago as well."""
        return since >= self.settings.give_up_s and (isinstance(state, KafkaProblem) or self.due_at(action) > self.now)

    def trust_bundles(self) -> tuple[str, ...]:
        """The certificates that the installation trusts: labelled ConfigMaps of its namespace."""
        maps = [one for one in self.all(ConfigMap)[0] if one.metadata.namespace == self.settings.system_namespace]
        trusted = [one for one in maps if (one.metadata.labels or {}).get(TRUST_BUNDLE) == "true"]
        return tuple(text for one in trusted for _, text in sorted((one.data or {}).items()))

    # -- writing ------------------------------------------------------------------------------------------------------

    def set_status(self, key: ObjectKey, status: Json) -> None:
        """The whole new status of an object."""
        self._statuses[key] = status

    def want(self, resource: Resource) -> None:
        """A record that belongs into the contract."""
        self._contract[resource.uid] = resource

    def wanted(self, uid: str) -> Resource | None:
        """The record that was put into the contract in this pass."""
        return self._contract.get(uid)

    def keep(self, uid: str) -> None:
        """Leave a contract record as it is."""
        record = self.observed.contract.get(uid)
        if record is not None:
            self._contract.setdefault(uid, record.resource)

    def step(self, key: ObjectKey, *actions: Action) -> None:
        """Actions to run in order. One that failed lately is put off (2, 4, ... 60 s), and what follows it, too."""
        due: list[Action] = []
        for action in actions:
            at = self.due_at(action)
            if at > self.now:
                self.again(at)
                break
            due.append(action)
        if due:
            self._steps.append(Steps(key, tuple(due)))

    def tell(self, notice: Notice) -> None:
        """Something for the user."""
        self._notices.append(notice)

    def again(self, at: float) -> None:
        """Reconcile again at `at` (Unix seconds) even if nothing changes."""
        self._again.append(at)

    def plan(self) -> Plan:
        """What came together."""
        changed = {key: status for key, status in self._statuses.items() if status != self.observed_status(key)}
        later = [at for at in self._again if at > self.now]
        return Plan(
            statuses=changed,
            contract=self._contract,
            trust_bundles=self.trust_bundles(),
            steps=tuple(self._steps),
            notices=tuple(self._notices),
            topics=frozenset(self._topics),
            references=frozenset(self._references),
            again_at=min(later, default=None),
        )


def key_of(model: Kind) -> ObjectKey:
    """The key of an object."""
    return ObjectKey(model.GROUP, model.KIND, model.metadata.namespace or "", model.metadata.name)


def uid_of(model: Kind) -> str:
    """The object's uid."""
    return model.metadata.uid or ""


def has_finalizer(model: Kind, finalizer: str = FINALIZER) -> bool:
    """Whether the object may have things outside: it is not forgotten before they are gone."""
    return finalizer in (model.metadata.finalizers or ())


def is_deleting(model: Kind) -> bool:
    """Whether its deletion was asked for."""
    return model.metadata.deletion_timestamp is not None


def deleted_for(model: Kind, now: float) -> float:
    """Seconds since its deletion was asked for; 0 if it was not."""
    return seconds_since(model.metadata.deletion_timestamp, now)


def seconds_since(timestamp: str | None, now: float) -> float:
    """Seconds from an RFC 3339 time to `now`; 0 if there is none."""
    try:
        return 0.0 if timestamp is None else now - parse_time(timestamp) / 1000
    except ValueError:
        return 0.0


def reference_of(model: Kind) -> Reference:
    """How the contract names an object."""
    meta = model.metadata
    return Reference(
        uuid=meta.uid or "",
        namespace=meta.namespace or "",
        name=meta.name,
        kind=model.KIND,
        group_version=f"{model.GROUP}/v1" if model.KIND != "EventPolicy" else model.api_version,
    )


def annotations_of(status: Mapping[str, Any]) -> dict[str, str]:
    """The annotations of a status, to be changed."""
    return dict(status.get("annotations") or {})


def problem_of(state: TopicState | None) -> str | None:
    """What Kafka's problem is, if it has one."""
    return state.message if isinstance(state, KafkaProblem) else None
