"""A home in memory: it observes, reconciles and applies like the real ones, on a Kafka and a data plane that are made up.

Each test says what is broken (`kafka_down`, `receivers = ()`, `hold_workers`), and `settle` runs rounds until nothing changes.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import yaml

from headrace.control import model
from headrace.control.model import ObjectKey, Observed, Plan, TopicFacts, TopicKey
from headrace.control.reconcile import reconcile
from headrace.control.settings import Settings
from headrace.control.world import ModelCache
from headrace.core.contract import Resource, dump, parse_resource
from headrace.core.heartbeat import DriverReport, LaneReport, ReceiverReport, TopicReport, WorkerReport
from headrace.core.resources.admission import admit
from headrace.core.resources.registry import kind_of
from headrace.core.resources.rules import Rules
from headrace.core.resources.timestamps import format_time

Json = dict[str, Any]
CONTROLLER = "controller"
HOME_KAFKA = model.KafkaRef("127.0.0.1:9092")
START = 1_800_000_000.0


class FakeHome:
    """See the module's text. `log`: every action that was done, in order."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings(kafka=HOME_KAFKA)
        self.now = START
        self.objects: dict[ObjectKey, Json] = {}
        self.looked_up: frozenset[ObjectKey] | None = None
        self.topics: dict[TopicKey, TopicFacts] = {}
        self.groups: set[str] = set()
        self.positions: dict[str, dict[int, str]] = {}
        self.contract: dict[str, model.ContractRecord] = {}
        self.dropped: dict[str, int] = {}
        self.end = -1
        self.failures: dict[model.Action, model.Failure] = {}
        self.refuse: dict[type[Any], str] = {}
        self.log: list[model.Action] = []
        self.notices: list[model.Notice] = []
        self.plans: list[Plan] = []
        self.receivers: tuple[str, ...] = ("r1",)
        self.serving_tls: tuple[str, ...] = ()
        self.held_at: dict[str, int] = {}
        self.held_lanes: dict[str, list[str]] = {}
        self.closed: dict[str, str] = {}
        self.kafka_down = ""
        self.dispatcher = True
        self.problems: dict[str, str] = {}
        self.shortages: dict[str, str] = {}
        self.driver_at: int | None = None
        self.driver_lanes: dict[str, dict[str, str]] = {}
        self.lane_reports: dict[str, LaneReport] = {}
        self._uids = itertools.count(1)
        self._versions = itertools.count(1)
        self._topic_ids = itertools.count(1)
        self._cache = ModelCache()

    # -- what users do ----------------------------------------------------------------------------------------------

    def apply(self, text: str, *, user: str = "somebody") -> list[ObjectKey]:
        """Create or replace every object of a YAML text; namespace `default` where none is given."""
        return [self.write(raw, user=user) for raw in yaml.safe_load_all(text)]

    def write(self, raw: Json, *, user: str = "somebody") -> ObjectKey:
        """Create or replace one object."""
        raw = copy.deepcopy(raw)
        meta = raw.setdefault("metadata", {})
        meta.setdefault("namespace", "default")
        info = kind_of(raw)
        key = ObjectKey(info.group, info.kind, meta["namespace"], meta["name"])
        old = self.objects.get(key)
        new = admit(raw, old, Rules(user=user, controllers=frozenset({CONTROLLER})))
        before = (old or {}).get("metadata", {})
        new["metadata"] |= {
            "uid": before.get("uid") or f"uid-{next(self._uids)}",
            "creationTimestamp": before.get("creationTimestamp") or format_time(self.now),
            "generation": before.get("generation", 0) + (old is None or old.get("spec") != new.get("spec")),
        }
        if old is not None and "finalizers" in before:
            new["metadata"].setdefault("finalizers", before["finalizers"])
        self.store(key, new)
        return key

    def delete(self, key: ObjectKey) -> None:
        """Ask for the deletion of an object."""
        raw = copy.deepcopy(self.objects[key])
        if raw["metadata"].get("finalizers"):
            raw["metadata"].setdefault("deletionTimestamp", format_time(self.now))
            self.store(key, raw)
        else:
            del self.objects[key]

    # -- what tests ask ----------------------------------------------------------------------------------------------

    def status(self, key: ObjectKey) -> Json:
        """The status of an object."""
        status: Json = self.objects[key].get("status", {})
        return status

    def condition(self, key: ObjectKey, kind: str = "Ready") -> Json:
        """A condition; empty if there is none."""
        return next((item for item in self.status(key).get("conditions", ()) if item["type"] == kind), {})

    def verdict(self, key: ObjectKey, kind: str = "Ready") -> tuple[str, str]:
        """Status and reason of a condition."""
        condition = self.condition(key, kind)
        return condition.get("status", ""), condition.get("reason", "")

    def uid(self, key: ObjectKey) -> str:
        """The uid of an object."""
        return str(self.objects[key]["metadata"]["uid"])

    def resource(self, key: ObjectKey) -> Resource | None:
        """Its contract record."""
        record = self.contract.get(self.uid(key))
        return None if record is None else record.resource

    def done(self, kind: type[Any]) -> list[Any]:
        """The actions of one type that were done."""
        return [action for action in self.log if isinstance(action, kind)]

    # -- the loop ---------------------------------------------------------------------------------------------------

    def observed(self) -> Observed:
        """What a home would see now."""
        return Observed(
            now=self.now,
            settings=self.settings,
            objects=self.objects,
            looked_up=self.looked_up,
            topics=_Topics(self),
            positions=self.positions,
            contract=self.contract,
            dropped=self.dropped,
            contract_end=self.end,
            runs=dict.fromkeys(self._delivered(), "run"),
            receivers=[self._receiver(name) for name in self.receivers],
            workers=list(self._workers()),
            drivers=[self._driver()] if self.dispatcher else [],
            failures=self.failures,
        )

    def round(self) -> Plan:
        """Observe, reconcile, apply once."""
        plan = reconcile(self.observed(), self._cache)
        self.plans.append(plan)
        for uid, resource in plan.contract.items():
            if uid not in self.contract or self.contract[uid].resource != resource:
                self.end += 1
                self.contract[uid] = model.ContractRecord(parse_resource(dump(resource)), self.end)
        for uid in [uid for uid in self.contract if uid not in plan.contract]:
            self.end += 1
            del self.contract[uid]
            self.dropped[uid] = self.end
        for key, status in plan.statuses.items():
            self.store(key, {**self.objects[key], "status": status})
        for steps in plan.steps:
            for action in steps.actions:
                if not self._do(action):
                    break
        self.notices += plan.notices
        return plan

    def settle(self, rounds: int = 60) -> Plan:
        """Run rounds until one changes nothing."""
        for _ in range(rounds):
            before = self._picture()
            plan = self.round()
            if self._picture() == before:
                return plan
        raise AssertionError(f"still changing after {rounds} rounds: {plan}")

    # -- the made-up Kafka and data plane ----------------------------------------------------------------------------

    def make_topic(self, topic: str, partitions: int = 3, kafka: model.KafkaRef = HOME_KAFKA) -> TopicKey:
        """A topic that somebody made."""
        key = TopicKey(kafka, topic)
        self.topics[key] = TopicFacts(f"T{next(self._topic_ids)}", partitions)
        return key

    def hold(self, process: str) -> None:
        """A process (`r1`, `workers`) applies nothing of the contract from now on."""
        self.held_at[process] = self.end
        if process == "workers":
            self.held_lanes = self._lanes()

    def release(self) -> None:
        """All processes go on."""
        self.held_at.clear()
        self.held_lanes = {}

    def _picture(self) -> str:
        return repr((self.objects, self.contract, self.topics, self.positions, self.failures, self.groups))

    def store(self, key: ObjectKey, raw: Json) -> None:
        """Write an object as it is, with a new resourceVersion."""
        self.objects[key] = {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(next(self._versions))}}

    def _at(self) -> int:
        return int(self.now * 1000)

    def _receiver(self, name: str) -> ReceiverReport:
        return ReceiverReport(
            name, self._at(), self.held_at.get(name, self.end), closed=self.closed, tls=name in self.serving_tls
        )

    def _delivered(self) -> set[str]:
        return set(self._lanes() | self.held_lanes)

    def _driver(self) -> DriverReport:
        topics = {name: TopicReport("run", "RUNNING", self.shortages.get(name, "")) for name in self._delivered()}
        topics |= {name: TopicReport("run", "STARTING", problem) for name, problem in self.problems.items()}
        at = self.end if self.driver_at is None else self.driver_at
        return DriverReport("d1", self._at(), at, topics, self.driver_lanes)

    def _lanes(self) -> dict[str, list[str]]:
        lanes: dict[str, list[str]] = {}
        for record in self.contract.values():
            for egress in record.resource.egresses:
                lanes.setdefault(record.resource.topics[0], []).append(egress.uid)
        return lanes

    def _workers(self) -> Iterator[WorkerReport]:
        if not self.dispatcher:
            return
        lanes = self._lanes() | self.held_lanes
        for key, facts in self.topics.items():
            if key.topic not in lanes or key.topic in self.problems:
                continue
            reports = {uid: self.lane_reports.get(uid, LaneReport()) for uid in lanes[key.topic]}
            for index in range(facts.partitions):
                offset = self.held_at.get("workers", self.end)
                report = WorkerReport(key.topic, facts.topic_id, "run", index, facts.partitions, self._at())
                yield replace(report, contract_offset=offset, lanes=reports, closed=self.closed)

    def _do(self, action: model.Action) -> bool:
        problem = self.refuse.get(type(action)) or (self.kafka_down if isinstance(action, _AT_KAFKA) else "")
        if problem:
            attempts = self.failures[action].attempts + 1 if action in self.failures else 1
            self.failures[action] = model.Failure(problem, attempts, self.now)
            return False
        self.failures.pop(action, None)
        self.log.append(action)
        self._effect(action)
        return True

    def _effect(self, action: model.Action) -> None:
        match action:
            case model.CreateTopic(topic, partitions):
                self.topics.setdefault(topic, TopicFacts(f"T{next(self._topic_ids)}", partitions))
            case model.DeleteTopic(topic):
                self.topics.pop(topic, None)
            case model.WriteInitialPositions(lane, _, topic_id, group, _, partitions):
                self.positions.setdefault(lane, {}).update(dict.fromkeys(partitions, topic_id))
                self.groups.add(group)
            case model.DeleteGroup(_, group):
                self.groups.discard(group)
            case model.DropPositions(lane):
                self.positions.pop(lane, None)
            case model.AddFinalizer(key, _, finalizer):
                self._finalizers(key, {*self.objects[key]["metadata"].get("finalizers", ()), finalizer})
            case model.RemoveFinalizer(key, _, finalizer):
                self._finalizers(key, {*self.objects[key]["metadata"].get("finalizers", ())} - {finalizer})
            case model.CreateObject(key, manifest):
                assert self.write(json.loads(manifest), user=CONTROLLER) == key
            case model.PatchObject(key, _, patch):
                spec = {**self.objects[key]["spec"], **json.loads(patch)["spec"]}
                self.write({**self.objects[key], "spec": spec}, user=CONTROLLER)
            case model.DeleteObject(key):
                self.delete(key)

    def _finalizers(self, key: ObjectKey, finalizers: set[str]) -> None:
        raw = self.objects[key]
        if raw["metadata"].get("deletionTimestamp") and not finalizers:
            del self.objects[key]
        else:
            self.store(key, {**raw, "metadata": {**raw["metadata"], "finalizers": sorted(finalizers)}})


_AT_KAFKA = (model.CreateTopic, model.DeleteTopic, model.WriteInitialPositions, model.DeleteGroup, model.SettleGroup)


class _Topics(Mapping[TopicKey, model.TopicState]):
    """Every topic that is asked for has an answer."""

    def __init__(self, home: FakeHome) -> None:
        self._home = home

    def __getitem__(self, key: TopicKey) -> model.TopicState:
        if self._home.kafka_down:
            return model.KafkaProblem(self._home.kafka_down)
        return self._home.topics.get(key) or model.TopicAbsent()

    def __iter__(self) -> Iterator[TopicKey]:
        return iter(self._home.topics)

    def __len__(self) -> int:
        return len(self._home.topics)
