"""What the control loop acts on in Kubernetes: the cluster's objects, the contract in ConfigMaps, the positions and reports in Kafka.

Marks. A report's `contract_offset` is a generation at a receiver (it reads the ConfigMaps), and an offset of the contract topic at a
dispatcher (its driver republishes its ConfigMap there). So an ingress is marked by the generation that has it; an egress by the offset of
its record in the topic once that says the same as the ConfigMap, and by one that nobody has reached until then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.base.clock import Clock
from headrace.control.addresses import has_certificate
from headrace.control.model import Action, ContractRecord, Failure, Json, ObjectKey, Observed, Plan
from headrace.control.settings import Settings
from headrace.core.contract import Contract, Reference, dump
from headrace.core.resources.annotations import BROKER_CLASS
from headrace.core.resources.base import Json as RawJson
from headrace.core.resources.features import DISABLED, PERMISSIVE
from headrace.home.tables import ContractTable, PositionTable, ReportTable, Written
from headrace.home.topicwatch import TopicWatch
from headrace.kube.contractmaps import RECEIVERS, ContractMaps, Split, unowned
from headrace.kube.dataplane import Served, channel_service, dispatcher_for, wanted_objects
from headrace.kube.labels import RECEIVER
from headrace.kube.mirror import Mirrors
from headrace.kube.places import OURS
from headrace.kube.settings import OperatorSettings
from headrace.kube.upkeep import AUTH_VERSION, Upkeep

UNREACHED = 2**62
_FORGET_MS = 3_600_000
_INGRESS_KINDS = ("Broker", "KafkaChannel")
_GUARD = "kafka.headrace.dev/"
_OURS = frozenset((place.group, place.kind) for place in OURS)


@dataclass(frozen=True, slots=True)
class Tables:
    """What is read from Kafka."""

    contract: ContractTable
    positions: PositionTable
    reports: ReportTable


class KubeWorld:
    """`observe`, `write_contract` and `follow` are those of the control loop's `World`, all called by its thread."""

    def __init__(
        self,
        settings: OperatorSettings,
        home: Callable[[], Settings],
        mirrors: Mirrors,
        maps: ContractMaps,
        upkeep: Upkeep,
        tables: Tables,
        topics: TopicWatch,
        clock: Clock,
        leading: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        """`home`: the settings in force. `leading` raises when another operator leads; `changed` asks for another round."""
        self._settings = settings
        self._home = home
        self._mirrors = mirrors
        self._maps = maps
        self._upkeep = upkeep
        self._tables = tables
        self._topics = topics
        self._clock = clock
        self._leading = leading
        self._changed = changed
        self.references: frozenset[ObjectKey] = frozenset()

    def observe(self, failures: Mapping[Action, Failure]) -> Observed:
        """The world as it is now. Raises `Terminal` for a contract that can't be read."""
        now = self._clock.now()
        self._tables.reports.forget_older_than(int(now * 1000) - _FORGET_MS)
        written = self._tables.contract.written()
        objects = self._objects()
        contract = self._contract(written)
        return Observed(
            now=now,
            settings=self._home(),
            objects=objects,
            looked_up=self._mirrors.looked_up(self.references),
            topics=self._topics.states(),
            positions=self._tables.positions.topic_ids(),
            contract=contract,
            dropped=self._dropped(objects, contract, written),
            contract_end=written.end,
            runs=written.runs,
            receivers=self._tables.reports.receivers(),
            workers=self._tables.reports.workers(),
            drivers=self._tables.reports.drivers(),
            failures=failures,
        )

    def follow(self, plan: Plan) -> None:
        """Observe what the plan needs to know of."""
        if not plan.references <= self.references:
            # What is there already is shown to the next round, which nothing else may ask for.
            self._changed()
        self.references = plan.references
        self._mirrors.follow(plan.references)
        self._topics.follow(plan.topics)

    def write_contract(self, plan: Plan) -> None:
        """ConfigMaps first, then the pods that read them."""
        self._leading()
        served = self._served()
        names = {(one.kind, one.namespace, one.name): dispatcher_for(one, self._settings.plane) for one in served}

        def dispatcher_of(owner: Reference) -> str | None:
            return names.get((owner.kind, owner.namespace, owner.name))

        split = Split.of(plan.contract, self._maps.owners(), dispatcher_of)
        complete = Split({name: split.maps.get(name, {}) for name in {*RECEIVERS, *names.values(), *split.maps}})
        there = self._maps.contracts()
        written = self._maps.write(complete, plan.trust_bundles, there.keys() - complete.maps.keys())
        if self._settings.deploys:
            self._upkeep.keep(self._plane(served))
        if written:
            pods = {RECEIVER if name in RECEIVERS else name for name in written}
            self._upkeep.refresh_pods(sorted(pods), self._maps.generation)

    def _plane(self, served: list[Served]) -> list[Json]:
        settings = self._settings
        objects = wanted_objects(served, settings.plane, settings.namespace, self._upkeep.owners(), self._encryption())
        version = self._upkeep.auth_version(settings.plane.auth_secret)
        for obj in objects:
            if obj["kind"] == "Deployment" and settings.plane.auth_secret:
                obj["spec"]["template"]["metadata"]["annotations"] = {AUTH_VERSION: version}
        domain = settings.home.cluster_domain
        aliases = [
            channel_service(one.name, one.namespace, one.uid, settings.namespace, domain)
            for one in served
            if one.kind == "KafkaChannel" and not self._deleting(one)
        ]
        return [*objects, *aliases]

    def _encryption(self) -> str:
        """The feature `transport-encryption` as receivers have it: what may be served plainly is, until there is a certificate."""
        home = self._home()
        mode = home.features.transport_encryption
        waits = mode == PERMISSIVE and home.secure is not None and not has_certificate(self._mirrors.get(home.secure.secret))
        return DISABLED if waits else mode

    def _deleting(self, one: Served) -> bool:
        obj = self._mirrors.get(ObjectKey("messaging.knative.dev", one.kind, one.namespace, one.name))
        return obj is None or "deletionTimestamp" in obj["metadata"]

    def _served(self) -> list[Served]:
        found = []
        for key, obj in self._mirrors.objects().items():
            if (key.group, key.kind) in _OURS and key.kind in _INGRESS_KINDS:
                metadata = obj["metadata"]
                given = (metadata.get("annotations") or {}).get(BROKER_CLASS)
                if key.kind == "KafkaChannel" or given in self._settings.home.broker_classes:
                    found.append(Served(key.kind, key.namespace, key.name, str(metadata["uid"])))
        return sorted(found, key=lambda one: (one.kind, one.namespace, one.name))

    def _objects(self) -> dict[ObjectKey, RawJson]:
        """Ours, what they refer to, and Secrets that we keep from going."""
        found = {}
        for key, obj in self._mirrors.objects().items():
            held = key.kind == "Secret" and any(name.startswith(_GUARD) for name in obj["metadata"].get("finalizers") or ())
            if (key.group, key.kind) in _OURS or key in self.references or held:
                found[key] = obj
        return found

    def _contract(self, written: Written) -> dict[str, ContractRecord]:
        records: dict[str, ContractRecord] = {}
        contracts = self._maps.contracts()
        for name in RECEIVERS:
            for resource in contracts.get(name, Contract()).resources:
                records[resource.uid] = ContractRecord(resource, self._maps.mark(resource.uid))
        for contract in contracts.values():
            for resource in contract.resources:
                if resource.ingress is None and resource.egresses:
                    republished = written.records.get(resource.uid)
                    same = republished is not None and (
                        republished.resource == resource or dump(republished.resource) == dump(resource)
                    )
                    mark = republished.offset if republished is not None and same else UNREACHED
                    records[resource.uid] = ContractRecord(unowned(resource), mark)
        return records

    def _dropped(
        self, objects: Mapping[ObjectKey, RawJson], contract: Mapping[str, ContractRecord], written: Written
    ) -> dict[str, int]:
        dropped = dict(written.dropped)
        # Dropped from its ConfigMap, but not from the topic yet: no dispatcher can have let go.
        dropped.update(dict.fromkeys(written.records.keys() - contract.keys(), UNREACHED))
        for key, obj in objects.items():
            uid = str(obj["metadata"].get("uid", ""))
            if uid not in contract and key.kind in _INGRESS_KINDS and (key.group, key.kind) in _OURS:
                dropped[uid] = self._maps.mark(uid)
        return dropped
