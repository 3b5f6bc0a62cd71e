"""The contract in ConfigMaps, in the format and under the names of eventing-kafka-broker.

Receivers read two: one with the ingresses of Brokers, one with those of channels; each dispatcher reads its own, with the egresses (and
the ingresses they belong to) of its topics. One generation counts the changes of all of them, and grows across deletions, so that it
can serve as the mark that a reader's report reaches. The binary encoding of the peer is refused: what another controller wrote in it
is not overwritten.
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.base.clock import Clock
from headrace.base.errors import Terminal
from headrace.base.log import get_logger
from headrace.control.model import Json, ObjectKey
from headrace.core.contract import Contract, Reference, Resource, dump, parse_contract, to_json
from headrace.kube.api import APPLY_PATCH, Api
from headrace.kube.labels import MANAGED
from headrace.kube.mirror import Mirror
from headrace.kube.places import CONFIG_MAP

log = get_logger(__name__)
BROKERS = "kafka-broker-brokers-triggers"
CHANNELS = "kafka-channel-channels-subscriptions"
RECEIVERS = (BROKERS, CHANNELS)
DATA = "data"


@dataclass(frozen=True, slots=True)
class Split:
    """What belongs into which ConfigMap, by its name; the two of the receivers are always there."""

    maps: Mapping[str, Mapping[str, Resource]]

    @classmethod
    def of(
        cls, contract: Mapping[str, Resource], owners: Mapping[str, Reference], dispatcher_of: Callable[[Reference], str | None]
    ) -> Split:
        """`owners`: topic -> its Broker or KafkaChannel, as far as known from before; `dispatcher_of`: the name of the map of one."""
        maps: dict[str, dict[str, Resource]] = {name: {} for name in RECEIVERS}
        known = dict(owners)
        for uid, resource in contract.items():
            if resource.ingress is not None:
                maps[BROKERS if resource.reference.kind == "Broker" else CHANNELS][uid] = resource
                known.update(dict.fromkeys(resource.topics, resource.reference))
        for uid, resource in contract.items():
            owner = next((known[topic] for topic in resource.topics if topic in known), None)
            name = None if owner is None else dispatcher_of(owner)
            if owner is not None and name is not None:
                maps.setdefault(name, {})[uid] = owned(resource, owner)
        return cls(maps)


def owned(resource: Resource, owner: Reference) -> Resource:
    """A resource as dispatchers read it: an egress under the name of its Broker or channel, which `--only` selects by."""
    return resource if resource.ingress is not None else replace(resource, reference=owner)


def unowned(resource: Resource) -> Resource:
    """The resource as the control plane knows it: an egress under its own name."""
    return resource if resource.ingress is not None else replace(resource, reference=resource.egresses[0].reference)


class ContractMaps:
    """`write` brings the ConfigMaps of a namespace to what is wanted; `mirror` has those that are there."""

    def __init__(self, api: Api, mirror: Mirror, namespace: str, clock: Clock, owners: Callable[[], list[Json]]) -> None:
        self._api = api
        self._mirror = mirror
        self._namespace = namespace
        self._clock = clock
        self._owners = owners
        self._lock = threading.Lock()
        self._marks: dict[str, int] = {}
        self._dropped: dict[str, int] = {}
        self._seen: dict[str, tuple[Json, Contract]] = {}

    def contracts(self) -> dict[str, Contract]:
        """The contracts as they are there, by name of their map. Raises `Terminal` for one that can't be read."""
        found = {}
        for key, obj in self._mirror.objects().items():
            if key.namespace == self._namespace and (key.name in RECEIVERS or _is_ours(obj)):
                found[key.name] = self._parsed(key, obj)
        return found

    def owners(self) -> dict[str, Reference]:
        """Topic -> its Broker or KafkaChannel, as the maps say."""
        return {
            topic: resource.reference
            for contract in self.contracts().values()
            for resource in contract.resources
            for topic in resource.topics
        }

    def mark(self, uid: str) -> int:
        """The generation of the receivers' maps that has the resource as it is now, or (dropped lately) does not have it any more."""
        with self._lock:
            return self._marks.get(uid, self._dropped.get(uid, self._highest(RECEIVERS)))

    @property
    def generation(self) -> int:
        """The highest that is there."""
        return self._highest(self._seen)

    def _highest(self, names: Iterable[str]) -> int:
        return max((self._seen[name][1].generation for name in names if name in self._seen), default=0)

    def write(self, split: Split, trust_bundles: tuple[str, ...], obsolete: Iterable[str]) -> list[str]:
        """The names of the maps that were written. `obsolete` ones are deleted. Raises what the API raises."""
        there = self.contracts()
        wanted = {
            name: Contract(resources=tuple(resources.values()), trust_bundles=trust_bundles)
            for name, resources in split.maps.items()
        }
        stale = [name for name, contract in wanted.items() if name not in there or not _same(there[name], contract)]
        if any(name in RECEIVERS for name in stale):
            # Both or none: a reader of two files is as far as the older of the two.
            stale = [*RECEIVERS, *(name for name in stale if name not in RECEIVERS)]
        generation = self._next(there)
        for name in stale:
            self._remember(there.get(name, Contract()), wanted[name], generation)
            self._put(name, replace(wanted[name], generation=generation))
        for name in obsolete:
            if name in there:
                self._api.delete(CONFIG_MAP.path(self._namespace, name))
        if stale:
            log.info("Contract written", maps=", ".join(stale), generation=generation)
        return stale

    def _next(self, there: Mapping[str, Contract]) -> int:
        highest = max((contract.generation for contract in there.values()), default=0)
        # A map that was deleted must come back with more than it had: nobody writes a map more than once a second for long.
        complete = all(name in there for name in RECEIVERS)
        return max(highest, self.generation) + 1 if complete else max(highest + 1, int(self._clock.now()))

    def _remember(self, before: Contract, after: Contract, generation: int) -> None:
        old = {resource.uid: resource for resource in before.resources}
        new = {resource.uid: resource for resource in after.resources}
        with self._lock:
            for uid, resource in new.items():
                if uid not in old or dump(old[uid]) != dump(resource):
                    self._marks[uid] = generation
                    self._dropped.pop(uid, None)
            for uid in old.keys() - new.keys():
                self._marks.pop(uid, None)
                self._dropped[uid] = generation

    def _put(self, name: str, contract: Contract) -> None:
        text = json.dumps(to_json(contract), separators=(",", ":"))
        obj = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                "labels": MANAGED | {"app.kubernetes.io/component": "contract"},
                "ownerReferences": self._owners(),
            },
            "binaryData": {DATA: base64.b64encode(text.encode()).decode()},
        }
        self._mirror.note(self._api.patch(CONFIG_MAP.path(self._namespace, name), obj, APPLY_PATCH))

    def _parsed(self, key: ObjectKey, obj: Json) -> Contract:
        known = self._seen.get(key.name)
        if known is not None and known[0] is obj:
            return known[1]
        contract = read_contract(obj, str(key))
        self._seen[key.name] = (obj, contract)
        return contract


def read_contract(obj: Json, subject: str) -> Contract:
    """The contract in a ConfigMap; empty when it holds none. Raises `Terminal` when it is not JSON."""
    text = (obj.get("binaryData") or {}).get(DATA)
    if not text:
        return Contract()
    try:
        raw = base64.b64decode(text, validate=True)
        if raw.lstrip()[:1] not in (b"{", b""):
            raise ValueError
        return parse_contract(raw)
    except (binascii.Error, ValueError):
        raise Terminal(
            "holds a contract that is not JSON",
            subject=subject,
            hint="Set *_CONTRACT_CONFIG_MAP_FORMAT=json for the controller that wrote it, or delete the ConfigMap",
        ) from None


def _same(one: Contract, other: Contract) -> bool:
    if one.trust_bundles != other.trust_bundles or len(one.resources) != len(other.resources):
        return False
    mine = {resource.uid: resource for resource in one.resources}
    return all(
        uid in mine and (mine[uid] == resource or dump(mine[uid]) == dump(resource))
        for uid, resource in ((resource.uid, resource) for resource in other.resources)
    )


def _is_ours(obj: Json) -> bool:
    labels = obj["metadata"].get("labels") or {}
    return labels.items() >= MANAGED.items() and labels.get("app.kubernetes.io/component") == "contract"
