"""The contract as records of a compacted topic, and the state that a reader builds from them.

Keys: the uid of a contract Resource -> its JSON; `@contract` -> generation and trust bundles; `@run/TOPIC` -> the run in force for
that topic; `@drain/RUN` -> that run is to stop; `@lanes/RUN` -> orders to the workers of that run (`dispatcher.spec`). A tombstone
removes the key. That a record is absent never means drain. Keys with `@` that are not known here are left to who knows them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from headrace.base.errors import Terminal
from headrace.core.contract import Contract, Egress, Resource, dump, parse_resource

CONTRACT_KEY = "@contract"
_RUN = "@run/"
_DRAIN = "@drain/"


class What(StrEnum):
    """What a record of the contract topic is about."""

    RESOURCE = "resource"
    CONTRACT = "contract"
    RUN = "run"
    DRAIN = "drain"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Change:
    """One applied record. `name` is the uid, topic or run; `error` is set when the record could not be read (old value kept)."""

    what: What
    name: str
    removed: bool = False
    error: Terminal | None = None


@dataclass(slots=True)
class ContractState:
    """What the records so far say. `offset` is that of the last record applied (-1: none), `applied` those of the resources."""

    resources: dict[str, Resource] = field(default_factory=dict)
    applied: dict[str, int] = field(default_factory=dict)
    generation: int = 0
    trust_bundles: tuple[str, ...] = ()
    runs: dict[str, str] = field(default_factory=dict)
    drains: set[str] = field(default_factory=set)
    offset: int = -1

    def apply(self, key: str, value: bytes | None, offset: int) -> Change:
        """Take one record in. A value that can't be read leaves the state as it was and comes back as `Change.error`."""
        self.offset = offset
        what, name = _what(key)
        try:
            if what is What.RESOURCE:
                self._resource(name, value, offset)
            elif what is What.RUN:
                _put(self.runs, name, None if value is None else str(_object(value, key)["run"]))
            elif what is What.OTHER:
                pass
            elif what is What.DRAIN:
                (self.drains.discard if value is None else self.drains.add)(name)
            else:
                head = {} if value is None else _object(value, key)
                self.generation = int(head.get("generation", 0))
                self.trust_bundles = tuple(str(bundle) for bundle in head.get("trustBundles", ()))
        except (Terminal, KeyError, TypeError, ValueError) as error:
            known = (
                error if isinstance(error, Terminal) else Terminal(f"unreadable: {error!r}", subject=f"contract record {key}")
            )
            return Change(what, name, removed=value is None, error=known)
        return Change(what, name, removed=value is None)

    def _resource(self, uid: str, value: bytes | None, offset: int) -> None:
        _put(self.resources, uid, None if value is None else parse_resource(value))
        _put(self.applied, uid, None if value is None else offset)

    def copy(self) -> ContractState:
        """One that may be changed by itself."""
        return replace(
            self,
            resources=dict(self.resources),
            applied=dict(self.applied),
            runs=dict(self.runs),
            drains=set(self.drains),
        )

    def of_topic(self, topic: str) -> ContractState:
        """What concerns the workers of `topic`: who goes on from here has to read only the records after `offset`."""
        some = self.copy()
        some.resources = {uid: one for uid, one in self.resources.items() if topic in one.topics}
        some.applied = {uid: offset for uid, offset in self.applied.items() if uid in some.resources}
        some.runs = {name: run for name, run in self.runs.items() if name == topic}
        return some

    def ingresses(self) -> list[Resource]:
        """All resources that take events in."""
        return [resource for resource in self.resources.values() if resource.ingress is not None]

    def egresses(self) -> dict[tuple[str, str], list[tuple[Resource, Egress]]]:
        """All egresses with the resource they belong to, grouped by (bootstrap servers, topic)."""
        grouped: dict[tuple[str, str], list[tuple[Resource, Egress]]] = defaultdict(list)
        for resource in self.resources.values():
            for topic in resource.topics:
                for egress in resource.egresses:
                    grouped[resource.bootstrap_servers, topic].append((resource, egress))
        return dict(grouped)


def records_of(contract: Contract) -> dict[str, bytes]:
    """The records that say the same as a whole contract (a file's); raises `Terminal` on a resource without uid or with a double one."""
    records = {CONTRACT_KEY: _dump({"generation": str(contract.generation), "trustBundles": list(contract.trust_bundles)})}
    for index, resource in enumerate(contract.resources):
        if not resource.uid or resource.uid.startswith("@"):
            raise Terminal("a resource needs a uid", subject=f"contract.resources[{index}]")
        if resource.uid in records:
            raise Terminal("two resources have this uid", subject=f"contract.resources[{index}].uid {resource.uid}")
        records[resource.uid] = dump(resource)
    return records


def run_record(topic: str, run: str, at_ms: int) -> tuple[str, bytes]:
    """Key and value that put `run` in force for `topic`."""
    return _RUN + topic, _dump({"run": run, "at": at_ms})


def drain_record(run: str, at_ms: int, reason: str) -> tuple[str, bytes]:
    """Key and value that ask the workers of `run` to finish and stop."""
    return _DRAIN + run, _dump({"at": at_ms, "reason": reason})


def drain_key(run: str) -> str:
    """Key of the drain of `run`, to remove it once the run is over."""
    return _DRAIN + run


def _what(key: str) -> tuple[What, str]:
    if key == CONTRACT_KEY:
        return What.CONTRACT, key
    for prefix, what in ((_RUN, What.RUN), (_DRAIN, What.DRAIN)):
        if key.startswith(prefix):
            return what, key[len(prefix) :]
    return (What.OTHER if key.startswith("@") else What.RESOURCE), key


def _put(target: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        target.pop(key, None)
    else:
        target[key] = value


def _object(value: bytes, key: str) -> Mapping[str, Any]:
    raw = json.loads(value)
    if not isinstance(raw, dict):
        raise Terminal("expected a JSON object", subject=f"contract record {key}")
    return raw


def _dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
