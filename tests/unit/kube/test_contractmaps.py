"""What goes into which ConfigMap, and what is read back."""

from __future__ import annotations

import base64
import json
from typing import Any, cast

import pytest

from headrace.base.clock import VirtualClock
from headrace.base.errors import Terminal
from headrace.control.model import ObjectKey
from headrace.core.contract import Contract, Egress, Ingress, Reference, Resource, to_json
from headrace.kube.api import Api
from headrace.kube.contractmaps import BROKERS, CHANNELS, ContractMaps, Split, owned, read_contract, unowned
from headrace.kube.labels import MANAGED
from headrace.kube.mirror import Mirror


def ingress(uid: str, kind: str, topic: str) -> Resource:
    reference = Reference(uuid=uid, namespace="n", name=uid, kind=kind)
    return Resource(uid=uid, topics=(topic,), bootstrap_servers="k:1", ingress=Ingress(path=f"/{uid}"), reference=reference)


def egress(uid: str, topic: str) -> Resource:
    reference = Reference(uuid=uid, namespace="n", name=uid, kind="Trigger")
    one = Egress(uid=uid, consumer_group="g", destination="http://x", reference=reference)
    return Resource(uid=uid, topics=(topic,), bootstrap_servers="k:1", egresses=(one,), reference=reference)


def name_of(owner: Reference) -> str | None:
    return {"Broker": "brokers", "KafkaChannel": f"channel-{owner.name}"}.get(owner.kind)


def split(*resources: Resource, **owners: Reference) -> dict[str, set[str]]:
    made = Split.of({resource.uid: resource for resource in resources}, owners, name_of)
    return {name: set(parts) for name, parts in made.maps.items()}


def test_ingresses_go_to_receivers_by_kind_and_with_their_egresses_to_dispatchers() -> None:
    maps = split(ingress("b", "Broker", "tb"), ingress("c", "KafkaChannel", "tc"), egress("t", "tb"), egress("s", "tc"))
    assert maps == {BROKERS: {"b"}, CHANNELS: {"c"}, "brokers": {"b", "t"}, "channel-c": {"c", "s"}}


def test_an_egress_stays_with_its_dispatcher_when_its_ingress_is_gone() -> None:
    owner = Reference(uuid="c", namespace="n", name="c", kind="KafkaChannel")
    assert split(egress("s", "tc"), tc=owner) == {BROKERS: set(), CHANNELS: set(), "channel-c": {"s"}}


def test_dispatchers_see_egresses_under_the_name_of_their_owner_and_back() -> None:
    owner = Reference(uuid="c", namespace="n", name="c", kind="KafkaChannel")
    one = egress("s", "tc")
    assert owned(one, owner).reference == owner
    assert unowned(owned(one, owner)) == one


def test_the_binary_encoding_is_refused() -> None:
    data = {"binaryData": {"data": base64.b64encode(b"\x08\x07\x12\x04abcd").decode()}}
    with pytest.raises(Terminal, match="not JSON"):
        read_contract(data, "configmap/n/x")


def test_the_peers_contract_is_read() -> None:
    text = json.dumps({"generation": "7", "resources": [{"uid": "u", "topics": ["t"], "ingress": {"path": "/p"}}]})
    contract = read_contract({"binaryData": {"data": base64.b64encode(text.encode()).decode()}}, "configmap/n/x")
    assert contract.generation == 7
    assert contract.resources[0].uid == "u"


class There:
    """A mirror of ConfigMaps, and the API that writes them."""

    def __init__(self, **generations: int) -> None:
        self.maps = {name.replace("_", "-"): self.made(Contract(generation=number)) for name, number in generations.items()}

    @staticmethod
    def made(contract: Contract) -> dict[str, Any]:
        text = json.dumps(to_json(contract))
        return {
            "metadata": {"labels": {**MANAGED, "app.kubernetes.io/component": "contract"}},
            "binaryData": {"data": base64.b64encode(text.encode()).decode()},
        }

    def objects(self) -> dict[ObjectKey, dict[str, Any]]:
        return {ObjectKey("", "ConfigMap", "n", name): obj for name, obj in self.maps.items()}

    def patch(self, path: str, obj: dict[str, Any], kind: str) -> dict[str, Any]:
        return obj

    def note(self, obj: dict[str, Any]) -> None:
        self.maps[obj["metadata"]["name"]] = obj


def maps_of(there: There) -> ContractMaps:
    made = ContractMaps(cast(Api, there), cast(Mirror, there), "n", VirtualClock(), list)
    made.contracts()
    return made


def test_receivers_are_never_asked_for_a_generation_that_only_a_dispatcher_has() -> None:
    there = There(**{BROKERS.replace("-", "_"): 5, CHANNELS.replace("-", "_"): 5, "kafka_broker_dispatcher": 9})
    maps = maps_of(there)
    assert maps.generation == 9
    assert maps.mark("never in a contract") == 5


def test_what_was_written_or_dropped_is_marked_with_the_generation_that_did_it() -> None:
    there = There(**{BROKERS.replace("-", "_"): 5, CHANNELS.replace("-", "_"): 5, "brokers": 9})
    maps = maps_of(there)
    one, two = ingress("one", "Broker", "t1"), ingress("two", "Broker", "t2")
    maps.write(Split({BROKERS: {"one": one, "two": two}, CHANNELS: {}, "brokers": {}}), (), ())
    maps.contracts()
    assert maps.mark("one") == maps.mark("two") == 10
    maps.write(Split({BROKERS: {"two": two}, CHANNELS: {}, "brokers": {}}), (), ())
    maps.contracts()
    assert (maps.mark("one"), maps.mark("two")) == (11, 10)
